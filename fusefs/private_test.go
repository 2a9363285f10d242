package fusefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/git/gitcopy"
	"wolffia/internal/test/wait"
	"wolffia/perm"
)

// gitOf returns what keeps the git directories of a mount apart, in directories of base; nil if s
// does not ask for it.
func gitOf(t *testing.T, s setup, host, base string) *Git {
	if !s.Git {
		return nil
	}
	dir := filepath.Join(base, "git")
	var fds [2]int
	for i, name := range []string{"store", "work"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		fds[i] = int(f.Fd())
	}
	top, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := gitcopy.Open(gitcopy.Options{
		Codebase: host, MountPoint: filepath.Join(filepath.Dir(host), "mnt"), Dir: top, Work: "work", Hosts: "hosts.json", Mark: "changed",
		Begin: func(string, string) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &Git{Store: fds[0], Work: fds[1], Host: c, Monitor: s.Monitor, Minimal: s.Monitor}
}

// writable are rules that let all be written.
var writable = []perm.Rule{{Pattern: "**", Level: perm.Write}}

// inGit runs git in dir.
func inGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return out
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// hostRepository fills the host directory with a repository that has most of what git keeps.
func hostRepository(t *testing.T, dir string) {
	inGit(t, dir, "init", "-q", "-b", "main")
	for _, name := range []string{"a", "sub/b", "sub/deep/c"} {
		write(t, dir, name, name+"\n")
	}
	inGit(t, dir, "add", ".")
	inGit(t, dir, "commit", "-qm", "one")
	inGit(t, dir, "branch", "topic")
	inGit(t, dir, "gc", "-q")
	write(t, dir, "a", "more\n")
	inGit(t, dir, "commit", "-qam", "two")
	inGit(t, dir, "config", "remote.origin.url", "https://user:secret@example.invalid/x.git")
	write(t, dir, ".git/hooks/pre-commit", "#!/bin/sh\necho hook ran\n")
	if err := os.Chmod(filepath.Join(dir, ".git/hooks/pre-commit"), 0o755); err != nil {
		t.Fatal(err)
	}
	inGit(t, dir, "init", "-q", "-b", "main", "nested")
	inGit(t, filepath.Join(dir, "nested"), "commit", "-q", "--allow-empty", "-m", "nested")
}

// everything returns what is in the git directories below dir: modes and contents by paths.
func everything(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(path+"/", "/.git/") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := []byte(nil)
		if d.Type().IsRegular() {
			text, err = os.ReadFile(path)
		}
		all[path] = info.Mode().String() + " " + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPrivateGit(t *testing.T) { testPrivateGit(t, false) }

func TestCopiedPrivateGit(t *testing.T) { testPrivateGit(t, true) }

func testPrivateGit(t *testing.T, copied bool) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	mounted(t, setup{Git: true, Copied: copied, Policy: writable, Host: hostRepository}, func(t *testing.T, c *client) {
		before := everything(t, c.host)
		if got := inGit(t, c.dir, "status", "--porcelain"); got != "?? nested/" {
			t.Errorf("status: %q", got)
		}
		if got := inGit(t, c.dir, "log", "--format=%s", "--all"); got != "two\none" {
			t.Errorf("log: %q", got)
		}
		if got := inGit(t, c.dir, "config", "remote.origin.url"); got != "https://example.invalid/x.git" {
			t.Errorf("the address inside is %q", got)
		}
		write(t, c.dir, "new", "new\n")
		inGit(t, c.dir, "add", "new")
		if got := inGit(t, c.dir, "commit", "-qm", "inside"); got != "hook ran" {
			t.Errorf("commit: %q", got)
		}
		for _, args := range [][]string{
			{"checkout", "-q", "topic"},
			{"rebase", "-q", "main"},
			{"tag", "-a", "-m", "t", "v1"},
			{"stash", "list"},
			{"gc", "-q"},
			{"repack", "-qad"},
			{"prune"},
			{"fsck", "--strict"},
			{"config", "core.hooksPath", "x"},
			{"remote", "add", "up", "/tmp/x"},
			{"worktree", "add", "-q", "made", "-b", "made"},
			{"clone", "-q", ".", "copy"},
			{"init", "-q", "fresh"},
			{"submodule", "add", "-q", c.at("nested"), "module"},
			{"mv", "sub", "moved"},
			{"commit", "-qam", "all"},
		} {
			inGit(t, c.dir, args...)
		}
		inGit(t, c.at("nested"), "commit", "-q", "--allow-empty", "-m", "more")
		inGit(t, c.at("copy"), "commit", "-q", "--allow-empty", "-m", "more")
		if got := inGit(t, c.at("made"), "status", "--porcelain"); got != "" {
			t.Errorf("the new working tree: %q", got)
		}
		if d := cmp.Diff(before, everything(t, c.host)); d != "" {
			t.Errorf("the host's git directories are others:\n%s", d)
		}
		for _, name := range []string{"made", "copy", "fresh", "module"} {
			if _, err := os.Lstat(filepath.Join(c.host, name, gitName)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the host has %s/.git: %v", name, err)
			}
		}
	})
}

// A .git is one of the sandbox's own by whatever way it comes to its name, and stays it when
// directories move.
func TestPrivateGitWays(t *testing.T) {
	mounted(t, setup{Git: true, Policy: writable, Host: func(t *testing.T, dir string) {
		for _, name := range []string{"a/f", "b/f", "c/d/f", "has/.git/HEAD", "has/f"} {
			write(t, dir, name, name)
		}
		inGit(t, dir, "init", "-q", "-b", "main", "rep")
	}}, func(t *testing.T, c *client) {
		must := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		none := func(when string) {
			t.Helper()
			err := filepath.WalkDir(c.host, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Name() == gitName && path != filepath.Join(c.host, "has", gitName) && path != filepath.Join(c.host, "rep", gitName) {
					t.Errorf("%s: the host has %s", when, path)
				}
				return err
			})
			must("walk", err)
		}
		must("mkdir", os.Mkdir(c.at("a/.git"), 0o755))
		must("write in it", os.WriteFile(c.at("a/.git/HEAD"), []byte("x"), 0o644))
		none("mkdir")
		must("symlink", os.Symlink("../a/.git", c.at("b/.git")))
		none("symlink")
		if text, err := os.ReadFile(c.at("b/.git/HEAD")); string(text) != "x" {
			t.Errorf("through the link: %q, %v", text, err)
		}
		must("remove the link", os.Remove(c.at("b/.git")))
		must("rename a file", os.Rename(c.at("b/f"), c.at("b/.git")))
		none("rename of a file")
		if err := os.Link(c.at("c/d/f"), c.at("c/.git")); !errors.Is(err, unix.EXDEV) {
			t.Errorf("hard link: %v", err)
		}
		must("mkdir", os.Mkdir(c.at("c/x"), 0o755))
		if err := os.Rename(c.at("c/x"), c.at("c/.git")); !errors.Is(err, unix.EXDEV) {
			t.Errorf("rename of a directory: %v", err)
		}
		must("file", os.WriteFile(c.at("c/.git"), []byte("gitdir: x"), 0o644))
		none("file")
		if err := unix.Renameat2(unix.AT_FDCWD, c.at("c/.git"), unix.AT_FDCWD, c.at("a/f"), unix.RENAME_EXCHANGE); err != nil && !errors.Is(err, unix.EXDEV) {
			t.Errorf("exchange: %v", err)
		}
		none("exchange")
		must("rename the directory", os.Rename(c.at("a"), c.at("c/a")))
		none("rename of its directory")
		if text, err := os.ReadFile(c.at("c/a/.git/HEAD")); string(text) != "x" {
			t.Errorf("after the rename of its directory: %q, %v", text, err)
		}
		must("exchange directories", unix.Renameat2(unix.AT_FDCWD, c.at("c/a"), unix.AT_FDCWD, c.at("b"), unix.RENAME_EXCHANGE))
		if text, err := os.ReadFile(c.at("b/.git/HEAD")); string(text) != "x" {
			t.Errorf("after an exchange: %q, %v", text, err)
		}
		none("exchange of directories")
		if list, err := os.ReadDir(c.at("b")); err != nil || !slices.ContainsFunc(list, func(d fs.DirEntry) bool { return d.Name() == gitName && d.IsDir() }) {
			t.Errorf("listed: %v, %v", list, err)
		}
		if err := os.Remove(c.at("b")); err == nil {
			t.Error("a directory with a .git is empty")
		}
		must("remove all", os.RemoveAll(c.at("b")))
		if _, err := os.Lstat(filepath.Join(c.host, "b")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("removed inside: %v", err)
		}
		must("again", os.MkdirAll(c.at("b"), 0o755))
		if _, err := os.Lstat(c.at("b/.git")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a new directory has the .git of the one before: %v", err)
		}
		must("remove a repository of the host's", os.RemoveAll(c.at("rep")))
		if _, err := os.Lstat(c.at("rep")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is there: %v", err)
		}
		if list, err := os.ReadDir(c.dir); err != nil || slices.ContainsFunc(list, func(d fs.DirEntry) bool { return d.Name() == "rep" }) {
			t.Errorf("it is listed: %v, %v", list, err)
		}
		if list, err := os.ReadDir(filepath.Join(c.host, "rep")); err != nil || len(list) != 1 || list[0].Name() != gitName {
			t.Errorf("the host has %v, %v", list, err)
		}
		must("make it again", os.Mkdir(c.at("rep"), 0o700))
		if list, err := os.ReadDir(c.at("rep")); err != nil || len(list) != 0 {
			t.Errorf("the new one has %v, %v", list, err)
		}
		must("a new repository", os.Mkdir(c.at("rep/.git"), 0o755))
		if text, err := os.ReadFile(c.at("has/.git/HEAD")); string(text) != "" || !errors.Is(err, unix.EIO) && err == nil {
			t.Logf("what is no repository: %q, %v", text, err)
		}
		for _, name := range []string{".GIT", ".Git", "GIT~1", ".git.", ".git ", ".g\u200cit", ".git::$INDEX_ALLOCATION"} {
			if err := os.Mkdir(c.at("c/"+name), 0o755); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%q: got %v, want fs.ErrPermission", name, err)
			}
		}
		must("HEAD", os.WriteFile(c.at("c/d/HEAD"), nil, 0o644))
		must("refs", os.Mkdir(c.at("c/d/refs"), 0o755))
		if err := os.Mkdir(c.at("c/d/objects"), 0o755); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a directory becomes a git directory: %v", err)
		}
	})
}

