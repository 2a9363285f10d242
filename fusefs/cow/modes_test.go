package cow

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// shutModes are modes that forbid the owner something.
var shutModes = []fs.FileMode{0, 0o111, 0o200, 0o400, 0o444, 0o555, 0o077}

// modesOf returns the modes of all directories and files at and below a path, and, with open,
// gives the owner all access.
func (m *model) modesOf(top string, open bool) map[string]uint32 {
	modes := map[string]uint32{}
	var walk func(p string)
	walk = func(p string) {
		o := lstat(p)
		if o == nil || !o.isDir() && !o.isFile() {
			return
		}
		rel, err := filepath.Rel(top, p)
		m.must(err)
		modes[rel] = o.perms()
		add := uint32(0o600)
		if o.isDir() {
			add = 0o700
		}
		m.must(os.Chmod(p, fs.FileMode(o.perms()|add)))
		if o.isDir() {
			names, err := os.ReadDir(p)
			m.must(err)
			for _, e := range names {
				walk(filepath.Join(p, e.Name()))
			}
		}
		if !open {
			m.must(os.Chmod(p, fs.FileMode(o.perms())))
		}
	}
	walk(top)
	return modes
}

// shut gives some directories and files of the upper layer modes that forbid their owner
// something, those below first, and returns the modes of all.
func (m *model) shut(r *rand.Rand) map[string]uint32 {
	all := slices.Sorted(maps.Keys(m.modesOf(m.upper(""), false)))
	for _, p := range slices.Backward(all) {
		if r.IntN(2) == 0 && p != "." {
			m.must(os.Chmod(m.upper(p), shutModes[r.IntN(len(shutModes))]))
		}
	}
	return m.modesOf(m.upper(""), false)
}

// without returns a view without modes.
func without(view map[string]string) map[string]string {
	bare := map[string]string{}
	for p, what := range view {
		if f := strings.SplitN(what, " ", 3); f[0] == "file" {
			what = "file " + f[2]
		} else if f[0] == "directory" {
			what = "directory"
		}
		bare[p] = what
	}
	return bare
}

// guarded returns layers whose Alone fails a test if it is called inside itself, which would hold
// a tree up for ever.
func (m *model) guarded() *Layers {
	l := m.layers()
	inside := false
	l.Alone = func(f func()) {
		if inside {
			m.t.Fatal("Alone in Alone")
		}
		inside = true
		defer func() { inside = false }()
		f()
	}
	return l
}

// TestModesOfTheSandbox: whatever modes the sandbox gives to its directories and files, its
// changes are listed, shown, copied, discarded, applied and folded, and the modes stay. It shows
// nothing for a user who may do all.
func TestModesOfTheSandbox(t *testing.T) {
	for seed := range rounds(t, 60, 2000) {
		m, r := newWorld(t, seed, 21, 30)
		t.Cleanup(func() { m.modesOf(m.dir, true) }) // else what is in it cannot be deleted
		want, before := m.view(), m.hostView()
		modes := m.shut(r)
		check := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, what, err)
			}
			for p, mode := range m.modesOf(m.upper(""), false) {
				if modes[p] != mode {
					t.Fatalf("seed %d: after %s: %q has the mode %o, had %o", seed, what, p, mode, modes[p])
				}
			}
		}
		changes, err := m.guarded().Changes(runtime.ChangesOptions{Lines: true})
		check("changes", err)
		check("diff", m.guarded().Diff(runtime.DiffOptions{}, new(strings.Builder)))

		dir := t.TempDir()
		log, err := os.Create(filepath.Join(dir, "log"))
		m.must(err)
		check("copy", m.guarded().Copy(openTestDir(t, dir), log))
		m.must(log.Close())
		m.must(os.Remove(log.Name()))
		copied := m.modesOf(dir, true)
		delete(copied, ".")
		for p, mode := range copied {
			if modes[p] != mode {
				t.Fatalf("seed %d: the copy of %q has the mode %o, want %o", seed, p, mode, modes[p])
			}
		}
		if len(copied) != len(modes)-1 {
			t.Fatalf("seed %d: %d directories and files are copied, want %d", seed, len(copied), len(modes)-1)
		}

		switch r.IntN(3) {
		case 0:
			if n, err := m.guarded().Discard(nil); err != nil || n != len(changes) {
				t.Fatalf("seed %d: discard: %d of %d: %v", seed, n, len(changes), err)
			}
			want = before
		case 1:
			for _, c := range changes {
				_, err := m.guarded().Discard([]string{c.Path})
				if class := runtime.Class(err); err != nil && class != runtime.ErrNotFound && class != runtime.ErrInvalid {
					t.Fatalf("seed %d: discard %q: %v", seed, c.Path, err)
				}
			}
			want = nil // a rename can take others along
		default:
			result, err := m.guarded().Apply(runtime.ApplyOptions{})
			if err != nil {
				t.Fatalf("seed %d: apply: %v: %+v", seed, err, result)
			}
			check("apply", nil)
			host := m.modesOf(m.host(""), false)
			for p, mode := range modes {
				if got, ok := host[p]; p != "." && (!ok || got != mode) {
					t.Fatalf("seed %d: on the host %q has the mode %o, want %o", seed, p, got, mode)
				}
			}
		}
		for range 2 {
			if left, err := m.guarded().Changes(runtime.ChangesOptions{}); err != nil || len(left) > 0 && want != nil {
				t.Fatalf("seed %d: changes afterwards: %+v %v", seed, left, err)
			}
			if err := m.guarded().Compact(); err != nil {
				t.Fatalf("seed %d: fold: %v", seed, err)
			}
		}
		m.modesOf(m.dir, true)
		if want == nil {
			want = m.hostView()
		}
		for name, view := range map[string]map[string]string{"the sandbox": m.view(), "the host": m.hostView()} {
			if diff := differences(without(want), without(view)); len(diff) > 0 {
				t.Fatalf("seed %d: %s has\n%s", seed, name, strings.Join(diff, "\n"))
			}
		}
	}
}

