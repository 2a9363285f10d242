package cow

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

// TestTypeChanges: a file that replaces something of another type has the mode that it has inside,
// and what the host has put in place of what the sandbox has changed is a conflict, an empty
// directory too.
func TestTypeChanges(t *testing.T) {
	testenv.Both(t)
	foreign := func(m *model, p string) { // only root can give it away
		if os.Geteuid() == 0 {
			m.must(os.Lchown(m.host(p), 1234, 1234))
		}
	}
	write := func(m *model, mode os.FileMode) { m.must(os.WriteFile(m.host("f"), []byte("key\n"), mode)) }
	edit := func(m *model) { m.write("f", "secret\n", 0) }
	replace := func(m *model) {
		m.removeAll("f")
		m.write("f", "secret\n", 0o600)
	}
	for what, tt := range map[string]struct {
		seed, inside, later func(m *model) // on the host, inside, and on the host again
		conflict            bool
	}{
		"link of another user": {
			func(m *model) { m.must(os.Symlink("t", m.host("f"))); foreign(m, "f") }, replace, nil, false,
		},
		"directory of another user": {
			func(m *model) { m.must(os.Mkdir(m.host("f"), 0o755)); foreign(m, "f") }, replace, nil, false,
		},
		"the host puts a link in place": {
			func(m *model) { write(m, 0o600) }, edit,
			func(m *model) { m.must(os.Remove(m.host("f"))); m.must(os.Symlink("t", m.host("f"))) }, true,
		},
		"the host puts a directory in place": {
			func(m *model) { write(m, 0o600) }, edit,
			func(m *model) { m.must(os.Remove(m.host("f"))); m.must(os.Mkdir(m.host("f"), 0o755)) }, true,
		},
	} {
		t.Run(what, func(t *testing.T) {
			m := newModel(t)
			tt.seed(m)
			tt.inside(m)
			if tt.later != nil {
				tt.later(m)
			}
			was := lstat(m.host("f"))
			_, err := m.apply(runtime.ApplyOptions{})
			if tt.conflict != errors.Is(err, runtime.ErrConflict) || !tt.conflict && err != nil {
				t.Errorf("apply: %v", err)
			}
			if tt.conflict {
				if o := lstat(m.host("f")); o == nil || o.Ino != was.Ino {
					t.Error("what the host has made is gone")
				}
				if _, err := m.apply(runtime.ApplyOptions{Force: true}); err != nil {
					t.Errorf("by force: %v", err)
				}
			}
			if o := lstat(m.host("f")); o == nil || !o.isFile() || o.perms() != 0o600 {
				t.Errorf("the host has %s", describe(t, m.host("f")))
			}
		})
	}
}

// TestRenameOverWhatTheHostReplaced: an empty directory in place of the file whose name a renamed
// directory has is a conflict.
func TestRenameOverWhatTheHostReplaced(t *testing.T) {
	m := newModel(t)
	m.must(os.WriteFile(m.host("f"), []byte("x\n"), 0o644))
	m.must(os.Mkdir(m.host("dir"), 0o755))
	m.remove("f")
	m.rename("dir", "f")
	m.must(os.Remove(m.host("f")))
	m.must(os.Mkdir(m.host("f"), 0o755))
	was := lstat(m.host("f"))
	if _, err := m.apply(runtime.ApplyOptions{}); !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("apply: %v", err)
	}
	if o := lstat(m.host("f")); o == nil || o.Ino != was.Ino {
		t.Error("what the host has made is gone")
	}
}

// TestLeftIsUntouched stops an apply at each look, or has the host move what is renamed: what the
// host has at a path that is left is still there.
func TestLeftIsUntouched(t *testing.T) {
	for checks := 0; ; checks++ {
		m := newModel(t)
		m.must(os.Mkdir(m.host("dir"), 0o755))
		m.must(os.WriteFile(m.host("dir/x"), []byte("important\n"), 0o644))
		m.removeAll("dir")
		m.write("dir", "file\n", 0o644)
		m.write("other", "other\n", 0o644)
		if err := m.applyStopped(checks); err == nil {
			break
		}
		if o := lstat(m.host("dir")); o == nil || o.isDir() && lstat(m.host("dir/x")) == nil {
			t.Errorf("stopped at look %d: what the host had is gone", checks)
		}
	}
	m := newModel(t)
	for _, name := range []string{"a", "b"} {
		m.must(os.Mkdir(m.host(name), 0o755))
		m.must(os.WriteFile(m.host(name+"/x"), []byte("important\n"), 0o644))
	}
	m.removeAll("b")
	m.rename("a", "b")
	m.must(os.Rename(m.host("a"), m.host("elsewhere")))
	if _, err := m.apply(runtime.ApplyOptions{Force: true}); !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("apply: %v", err)
	}
	if lstat(m.host("b/x")) == nil {
		t.Error("what the host had at the target of a rename that was left is gone")
	}
}

// TestContentThatTheHostTookAway: a large file whose mode alone was changed has its content on the
// host. If the host removes that, all other changes are shown and applied, and nothing is removed
// for it.
func TestContentThatTheHostTookAway(t *testing.T) {
	m := newModel(t)
	large := strings.Repeat("x", MinData)
	all := []string{"deleted", "moved", "replaced"}
	for _, name := range all {
		m.must(os.WriteFile(m.host(name), []byte(large), 0o644))
		m.note(name)
		m.must(os.WriteFile(m.upper(name), nil, 0o755))
		m.must(os.Truncate(m.upper(name), MinData))
		m.must(unix.Setxattr(m.upper(name), AttrData, []byte(DataLower), 0))
		m.must(unix.Setxattr(m.upper(name), AttrLower, []byte(name), 0))
	}
	m.write("small", "new\n", 0o644)
	m.must(os.Remove(m.host("deleted")))
	m.must(os.Rename(m.host("moved"), m.host("elsewhere")))
	m.must(os.Remove(m.host("replaced")))
	m.must(os.Mkdir(m.host("replaced"), 0o755))
	if diff := m.diff(); !strings.Contains(diff, "+new") {
		t.Errorf("the diff is\n%s", diff)
	}
	m.changes()
	result, err := m.apply(runtime.ApplyOptions{Force: true})
	if err != nil || len(result.Applied) != 1 || len(result.Left) != len(all) {
		t.Errorf("apply: %+v, %v", result, err)
	}
	for _, c := range result.Left {
		if c.Unapplied == "" {
			t.Errorf(`got c %+v; want c.Unapplied != ""`, c)
		}
	}
	if lstat(m.host("replaced")) == nil || lstat(m.host("small")) == nil {
		t.Errorf("the host has %v", m.hostView())
	}
	o := lstat(m.upper("deleted"))
	applied := RecordOf("deleted", &o.Statx_t)
	m.must(m.log.Rebase(applied)) // what was applied before the host deleted it is no change
	all = all[1:]
	if n, err := m.layers().Discard(nil); err != nil || n != len(all) {
		t.Errorf("discard: %d, %v", n, err)
	}
}
