package fusefs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"wolffia/internal/gitcopy"
	"wolffia/perm"
)

// gitOf returns what keeps the git directories of a mount apart, in directories of base; nil if s does not ask for it.
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
	return &Git{Store: fds[0], Work: fds[1], Host: c}
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

func TestPrivateGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	mounted(t, setup{Git: true, Policy: writable, Host: hostRepository}, func(t *testing.T, c *client) {
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
			{"checkout", "-q", "topic"}, {"rebase", "-q", "main"}, {"tag", "-a", "-m", "t", "v1"}, {"stash", "list"}, {"gc", "-q"},
			{"repack", "-qad"}, {"prune"}, {"fsck", "--strict"}, {"config", "core.hooksPath", "x"}, {"remote", "add", "up", "/tmp/x"},
			{"worktree", "add", "-q", "made", "-b", "made"}, {"clone", "-q", ".", "copy"}, {"init", "-q", "fresh"},
			{"submodule", "add", "-q", c.at("nested"), "module"}, {"mv", "sub", "moved"}, {"commit", "-qam", "all"},
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

// A .git is one of the sandbox's own by whatever way it comes to its name, and stays it when directories move.
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
				t.Errorf("%q: %v", name, err)
			}
		}
		must("HEAD", os.WriteFile(c.at("c/d/HEAD"), nil, 0o644))
		must("refs", os.Mkdir(c.at("c/d/refs"), 0o755))
		if err := os.Mkdir(c.at("c/d/objects"), 0o755); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a directory becomes a git directory: %v", err)
		}
	})
}