// What the host has is shown in each directory of a private git directory without being listed: a
// program can copy and remove the directory as any other. It is read-only, has only objects and
// lfs, and no directory of the sandbox's is that.
func TestPrivateGitShowsObjects(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	for name, s := range map[string]setup{"Long": {}, "Short": {FDs: 16, Timeout: time.Millisecond, NoWatch: true}} {
		t.Run(name, func(t *testing.T) { showsObjects(t, s) })
	}
}

func showsObjects(t *testing.T, s setup) {
	s.Git, s.Policy = true, writable
	s.Host = func(t *testing.T, dir string) {
		inGit(t, dir, "init", "-q", "-b", "main", "rep")
		inGit(t, filepath.Join(dir, "rep"), "commit", "-q", "--allow-empty", "-m", "one")
		write(t, dir, "rep/.git/lfs/objects/x", "lfs")
		write(t, dir, "rep/.git/secret", "secret")
		write(t, dir, "rep/.git/objects/info/alternates", "")
		write(t, dir, "f", "f")
	}
	mounted(t, s, func(t *testing.T, c *client) {
		before := everything(t, c.host)
		view := c.at("rep/.git/" + HostsName + "/0")
		if text, err := os.ReadFile(view + "/lfs/objects/x"); string(text) != "lfs" {
			t.Errorf("lfs: %q, %v", text, err)
		}
		for _, name := range []string{"secret", "config", "HEAD", "hooks", "objects/info/alternates", "../1", "../00", "../-1", "../x"} {
			if _, err := os.Lstat(view + "/" + name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: got %v, want fs.ErrNotExist", name, err)
			}
		}
		list, err := os.ReadDir(view + "/objects")
		if err != nil || len(list) < 3 {
			t.Errorf("the objects: %v, %v", list, err)
		}
		x := view + "/lfs/objects/x"
		for what, err := range map[string]error{
			"write":       os.WriteFile(x, nil, 0o644),
			"make":        os.WriteFile(view+"/objects/new", nil, 0o644),
			"mkdir":       os.Mkdir(view+"/objects/aa", 0o755),
			"remove":      os.Remove(x),
			"chmod":       os.Chmod(x, 0o777),
			"truncate":    os.Truncate(x, 0),
			"rename":      os.Rename(x, view+"/lfs/objects/y"),
			"rename out":  os.Rename(x, c.at("y")),
			"rename into": os.Rename(c.at("f"), view+"/objects/f"),
			"link out":    os.Link(x, c.at("y")),
			"link into":   os.Link(c.at("f"), view+"/objects/f"),
			"replace":     os.Rename(c.at("rep/.git/objects"), c.at("rep/.git/"+HostsName)),
			"make it":     os.Mkdir(c.at("rep/.git/refs/"+HostsName+"/1"), 0o755),
			"move it":     os.Rename(c.at("rep/.git/"+HostsName), c.at("rep/.git/y")),
		} {
			if err == nil {
				t.Errorf("%s: done", what)
			}
		}
		fd, err := unix.Open(x, unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if _, err := unix.Mmap(fd, 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			t.Error("it is mapped for writing")
		}
		for _, script := range []string{
			"cp -a rep copy && git -C copy log --format=%s | grep -q one && git -C copy commit -q --allow-empty -m two",
			"git -C rep fsck --strict && git -C rep gc -q --prune=now && git -C rep log -1",
			"mv rep deep && git -C deep log -1 && git -C deep status && mv deep rep",
			"mkdir -p a/b && mv rep a/b/rep && git -C a/b/rep log -1 && mv a/b/rep rep",
			"tar cf - rep/.git | (mkdir t && cd t && tar xf -) && git -C t/rep log -1",
			"! mv rep/.git bare 2>&1",
			"rm -rf t copy bare rep && ! test -e rep && ! ls -a | grep rep && mkdir rep && rmdir rep && mkdir rep && git init -q rep && git -C rep log 2>&1 | grep -q 'not have any commits'",
		} {
			cmd := exec.Command("sh", "-ec", script)
			cmd.Dir = c.dir
			cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "HOME=/nowhere")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: got err %v, out %s; want err == nil", script, err, out)
			}
		}
		if d := cmp.Diff(before, everything(t, c.host)); d != "" {
			t.Errorf("the host's git directories are others:\n%s", d)
		}
		if _, err := os.Lstat(filepath.Join(c.host, "bare/HEAD")); err == nil {
			if _, err := os.Lstat(filepath.Join(c.host, "bare/objects")); err == nil {
				t.Error("mv has made a git directory on the host")
			}
		}
	})
}

