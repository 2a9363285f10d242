package cow

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

func (m *model) changes() []runtime.Change {
	m.t.Helper()
	all, err := m.layers().Changes(runtime.ChangesOptions{Lines: true})
	m.must(err)
	return all
}

// TestGitIsLeftOut: nothing in a git directory is applied, and nothing that would make one.
func TestGitIsLeftOut(t *testing.T) {
	m := newModel(t)
	m.must(os.MkdirAll(m.host(".git/refs"), 0o755))
	m.must(os.WriteFile(m.host(".git/HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
	m.must(os.MkdirAll(m.host("bare/refs"), 0o755))
	m.must(os.MkdirAll(m.host("bare/objects"), 0o755))
	m.write(".git/config", "[core]\n\tfsmonitor = evil\n", 0o644)
	m.write(".git/HEAD", "ref: refs/heads/other\n", 0)
	m.mkdir("sub")
	m.write("sub/.GIT", "gitdir: ../evil\n", 0o644)
	m.write("bare/HEAD", "ref: refs/heads/main\n", 0o644)
	m.write("file", "x\n", 0o644)
	result, err := m.apply(runtime.ApplyOptions{})
	if !errors.Is(err, runtime.ErrDenied) {
		t.Errorf("apply: %v", err)
	}
	for _, p := range []string{".git/config", "sub/.GIT", "bare/HEAD"} {
		if lstat(m.host(p)) != nil {
			t.Errorf("%s was applied", p)
		}
	}
	if got := describe(t, m.host(".git/HEAD")); !strings.Contains(got, "main") {
		t.Errorf(".git/HEAD is %s", got)
	}
	if lstat(m.host("file")) == nil || len(result.Left) != 3 {
		t.Errorf("applied %+v, left %+v", result.Applied, result.Left)
	}
	if diff := m.diff(); strings.Contains(diff, "evil") {
		t.Errorf("the diff has git's own files:\n%s", diff)
	}
}

// TestNothingIsFollowed: symbolic links of the sandbox's and of the host's lead nowhere.
func TestNothingIsFollowed(t *testing.T) {
	m := newModel(t)
	outside := t.TempDir()
	m.must(os.WriteFile(outside+"/file", []byte("outside\n"), 0o644))
	m.must(os.Mkdir(m.host("dir"), 0o755))
	m.must(os.WriteFile(m.host("dir/file"), []byte("x\n"), 0o644))
	m.write("dir/file", "changed\n", 0)
	m.write("dir/new", "new\n", 0o644)
	m.symlink(outside+"/file", "link")
	m.symlink(outside, "linkdir")
	m.must(unix.Mkfifo(m.upper("fifo"), 0o644))
	m.must(os.RemoveAll(m.host("dir")))
	m.must(os.Symlink(outside, m.host("dir")))
	diff := m.diff()
	if strings.Contains(diff, "+outside") || strings.Contains(diff, "-outside") {
		t.Errorf("the diff has what is outside:\n%s", diff)
	}
	for _, force := range []bool{false, true} {
		_, _ = m.apply(runtime.ApplyOptions{Force: force})
		if b, err := os.ReadFile(outside + "/file"); err != nil || string(b) != "outside\n" {
			t.Fatalf("force %v: the file outside is %q %v", force, b, err)
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
			t.Fatalf("force %v: outside there is %v %v", force, left, err)
		}
	}
	if o := lstat(m.host("link")); o == nil || !o.isLink() {
		t.Error("the link itself was not applied")
	}
	if lstat(m.host("fifo")) != nil {
		t.Error("the FIFO was applied")
	}
}

// TestWhiteoutsOfStrangers: what was not recorded is not deleted, by force neither (hazard 4).
func TestWhiteoutsOfStrangers(t *testing.T) {
	m := newModel(t)
	m.must(os.Mkdir(m.host("dir"), 0o755))
	m.must(os.WriteFile(m.host("dir/known"), []byte("x\n"), 0o644))
	m.must(os.WriteFile(m.host("file"), []byte("x\n"), 0o644))
	m.removeAll("dir")
	m.must(MakeWhiteout(openTestDir(t, m.upper("")), "file")) // without a record
	m.must(os.WriteFile(m.host("dir/stranger"), []byte("host's\n"), 0o644))
	for _, force := range []bool{false, true} {
		if _, err := m.apply(runtime.ApplyOptions{Force: force}); !errors.Is(err, runtime.ErrConflict) {
			t.Errorf("force %v: %v", force, err)
		}
		if lstat(m.host("dir/stranger")) == nil || lstat(m.host("file")) == nil {
			t.Fatalf("force %v: it is deleted", force)
		}
	}
}

// TestTouchIsNoConflict: the digest tells that the content is the same.
func TestTouchIsNoConflict(t *testing.T) {
	m := newModel(t)
	m.must(os.WriteFile(m.host("a"), []byte("x\n"), 0o644))
	o := lstat(m.host("a"))
	r := RecordOf("a", &o.Statx_t)
	f, err := os.Open(m.host("a"))
	m.must(err)
	r.Digest, err = Digest(f)
	m.must(err)
	f.Close()
	m.must(m.log.Add(r))
	m.write("a", "y\n", 0)
	m.must(os.WriteFile(m.host("b"), []byte("x\n"), 0o644))
	m.must(os.Rename(m.host("b"), m.host("a"))) // another inode and time, the same content
	if all := m.changes(); len(all) != 1 || all[0].Conflict != "" {
		t.Errorf(`changes: got all %+v; want len(all) == 1 and all[0].Conflict == ""`, all)
	}
	m.must(os.WriteFile(m.host("a"), []byte("z\n"), 0o644))
	if all := m.changes(); len(all) != 1 || all[0].Conflict == "" {
		t.Errorf(`changes: got all %+v; want len(all) == 1 and all[0].Conflict != ""`, all)
	}
}

// TestGitInOneBatch: files that make a directory a git repository only together are not all
// applied.
func TestGitInOneBatch(t *testing.T) {
	m := newModel(t)
	for _, name := range []string{"objects", "refs", "HEAD"} {
		m.symlink("elsewhere", name)
	}
	if _, err := m.apply(runtime.ApplyOptions{}); !errors.Is(err, runtime.ErrDenied) {
		t.Errorf("apply: %v", err)
	}
	if lstat(m.host("objects")) != nil && lstat(m.host("refs")) != nil && lstat(m.host("HEAD")) != nil {
		t.Error("the host's directory is a git repository")
	}
}

// TestModeOfALinkedFile: a file's mode is not changed by another name than its own.
func TestModeOfALinkedFile(t *testing.T) {
	m := newModel(t, "guarded=read")
	m.must(os.WriteFile(m.host("guarded"), []byte("x\n"), 0o644))
	m.must(os.Link(m.host("guarded"), m.host("file")))
	m.chmod("file", 0o755)
	if _, err := m.apply(runtime.ApplyOptions{}); err != nil {
		t.Error(err)
	}
	if got, guarded := lstat(m.host("file")).perms(), lstat(m.host("guarded")).perms(); got != 0o755 || guarded != 0o644 {
		t.Errorf("the modes are %o and %o", got, guarded)
	}
	if all := m.changes(); len(all) != 0 {
		t.Errorf("after apply: %+v", all)
	}
}

// TestReplacedDirectories: a directory that the host has put in place of another while an apply
// runs keeps its mode and its name.
func TestReplacedDirectories(t *testing.T) {
	for _, what := range []string{"mode", "name"} {
		m := newModel(t)
		for _, name := range []string{"dir", "other", "file"} {
			m.must(os.Mkdir(m.host(name), 0o755))
		}
		if what == "mode" {
			m.chmod("dir", 0o700)
		} else {
			m.rename("dir", "renamed")
		}
		m.write("zz", "x\n", 0o644) // put in place before modes
		l := m.layers()
		swapped := false
		l.test = func(string) {
			if !swapped {
				swapped = true
				m.must(unix.Renameat2(unix.AT_FDCWD, m.host("dir"), unix.AT_FDCWD, m.host("other"), unix.RENAME_EXCHANGE))
			}
		}
		if what == "name" { // no failpoint is before it: the plan looks at it when it is swapped already
			l.test = nil
			m.must(unix.Renameat2(unix.AT_FDCWD, m.host("dir"), unix.AT_FDCWD, m.host("other"), unix.RENAME_EXCHANGE))
		}
		_, err := l.Apply(runtime.ApplyOptions{})
		if !errors.Is(err, runtime.ErrConflict) {
			t.Errorf("%s: got %v, want runtime.ErrConflict", what, err)
		}
		if o := lstat(m.host("dir")); o == nil || o.perms() != 0o755 {
			t.Errorf("%s: the other directory is %s", what, describe(t, m.host("dir")))
		}
	}
}

// TestDiffHidesByBothPaths: the diff of a deletion below a renamed directory shows nothing that
// the rules hide at the path that the sandbox had for it.
func TestDiffHidesByBothPaths(t *testing.T) {
	m := newModel(t)
	m.must(os.MkdirAll(m.host("a/sub"), 0o755))
	m.must(os.WriteFile(m.host("a/sub/key"), []byte("canary\n"), 0o644))
	m.must(os.WriteFile(m.host("a/sub/other"), []byte("other\n"), 0o644))
	m.rename("a", "b")
	m.removeAll("b/sub")
	m.setRules("/b/sub/key=none", "/**=write")
	if diff := m.diff(); strings.Contains(diff, "canary") {
		t.Errorf("the diff has it:\n%s", diff)
	}
}

// TestNestedRepositories: git's own files below the codebase are never applied, whatever becomes
// of what is around them.
func TestNestedRepositories(t *testing.T) {
	m := newModel(t)
	for _, dir := range []string{"changed", "deleted", "replaced", "emptied", "renamed"} {
		m.must(os.MkdirAll(m.host(dir+"/.git/refs"), 0o755))
		m.must(os.MkdirAll(m.host(dir+"/.git/objects"), 0o755))
		m.must(os.WriteFile(m.host(dir+"/.git/HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
		m.must(os.WriteFile(m.host(dir+"/file"), []byte("x\n"), 0o644))
	}
	m.must(os.Mkdir(m.host("module"), 0o755))
	m.must(os.WriteFile(m.host("module/.git"), []byte("gitdir: ../.git/modules/module\n"), 0o644))
	before := m.hostView()

	m.write("changed/.git/HEAD", "ref: refs/heads/other\n", 0)
	m.write("changed/.git/config", "[core]\n\tfsmonitor = evil\n", 0o644)
	m.write("changed/file", "y\n", 0)
	m.removeAll("deleted")
	m.removeAll("replaced")
	m.write("replaced", "a file\n", 0o644)
	m.removeAll("emptied")
	m.mkdir("emptied")
	m.write("module/.git", "gitdir: ../evil\n", 0)
	m.mkdir("new")
	m.mkdir("new/.git")
	m.write("new/.git/HEAD", "ref: refs/heads/main\n", 0o644)
	m.rename("renamed", "moved")
	for _, c := range m.changes() {
		if reason := c.Unapplied + c.Conflict; strings.Contains(c.Path, ".git") && reason == "" {
			t.Errorf("%s has no reason not to be applied", c.Path)
		}
	}
	for _, force := range []bool{false, true} {
		_, _ = m.apply(runtime.ApplyOptions{Force: force})
		after := m.hostView()
		for p, what := range before {
			to := p
			if _, moved := strings.CutPrefix(p, "renamed"); moved && after[p] == "" {
				to = "moved" + strings.TrimPrefix(p, "renamed")
			}
			if strings.Contains(p, ".git") && after[to] != what {
				t.Errorf("force %v: %s is %s, was %s", force, to, after[to], what)
			}
		}
		for p := range after {
			if strings.HasPrefix(p, "new/.git") || strings.HasSuffix(p, ".git/config") {
				t.Errorf("force %v: %s was applied", force, p)
			}
		}
	}
	if got := describe(t, m.host("changed/file")); !strings.Contains(got, "y") {
		t.Errorf("the file beside a repository is %s", got)
	}
}
