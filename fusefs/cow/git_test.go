package cow

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGitMark: a copy of a git directory is no change until something but its index is changed,
// also in a copy of the layer.
func TestGitMark(t *testing.T) {
	for what, change := range map[string]func(m *model, git string){
		"nothing":      func(*model, string) {},
		"the index":    func(m *model, git string) { m.must(os.WriteFile(git+"/index", []byte("x"), 0o644)) },
		"a reference":  func(m *model, git string) { m.must(os.WriteFile(git+"/refs/main", []byte("other"), 0o644)) },
		"a new file":   func(m *model, git string) { m.must(os.WriteFile(git+"/refs/new", nil, 0o644)) },
		"a removal":    func(m *model, git string) { m.must(os.Remove(git + "/HEAD")) },
		"the mark":     func(m *model, git string) { m.must(unix.Removexattr(git, AttrGit)) },
		"another mark": func(m *model, git string) { m.must(unix.Setxattr(git, AttrGit, []byte("x"), 0)) },
	} {
		t.Run(what, func(t *testing.T) {
			m := newModel(t)
			m.setRules("**=write")
			m.writeHost(".git/HEAD", "host")
			m.must(os.MkdirAll(m.upper("")+"/../made/.git/refs", 0o755))
			made := filepath.Join(m.upper(""), "../made")
			for _, name := range []string{"HEAD", "index", "refs/main"} {
				m.must(os.WriteFile(made+"/.git/"+name, []byte(name), 0o644))
			}
			dir, err := os.Open(made)
			m.must(err)
			defer dir.Close()
			m.must(MarkGit(int(dir.Fd())))
			m.must(os.Rename(made+"/.git", m.upper(".git")))
			change(m, m.upper(".git"))
			want := 1
			if what == "nothing" || what == "the index" {
				want = 0
			}
			if all := m.changes(); len(all) != want || want == 1 && (all[0].Path != ".git" || all[0].Unapplied == "") {
				t.Errorf("changes: %+v", all)
			}
			to, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
			upper, err := os.Open(to)
			m.must(err)
			defer upper.Close()
			f, err := os.Create(log)
			m.must(err)
			defer f.Close()
			m.must(m.layers().Copy(int(upper.Fd()), f))
			copied := *m.layers()
			copied.Upper = int(upper.Fd())
			p, err := copied.newPlan()
			m.must(err)
			if len(p.changes) != want {
				t.Errorf("%d changes of a copy", len(p.changes))
			}
			_, err = m.layers().Discard(nil)
			m.must(err)
			if _, err := os.Lstat(m.upper(".git")); !os.IsNotExist(err) {
				t.Errorf("discarded, it is there: %v", err)
			}
		})
	}
}