// TestModesOfLargeFiles: a file that borrows its content is read and renamed whatever its mode is.
func TestModesOfLargeFiles(t *testing.T) {
	m := newModel(t)
	t.Cleanup(func() { m.modesOf(m.dir, true) })
	m.must(os.Mkdir(m.host("dir"), 0o755))
	large := strings.Repeat("x", MinData)
	m.must(os.WriteFile(m.host("dir/file"), []byte(large), 0o644))
	m.rename("dir", "moved")
	m.write("own", large, 0o644)
	m.note("dir/file")
	m.must(os.WriteFile(m.upper("moved/file"), nil, 0o600))
	m.must(os.Truncate(m.upper("moved/file"), MinData))
	m.must(unix.Setxattr(m.upper("moved/file"), AttrData, []byte(DataLower), 0))
	m.must(unix.Setxattr(m.upper("moved/file"), AttrLower, []byte("dir/file"), 0))
	for _, p := range []string{"own", "moved/file", "moved"} {
		m.must(os.Chmod(m.upper(p), 0))
	}
	if all := m.changes(); len(all) != 3 {
		t.Errorf("changes: %+v", all)
	}
	if _, err := m.guarded().Apply(runtime.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if all := m.changes(); len(all) != 0 {
		t.Errorf("changes after apply: %+v", all)
	}
	m.modesOf(m.dir, true)
	for _, p := range []string{"own", "moved/file"} {
		if b, err := os.ReadFile(m.host(p)); err != nil || string(b) != large {
			t.Errorf("%s has %d bytes: %v", p, len(b), err)
		}
	}
}

// TestRenamedByBoth: the user has renamed the same directory, and a file in the upper layer that
// has to be compared then cannot be read by its mode.
func TestRenamedByBoth(t *testing.T) {
	m := newModel(t)
	m.must(os.Mkdir(m.host("a"), 0o755))
	m.must(os.WriteFile(m.host("a/file"), []byte("hello\n"), 0o644))
	m.rename("a", "b")
	m.write("b/file", "HELLO\n", 0)
	m.must(os.Chmod(m.upper("b/file"), 0))
	m.must(os.Rename(m.host("a"), m.host("b")))
	if _, err := m.guarded().Apply(runtime.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	m.must(os.Chmod(m.host("b/file"), 0o600))
	if got := describe(t, m.host("b/file")); !strings.Contains(got, "HELLO") {
		t.Error(fmt.Sprint("the host has ", got))
	}
}

// TestDirectoryBitsAreApplied: a directory has on the host the sticky bit that it has inside, and
// the group id that the host gives new files in it.
func TestDirectoryBitsAreApplied(t *testing.T) {
	const sticky, setGroup = unix.S_ISVTX, unix.S_ISGID
	mode := func(p string) uint32 { return uint32(lstat(p).Mode) & 0o7777 }
	m := newModel(t)
	for name, bits := range map[string]uint32{"shared": 0o775 | setGroup, "was": 0o777 | sticky, "stays": 0o777 | sticky} {
		m.must(os.Mkdir(m.host(name), 0o700))
		m.must(unix.Chmod(m.host(name), bits))
	}
	for name, bits := range map[string]uint32{"shared": 0o770, "was": 0o775 | sticky, "stays": 0o777 | sticky} {
		m.into(name)
		m.must(unix.Chmod(m.upper(name), bits)) // the server copies the sticky bit
	}
	for _, name := range []string{"tmp", "shared/new"} {
		m.mkdir(name)
		m.must(unix.Chmod(m.upper(name), 0o777|sticky))
	}
	if all := m.changes(); len(all) != 4 {
		t.Errorf("the changes are %+v", all)
	}
	fork := m.fork()
	for _, name := range []string{"tmp", "was"} {
		if got, want := mode(fork.upper(name)), mode(m.upper(name)); got != want {
			t.Errorf("%s is %o in a fork, %o here", name, got, want)
		}
	}
	if _, err := m.apply(runtime.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{
		"shared": 0o770 | setGroup, "was": 0o775 | sticky, "stays": 0o777 | sticky, "tmp": 0o777 | sticky, "shared/new": 0o777 | sticky | setGroup,
	} {
		if got := mode(m.host(name)); got != want {
			t.Errorf("%s has the mode %o on the host, want %o", name, got, want)
		}
	}
	if all := m.changes(); len(all) != 0 {
		t.Errorf("after the apply there are the changes %+v", all)
	}
}