// A git directory that cannot be copied is refused, with the reason, and all else is as it was.
func TestPrivateGitCannotBeCopied(t *testing.T) {
	mounted(t, setup{Git: true, Policy: writable, Host: func(t *testing.T, dir string) {
		for _, name := range []string{"bad/.git/HEAD", "bad/.git/objects/x", "bad/f"} {
			write(t, dir, name, "x")
		}
		if err := os.Symlink("/nowhere", filepath.Join(dir, "bad/.git/refs")); err != nil {
			t.Fatal(err)
		}
	}, After: func(t *testing.T, _ *Server, denials []Denial) {
		if !slices.ContainsFunc(denials, func(d Denial) bool {
			return d.Path == "bad/.git" && strings.Contains(d.Reason, "cannot be copied: refs: ")
		}) {
			t.Errorf("denials: %+v", denials)
		}
	}}, func(t *testing.T, c *client) {
		for what, err := range map[string]error{
			"look":   func() error { _, err := os.Lstat(c.at("bad/.git")); return err }(),
			"read":   func() error { _, err := os.ReadFile(c.at("bad/.git/HEAD")); return err }(),
			"write":  os.WriteFile(c.at("bad/.git/HEAD"), nil, 0o644),
			"make":   os.Mkdir(c.at("bad/.git"), 0o755),
			"rename": os.Rename(c.at("bad/f"), c.at("bad/.git")),
			"remove": os.Remove(c.at("bad/.git")),
		} {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: got %v, want fs.ErrPermission", what, err)
			}
		}
		if list, err := os.ReadDir(c.at("bad")); err != nil || len(list) != 1 {
			t.Errorf("listed: %v, %v", list, err)
		}
	})
}

