package cow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// fork returns a model with the same host and a copy of the changes.
func (m *model) fork() *model {
	m.t.Helper()
	f := &model{t: m.t, dir: fastDir(m.t), rules: m.rules}
	for _, name := range []string{"upper", "work"} {
		m.must(os.Mkdir(filepath.Join(f.dir, name), 0o700))
	}
	m.must(os.Symlink(m.host(""), filepath.Join(f.dir, "host")))
	to, err := unix.Open(f.upper(""), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	m.must(err)
	log, err := os.OpenFile(filepath.Join(f.dir, "base.log"), os.O_RDWR|os.O_CREATE, 0o600)
	m.must(err)
	m.must(m.layers().Copy(to, log))
	m.must(log.Close())
	m.must(unix.Close(to))
	f.openLog()
	return f
}

// same fails if the sandbox does not see what it should.
func (m *model) same(what string, want map[string]string) {
	m.t.Helper()
	if diff := differences(want, m.view()); len(diff) > 0 {
		m.t.Errorf("%s: the sandbox has\n%s", what, strings.Join(diff, "\n"))
	}
}

// TestForkFollowsAppliedRenames: a fork, or what was a snapshot, has all its files after its
// renames were applied by the other.
func TestForkFollowsAppliedRenames(t *testing.T) {
	for what, look := range map[string]func(m *model) error{
		"a start": func(m *model) error { return m.layers().Compact() },
		"changes": func(m *model) error { _, err := m.layers().Changes(runtime.ChangesOptions{}); return err },
		"diff": func(m *model) error {
			if diff := m.diff(); diff != "" {
				m.t.Errorf("the diff is\n%s", diff)
			}
			return nil
		},
		"discard": func(m *model) error { _, err := m.layers().Discard(nil); return err },
	} {
		t.Run(what, func(t *testing.T) {
			m := newModel(t)
			for _, name := range []string{"dir/deep", "other"} {
				m.must(os.MkdirAll(m.host(name), 0o755))
				m.must(os.WriteFile(m.host(name+"/f"), []byte(name), 0o644))
				m.must(os.WriteFile(m.host(name+"/g"), []byte(name), 0o644))
			}
			m.rename("dir", "dir2")
			m.rename("dir2/deep", "dir2/deeper")
			m.rename("other", "dir2/other")
			m.write("dir2/other/g", "new", 0)
			want := m.view()
			fork := m.fork()
			if _, err := m.apply(runtime.ApplyOptions{}); err != nil {
				t.Fatal(err)
			}
			m.same("the first", want)
			m.must(look(fork))
			fork.same("the fork", want)
			if all := fork.changes(); len(all) > 0 {
				t.Errorf("the fork has the changes %+v", all)
			}
		})
	}
}

// TestParkedGoesOn kills an apply of directories that have changed their names in a ring, at each
// failpoint: a start, or what comes before a removal, leaves no temporary name on the host, and
// nothing is lost, also for the sandbox.
func TestParkedGoesOn(t *testing.T) {
	ring := []string{"a", "b", "c"}
	for what, recover := range map[string]func(l *Layers) error{"start": (*Layers).Compact, "removal": (*Layers).Recover} {
		staged := 0
		for points := 0; ; points++ {
			m := newModel(t)
			for _, d := range ring {
				m.must(os.Mkdir(m.host(d), 0o755))
				m.must(os.WriteFile(m.host(d+"/in"+d), []byte(d), 0o644))
			}
			m.rename("c", "t")
			m.rename("b", "c")
			m.rename("a", "b")
			m.rename("t", "a")
			want := m.view()
			if done, _, err := m.tryUntil(points); err != nil {
				t.Fatal(err)
			} else if done {
				break
			}
			for p := range m.hostView() {
				if strings.HasPrefix(p, TempPrefix) {
					staged++
					break
				}
			}
			m.must(recover(m.layers()))
			m.clean()
			if what == "start" {
				m.same("after a start", want)
			}
			files := 0
			for p := range m.hostView() {
				if strings.Contains(p, "/") {
					files++
				}
			}
			if files != len(ring) {
				t.Errorf("%s, killed at %d: the host has %v", what, points, m.hostView())
			}
			if _, err := m.apply(runtime.ApplyOptions{}); err != nil {
				t.Error(err)
			}
			if diff := differences(want, m.hostView()); len(diff) > 0 {
				t.Errorf("%s, killed at %d, applied: the host has\n%s", what, points, strings.Join(diff, "\n"))
			}
		}
		if staged < 3 {
			t.Errorf("%s: only %d times a directory was staged", what, staged)
		}
	}
}

// TestStopLeavesNothingParked stops an apply of the same at each look.
func TestStopLeavesNothingParked(t *testing.T) {
	for checks := 0; ; checks++ {
		m := newModel(t)
		for _, d := range []string{"a", "b"} {
			m.must(os.Mkdir(m.host(d), 0o755))
			m.must(os.WriteFile(m.host(d+"/in"+d), []byte(d), 0o644))
		}
		m.rename("a", "t")
		m.rename("b", "a")
		m.rename("t", "b")
		m.write("a/inb", "new", 0)
		if err := m.applyStopped(checks); err == nil {
			break
		}
	}
}
