package cow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/runtime"
)

// TestPin checks that a repository stays as it was, but for its objects, while the host goes on.
func TestPin(t *testing.T) {
	m := newModel(t)
	m.setRules("**=write")
	for _, repo := range []string{".git/", ".git/modules/sub/"} {
		for _, name := range []string{"HEAD", "index", "config", "refs/heads/main", "objects/aa/1", "hooks/pre-commit", "logs/HEAD"} {
			m.writeHost(repo+name, "old "+name)
		}
		m.writeHost(repo+"index.lock", "")
	}
	m.writeHost("f", "f")
	m.must(os.Symlink("refs/heads/main", m.host(".git/link")))
	m.must(os.Chmod(m.host(".git/config"), 0o600))
	before := m.view()
	m.must(m.layers().Pin())

	pinned := m.view()
	for p, what := range before {
		switch p {
		case ".git/index.lock", ".git/modules/sub/index.lock":
			if _, there := pinned[p]; there {
				t.Errorf("%s is pinned", p)
			}
		default:
			if pinned[p] != what {
				t.Errorf("%s: %v, was %v", p, pinned[p], what)
			}
		}
	}
	// The host goes on.
	for _, repo := range []string{".git/", ".git/modules/sub/"} {
		m.writeHost(repo+"HEAD", "new")
		m.writeHost(repo+"packed-refs", "new")
		m.writeHost(repo+"refs/heads/other", "new")
		m.writeHost(repo+"objects/aa/2", "new")
		m.must(os.Remove(m.host(repo + "refs/heads/main")))
	}
	now := m.view()
	for p, what := range pinned {
		if now[p] != what {
			t.Errorf("%s: %v after the host's change, was %v", p, now[p], what)
		}
		delete(now, p)
	}
	for p := range now {
		if filepath.Base(filepath.Dir(p)) != "aa" {
			t.Errorf("%s shows", p)
		}
	}
	if len(now) != 2 {
		t.Errorf("of the host's objects %d show, want 2", len(now))
	}
	// Neither is a change of the sandbox's, and a second call changes nothing.
	m.must(m.layers().Pin())
	if all, err := m.layers().Changes(runtime.ChangesOptions{}); err != nil || len(all) > 0 {
		t.Errorf("changes: %+v, %v", all, err)
	}
	m.must(os.WriteFile(m.upper(".git/refs/heads/main"), []byte("a commit"), 0o644))
	all, err := m.layers().Changes(runtime.ChangesOptions{})
	if err != nil || len(all) != 1 || all[0].Path != ".git" || all[0].Unapplied == "" {
		t.Errorf("changes after a commit: %+v, %v", all, err)
	}
	m.clean()
}

// TestPinNothing checks what has no repository to pin.
func TestPinNothing(t *testing.T) {
	for _, make := range []func(m *model){
		func(*model) {},
		func(m *model) { m.must(os.WriteFile(m.host(".git"), []byte("gitdir: /x"), 0o644)) },
		func(m *model) { m.must(os.Symlink("/", m.host(".git"))) },
	} {
		m := newModel(t)
		make(m)
		m.must(m.layers().Pin())
		if left, err := os.ReadDir(m.upper("")); err != nil || len(left) > 0 {
			t.Errorf("the upper layer has %v, %v", left, err)
		}
	}
}

// TestDiscardPinsAgain: a sandbox that runs does not get the host's repository by a discard, but a copy of what that is then.
func TestDiscardPinsAgain(t *testing.T) {
	for what, paths := range map[string][]string{"all": nil, "the repository": {".git"}} {
		t.Run(what, func(t *testing.T) {
			m := newModel(t)
			m.setRules("**=write")
			for _, name := range []string{"HEAD", "index", "refs/heads/main", "objects/aa/1"} {
				m.writeHost(".git/"+name, "first")
			}
			m.must(m.layers().Pin())
			m.must(os.WriteFile(m.upper(".git/refs/heads/main"), []byte("inside"), 0o644))
			m.must(os.WriteFile(m.upper(".git/refs/heads/inside"), []byte("inside"), 0o644))
			for _, name := range []string{"HEAD", "index", "refs/heads/main", "refs/heads/other"} {
				m.writeHost(".git/"+name, "second")
			}
			want := m.hostView()
			_, err := m.layers().Discard(paths)
			m.must(err)
			if diff := differences(want, m.view()); len(diff) > 0 {
				t.Errorf("the sandbox has\n%s", strings.Join(diff, "\n"))
			}
			for _, name := range []string{"HEAD", "index", "refs/heads/main", "refs/heads/later"} {
				m.writeHost(".git/"+name, "third")
			}
			m.must(os.Remove(m.host(".git/refs/heads/other")))
			if diff := differences(want, m.view()); len(diff) > 0 {
				t.Errorf("after the host has gone on, the sandbox has\n%s", strings.Join(diff, "\n"))
			}
			if all := m.changes(); len(all) > 0 {
				t.Errorf("changes: %+v", all)
			}
			m.clean()
		})
	}
}