// A directory that the sandbox has removed, and whose .git the host still has, exists again when
// the host uses it.
func TestGoneComesBack(t *testing.T) {
	mounted(t, setup{Git: true, Policy: writable, Timeout: 1, NoWatch: true, Host: func(t *testing.T, dir string) {
		for _, name := range []string{"rep", "other", "nest/in"} {
			write(t, dir, name+"/.git/junk", "x")
		}
	}}, func(t *testing.T, c *client) {
		for _, name := range []string{"rep", "other", "nest"} {
			wantErrno(t, "remove a directory with a .git", os.Remove(c.at(name)), unix.ENOTEMPTY)
			ok(t, "remove all", os.RemoveAll(c.at(name)))
			_, err := os.Lstat(c.at(name))
			wantErrno(t, "look", err, unix.ENOENT)
		}
		ok(t, "a directory in its place", os.Mkdir(c.at("nest"), 0o755))
		if list, err := os.ReadDir(c.at("nest")); err != nil || len(list) > 0 {
			t.Errorf("the new one has %v, %v", list, err)
		}
		write(t, c.host, "rep/f", "f")
		wait.Until(t, "what the host has made there", func() bool { // the kernel caches for a moment that it does not exist
			text, err := os.ReadFile(c.at("rep/f"))
			return err == nil && string(text) == "f"
		})
		if err := os.RemoveAll(filepath.Join(c.host, "other")); err != nil {
			t.Fatal(err)
		}
		ok(t, "a file where the host has removed it", os.WriteFile(c.at("other"), []byte("f"), 0o644))
		if text, err := os.ReadFile(c.at("other")); string(text) != "f" {
			t.Errorf("the file: %q, %v", text, err)
		}
		for _, name := range []string{"rep", "nest/in"} {
			if _, err := os.Lstat(filepath.Join(c.host, name, ".git/junk")); err != nil {
				t.Errorf("the host's: %v", err)
			}
		}
	})
}

