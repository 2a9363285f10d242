package cow

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// noteAs records what the host has at a path, with its digest or without.
func (m *model) noteAs(p string, digest bool) {
	m.t.Helper()
	o := lstat(m.host(p))
	r := RecordOf(p, &o.Statx_t)
	if digest && o.isFile() {
		f, err := os.Open(m.host(p))
		m.must(err)
		defer f.Close()
		r.Digest, err = Digest(f)
		m.must(err)
	}
	m.must(m.log.Add(r))
}

// later calls f, which changes the host's file, until the file's ctime is another one: the
// kernel's clock has ticks.
func (m *model) later(p string, f func()) {
	m.t.Helper()
	for was := lstat(m.host(p)).ctime(); ; {
		f()
		if o := lstat(m.host(p)); o != nil && o.ctime() != was {
			return
		}
	}
}

// TestSameInodeSizeAndTime: another content with the inode, the size and the time of the old one,
// as an archive leaves that has one time for all its files, is the host's change.
func TestSameInodeSizeAndTime(t *testing.T) {
	for _, digest := range []bool{true, false} {
		m := newModel(t)
		m.must(os.Mkdir(m.host("dir"), 0o755))
		for _, p := range []string{"changed", "deleted", "dir/file"} {
			m.must(os.WriteFile(m.host(p), []byte("1.0.1\n"), 0o644))
			m.noteAs(p, digest)
		}
		m.write("changed", "inside\n", 0)
		m.remove("deleted")
		m.removeAll("dir")
		for _, p := range []string{"changed", "deleted", "dir/file"} {
			was := lstat(m.host(p))
			m.later(p, func() {
				m.must(os.WriteFile(m.host(p), []byte("1.0.2\n"), 0))
				m.must(unix.UtimesNanoAt(unix.AT_FDCWD, m.host(p), times(was), 0))
			})
			if !lstat(m.host(p)).same(was) {
				t.Fatalf("%s: it is another inode, or has another time", p)
			}
		}
		for _, c := range m.changes() {
			if c.Conflict == "" {
				t.Errorf("digest %v: no conflict: %+v", digest, c)
			}
		}
		if _, err := m.apply(runtime.ApplyOptions{}); !errors.Is(err, runtime.ErrConflict) {
			t.Errorf("digest %v: apply: %v", digest, err)
		}
		for _, p := range []string{"changed", "deleted", "dir/file"} {
			if got := describe(t, m.host(p)); !strings.Contains(got, "1.0.2") {
				t.Errorf("digest %v: %s on the host is %s", digest, p, got)
			}
		}
	}
}

// TestSameInodeWhileApplying is TestSameInodeSizeAndTime after Apply has compared.
func TestSameInodeWhileApplying(t *testing.T) {
	m := newModel(t)
	for _, p := range []string{"changed", "deleted"} {
		m.must(os.WriteFile(m.host(p), []byte("1.0.1\n"), 0o644))
		m.noteAs(p, true)
	}
	m.write("changed", "inside\n", 0)
	m.remove("deleted")
	m.must(os.Mkdir(m.host("dir"), 0o755))
	m.rename("dir", "renamed") // comes first
	l := m.layers()
	l.test = func(name string) {
		if name != "apply: directory renamed" {
			return
		}
		for _, p := range []string{"changed", "deleted"} {
			was := lstat(m.host(p))
			m.later(p, func() {
				m.must(os.WriteFile(m.host(p), []byte("1.0.2\n"), 0))
				m.must(unix.UtimesNanoAt(unix.AT_FDCWD, m.host(p), times(was), 0))
			})
		}
	}
	if result, err := l.Apply(runtime.ApplyOptions{}); !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("Apply: got result %+v, err %v; want err is runtime.ErrConflict", result, err)
	}
	for _, p := range []string{"changed", "deleted"} {
		if got := describe(t, m.host(p)); !strings.Contains(got, "1.0.2") {
			t.Errorf("%s on the host is %s", p, got)
		}
	}
}

// TestNamesAndModesAreNoConflict: what the host does to a file's mode or names changes its ctime,
// and not its content. A file that was renamed and has its name again looks like another one with
// the same time: then the digest has to tell.
func TestNamesAndModesAreNoConflict(t *testing.T) {
	for _, digest := range []bool{true, false} {
		m := newModel(t)
		all := []string{"mode", "linked", "renamed"}
		for _, p := range all {
			m.must(os.WriteFile(m.host(p), []byte("x\n"), 0o644))
			m.noteAs(p, digest)
		}
		m.write("mode", "inside\n", 0)
		m.remove("linked")
		m.remove("renamed")
		m.later("mode", func() {
			m.must(os.Chmod(m.host("mode"), 0o644))
			m.must(os.Chmod(m.host("mode"), 0o640))
		})
		n := 0
		m.later("linked", func() {
			m.must(os.Link(m.host("linked"), m.host("other"+strings.Repeat("x", n))))
			n++
		})
		m.later("renamed", func() {
			m.must(os.Rename(m.host("renamed"), m.host("away")))
			m.must(os.Rename(m.host("away"), m.host("renamed")))
		})
		for _, c := range m.changes() {
			if want := c.Path == "renamed" && !digest; (c.Conflict != "") != want {
				t.Errorf("digest %v: %+v", digest, c)
			}
		}
	}
}

// TestAllNamesOfAFile: the sandbox has deleted two names of one file, whose digest is not known;
// the second deletion finds a ctime that the first has changed. And one by one.
func TestAllNamesOfAFile(t *testing.T) {
	for _, paths := range [][]string{nil, {"a"}, {"dir/b"}} {
		m := newModel(t)
		m.must(os.Mkdir(m.host("dir"), 0o755))
		m.must(os.WriteFile(m.host("a"), []byte("x\n"), 0o644))
		m.must(os.Link(m.host("a"), m.host("dir/b")))
		m.must(os.Link(m.host("a"), m.host("dir/c")))
		for _, p := range []string{"a", "dir/b", "dir/c"} {
			m.noteAs(p, false)
		}
		m.remove("a")
		m.remove("dir/b")
		if paths == nil {
			m.removeAll("dir")
		}
		if paths != nil {
			if _, err := m.apply(runtime.ApplyOptions{Paths: paths}); err != nil {
				t.Error(err)
			}
		}
		if result, err := m.apply(runtime.ApplyOptions{}); err != nil {
			t.Errorf("%q: got err %v, result.Left %+v; want err == nil", paths, err, result.Left)
		}
		if lstat(m.host("a")) != nil || lstat(m.host("dir/b")) != nil {
			t.Errorf("%q: it is still there", paths)
		}
	}
}