// git status looks for a .git in each directory. Where none is, nothing is made in the store.
func TestLooksMakeNothing(t *testing.T) {
	mounted(t, setup{Git: true, Policy: writable, Host: func(t *testing.T, dir string) {
		for i := range 300 {
			write(t, dir, fmt.Sprintf("d%d/e/f", i), "")
		}
	}}, func(t *testing.T, c *client) {
		err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_, err = os.Lstat(filepath.Join(path, gitName))
				wantErrno(t, path, err, unix.ENOENT)
				err = nil
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := os.ReadDir(filepath.Join(c.state, "git/store")); err != nil || len(list) > 0 {
			t.Errorf("the store has %v, %v", list, err)
		}
	})
}

// In a copied tree the sandbox's own .git is in the upper layer, and follows its directory; one
// that is discarded is copied anew.
func TestCopiedGitWays(t *testing.T) {
	mounted(t, setup{Git: true, Copied: true, Policy: writable, Host: func(t *testing.T, dir string) {
		hostRepository(t, dir)
		inGit(t, dir, "clone", "-q", "nested", "other")
		write(t, dir, "plain/f", "f")
	}}, func(t *testing.T, c *client) {
		must := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		has := func(dir, want string) {
			t.Helper()
			if got := inGit(t, c.at(dir), "log", "--format=%s"); got != want {
				t.Errorf("%s has %q, want %q", dir, got, want)
			}
		}
		before := everything(t, c.host)
		must("rename what was not looked at", os.Rename(c.at("nested"), c.at("plain/moved")))
		has("plain/moved", "nested")
		inGit(t, c.at("plain/moved"), "commit", "-q", "--allow-empty", "-m", "inside")
		must("rename again", os.Rename(c.at("plain/moved"), c.at("nested")))
		has("nested", "inside\nnested")
		if d := cmp.Diff(before, everything(t, c.host)); d != "" {
			t.Errorf("the host's git directories are others:\n%s", d)
		}
		inGit(t, filepath.Join(c.host, "nested"), "commit", "-q", "--allow-empty", "-m", "host")
		has("nested", "inside\nnested")
		c.discard(t, "nested/.git")
		wait.Until(t, "the host's state after a discard", func() bool {
			got, err := tryGit(c.at("nested"), "log", "--format=%s")
			return err == nil && got == "host\nnested"
		})
		inGit(t, filepath.Join(c.host, "nested"), "commit", "-q", "--allow-empty", "-m", "host2")
		has("nested", "host\nnested")

		must("remove all", os.RemoveAll(c.at("other")))
		if _, err := os.Lstat(c.at("other")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is there: %v", err)
		}
		inGit(t, c.dir, "init", "-q", "-b", "main", "other")
		if list, err := os.ReadDir(c.at("other")); err != nil || len(list) != 1 {
			t.Errorf("the new one has %v, %v", list, err)
		}
		if got, err := tryGit(c.at("other"), "log"); err == nil {
			t.Errorf("the new one has commits: %s", got)
		}
		must("remove the repository only", os.RemoveAll(c.at("nested/.git")))
		if _, err := os.Lstat(c.at("nested/.git")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is there: %v", err)
		}
		must("make one", os.Mkdir(c.at("nested/.git"), 0o755))
		if list, err := os.ReadDir(c.at("nested/.git")); err != nil || len(list) != 0 {
			t.Errorf("the new .git has %v, %v", list, err)
		}
		if err := os.Mkdir(c.at("nested/.git/"+HostsName), 0o755); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a directory of that name: %v", err)
		}
		_, way, _ := strings.Cut(strings.TrimSpace(content(c.at(".git/objects/info/alternates"))), ":")
		object := c.at(filepath.Join(".git/objects", way))
		if list, err := os.ReadDir(object); err != nil || len(list) == 0 {
			t.Errorf("the host's objects: %v, %v", list, err)
		}
		if err := os.WriteFile(object+"/x", nil, 0o644); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("write to the host's objects: %v", err)
		}
		inGit(t, c.host, "commit", "-q", "--allow-empty", "-m", "later")
		head := inGit(t, c.host, "rev-parse", "HEAD")
		if got := inGit(t, c.dir, "cat-file", "-t", head); got != "commit" {
			t.Errorf("the host's new object: %q", got)
		}
		now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, object+"/"+head[:2]+"/"+head[2:], now, 0); !errors.Is(err, unix.EROFS) {
			t.Errorf("freshen the host's object: %v", err)
		}
	})
}

// What the host's git makes where git inside has listed objects is in the next listing.
func TestHostObjectsAreListed(t *testing.T) {
	mounted(t, setup{Git: true, Policy: writable, Host: hostRepository}, func(t *testing.T, c *client) {
		_, way, _ := strings.Cut(strings.TrimSpace(content(c.at(".git/objects/info/alternates"))), ":")
		for n := range 50 {
			write(t, c.host, fmt.Sprintf(".git/objects/aa/%d", n), "")
			list, err := os.ReadDir(c.at(filepath.Join(".git/objects", way, "aa")))
			if err != nil || len(list) != n+1 {
				t.Fatalf("after %d objects: %v, %v", n+1, list, err)
			}
		}
	})
}

// After new rules a .git is the host's, or the sandbox's own, as those say.
func TestCopiedGitRules(t *testing.T) {
	mounted(t, setup{Git: true, Copied: true, Policy: writable, Host: hostRepository}, func(t *testing.T, c *client) {
		inGit(t, c.dir, "commit", "-q", "--allow-empty", "-m", "inside")
		c.setRules(t, "**=write", "/.git=read", "/nested/.git=read")
		if got := inGit(t, c.dir, "log", "-1", "--format=%s"); got != "two" {
			t.Errorf("read-only, it is not the host's: %q", got)
		}
		if out, err := tryGit(c.dir, "commit", "-q", "--allow-empty", "-m", "more"); err == nil {
			t.Errorf("a commit in a read-only repository: %s", out)
		}
		if got := inGit(t, c.at("nested"), "log", "-1", "--format=%s"); got != "nested" {
			t.Errorf("the host's has %q", got)
		}
		c.setRules(t, "**=write")
		inGit(t, c.at("nested"), "commit", "-q", "--allow-empty", "-m", "mine")
		if got := inGit(t, c.dir, "log", "-1", "--format=%s"); got != "inside" {
			t.Errorf("the sandbox's own has %q", got)
		}
		if got := inGit(t, filepath.Join(c.host, "nested"), "log", "-1", "--format=%s"); got != "nested" {
			t.Errorf("the host has %q", got)
		}
	})
}

// An earlier version has made a union of the host's objects with those of the upper layer: it
// still works.
func TestCopiedGitUnion(t *testing.T) {
	mounted(t, setup{Git: true, Copied: true, Policy: writable, Host: func(t *testing.T, dir string) {
		hostRepository(t, dir)
		upper := filepath.Join(filepath.Dir(dir), "upper", gitName)
		if err := os.MkdirAll(upper+"/objects", 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"HEAD", "index", "refs", "logs", "config", "packed-refs"} {
			if out, err := exec.Command("cp", "-a", filepath.Join(dir, gitName, name), upper).CombinedOutput(); err != nil {
				t.Fatalf("CombinedOutput: got err %v, out %s; want err == nil", err, out)
			}
		}
		for name, half := range map[string]cow.Half{"": cow.Own, "/objects": cow.Moved} {
			f, err := os.Open(upper + name)
			if err == nil {
				err = cow.SetLower(int(f.Fd()), half, ".git/objects")
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}}, func(t *testing.T, c *client) {
		inGit(t, c.host, "commit", "-q", "--allow-empty", "-m", "host")
		inGit(t, c.dir, "commit", "-q", "--allow-empty", "-m", "inside")
		inGit(t, c.dir, "gc", "-q")
		inGit(t, c.dir, "fsck", "--strict")
		if got := inGit(t, c.dir, "log", "--format=%s"); got != "inside\ntwo\none" {
			t.Errorf("inside: %q", got)
		}
		if got := inGit(t, c.host, "log", "--format=%s"); got != "host\ntwo\none" {
			t.Errorf("the host: %q", got)
		}
		c.discard(t, gitName)
		wait.Until(t, "a copy after a discard", func() bool {
			got, err := tryGit(c.dir, "log", "--format=%s")
			return err == nil && got == "host\ntwo\none"
		})
		if _, err := os.Lstat(c.upper(".git/objects/info/alternates")); err != nil {
			t.Errorf("it has no alternates: %v", err)
		}
	})
}
