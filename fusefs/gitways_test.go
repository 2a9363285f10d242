package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// replace puts text at name by the rename of a lock file, as git does.
func (c *client) replace(name, text string) error {
	if err := os.WriteFile(c.at(name+".lock"), []byte(text), 0o644); err != nil {
		return err
	}
	err := os.Rename(c.at(name+".lock"), c.at(name))
	_ = os.Remove(c.at(name + ".lock"))
	return err
}

// No symbolic link is on the way that git on the host takes by what a sandbox has written: not at first, and none comes there later.
func TestWaysOfGit(t *testing.T) {
	mounted(t, gitSetup(repository("r/.git")), func(t *testing.T, c *client) {
		link := func(name string, want syscall.Errno) {
			t.Helper()
			fails(t, "a link "+name, os.Symlink("/elsewhere", c.at(name)), want)
			fails(t, "a link", os.Symlink("/elsewhere", c.at("away")), 0)
			if want == 0 {
				want = syscall.EEXIST // the first
			}
			fails(t, "a hard link "+name, os.Link(c.at("away"), c.at(name)), want)
			fails(t, "a link moved to "+name, unix.Renameat2(unix.AT_FDCWD, c.at("away"), unix.AT_FDCWD, c.at(name), unix.RENAME_NOREPLACE), want)
			_ = os.Remove(c.at("away"))
		}
		for _, dir := range []string{"l", "sub", "later", "a/b", "q/b", "q/c", "r/.git/modules/m/n", "r/l", "r/w/s"} {
			fails(t, "mkdir", os.MkdirAll(c.at(dir), 0o755), 0)
		}
		fails(t, "symlink", os.Symlink("/elsewhere", c.at("l/link")), 0)
		fails(t, "symlink", os.Symlink("/elsewhere", c.at("r/l/link")), 0)

		// By links that are there.
		fails(t, "a .git over a link", os.WriteFile(c.at("sub/.git"), []byte("gitdir: ../l/link/x.git\n"), 0o644), syscall.EACCES)
		fails(t, "alternates over a link", c.replace("r/.git/objects/info/alternates", "../../l/link/x.git/objects\n"), syscall.EACCES)
		fails(t, "a working tree over a link", c.replace("r/.git/modules/m/config", "[core]\n\tworktree = ../../../l/link/m\n"), syscall.EACCES)
		fails(t, "a working tree that is a link", c.replace("r/.git/modules/m/config", "[core]\n\tworktree = ../../../l/link\n"), syscall.EACCES)

		// By those that come later.
		fails(t, "remove", os.Remove(c.at("sub/.git")), 0)
		put(t, c.at("sub/.git"), "gitdir: ../a/b/x.git\n")
		fails(t, "alternates", c.replace("r/.git/objects/info/alternates", "../../../later/c/x.git/objects\n"), 0)
		fails(t, "a working tree without a .git", c.replace("r/.git/modules/m/config", "[core]\n\tworktree = ../../../w/s\n"), syscall.EACCES)
		put(t, c.at("r/w/s/.git"), "gitdir: ../../.git/modules/m\n")
		fails(t, "a working tree", c.replace("r/.git/modules/m/config", "[core]\n\tworktree = ../../../w/s\n"), 0)
		fails(t, "move the first directory", os.Rename(c.at("a"), c.at("o")), 0)
		link("a", syscall.EACCES)
		fails(t, "make it again", os.Mkdir(c.at("a"), 0o755), 0)
		link("a/b", syscall.EACCES)
		fails(t, "remove", os.Remove(c.at("a")), 0)
		fails(t, "symlink", os.Symlink("/elsewhere", c.at("q/b/x")), 0)
		fails(t, "move a directory there", os.Rename(c.at("q"), c.at("a")), 0)
		fails(t, "and back", os.Rename(c.at("a"), c.at("q")), 0)
		fails(t, "rename", os.Rename(c.at("q/b"), c.at("q/d")), 0)
		fails(t, "symlink", os.Symlink("d", c.at("q/b")), 0)
		fails(t, "move a directory with a link there", os.Rename(c.at("q"), c.at("a")), syscall.EACCES)
		fails(t, "mkdir", os.Mkdir(c.at("a"), 0o755), 0)
		fails(t, "exchange with a directory with a link", unix.Renameat2(unix.AT_FDCWD, c.at("q"), unix.AT_FDCWD, c.at("a"), unix.RENAME_EXCHANGE), syscall.EACCES)
		link("later/c", syscall.EACCES)
		link("later/d", 0)
		fails(t, "move the working tree", os.Rename(c.at("r/w/s"), c.at("real")), syscall.EACCES)
		fails(t, "another working tree", os.WriteFile(c.at("r/l/.git"), []byte("gitdir: ../.git/modules/m\n"), 0o644), syscall.EACCES)
		fails(t, "remove", os.Remove(c.at("r/l/.git")), 0)
		fails(t, "move the git directory", os.Rename(c.at("r/.git/modules/m"), c.at("r/.git/modules/w")), syscall.EACCES)
		fails(t, "remove the working tree", os.RemoveAll(c.at("r/w/s")), 0)
		link("r/w/s", syscall.EACCES)
		fails(t, "a file", os.WriteFile(c.at("r/w/s"), nil, 0o644), syscall.EACCES)
		link("r/w/t", 0)

		// What moves leads elsewhere.
		fails(t, "mkdir", os.MkdirAll(c.at("deep/er"), 0o755), 0)
		fails(t, "symlink", os.Symlink("/elsewhere", c.at("deep/a")), 0)
		fails(t, "move a .git to where it leads over a link", os.Rename(c.at("sub"), c.at("deep/sub")), syscall.EACCES)
		fails(t, "move a .git", os.Rename(c.at("sub"), c.at("deep/er/sub")), 0)
		link("a/b", 0)
		link("deep/er/a", syscall.EACCES)

		// What is gone leads nowhere.
		fails(t, "remove", os.Remove(c.at("deep/er/sub/.git")), 0)
		link("deep/er/a", 0)
	})
}

// Git on the host checks out commits of a sandbox: what they can have is not where a file of the sandbox leads git.
func TestTracked(t *testing.T) {
	files := repository("r/.git")
	files["r/n/.git/HEAD"], files["r/n/.git/objects/x"], files["r/n/.git/refs/x"], files["r/n/.git/config"] = "", "", "", ""
	mounted(t, gitSetup(files), func(t *testing.T, c *client) {
		leads := func(name, target string, want syscall.Errno) {
			t.Helper()
			fails(t, "mkdir", os.MkdirAll(filepath.Dir(c.at(name)), 0o755), 0)
			fails(t, name+" to "+target, os.WriteFile(c.at(name), []byte("gitdir: "+target+"\n"), 0o644), want)
			if want != 0 {
				fails(t, "remove", os.Remove(c.at(name)), 0)
			}
		}
		alternates := func(name, dir string, want syscall.Errno) {
			t.Helper()
			fails(t, "mkdir", os.MkdirAll(c.at(name+"/objects/info"), 0o755), 0)
			fails(t, name+" to "+dir, c.replace(name+"/objects/info/alternates", dir+"\n"), want)
		}
		leads("r/a/.git", "../x.git", syscall.EACCES)
		leads("r/a/.git", "x.git", syscall.EACCES)
		leads("r/a/.git", "../n/.git/worktrees/a", syscall.EACCES)
		fails(t, "mkdir", os.MkdirAll(c.at("w.git/.git"), 0o755), 0)
		leads("w.git/a/.git", "../sub/x.git", syscall.EACCES)
		leads("w.git/a/.git", "../b/n/.git/worktrees/a", syscall.EACCES)
		leads("out/.git", "../r/x.git", syscall.EACCES)
		leads("out/.git", "../r/n/.git/worktrees/a", syscall.EACCES)
		leads("r/a/.git", "../.git/worktrees/a", 0)
		leads("r/n/a/.git", "../.git/worktrees/a", 0)
		leads("out/.git", "../r/.git/worktrees/out", 0)
		leads("bare/.git", "../x.git/worktrees/bare", 0)
		fails(t, "move one out of where it leads", os.Rename(c.at("r/a"), c.at("r/b")), 0)
		alternates("r/n/.git", "../../../x.git/objects", syscall.EACCES)
		alternates("r/n/.git", "../../../.git/objects", 0)
		alternates("r/.git", "../../n/.git/objects", syscall.EACCES)
		alternates("r/.git", "../../../y/x.git/objects", 0)

		// A working tree above what files lead to, in which it could be in a commit.
		fails(t, "a repository above", os.Mkdir(c.at(".git"), 0o755), syscall.EACCES)
		fails(t, "a file .git above", os.WriteFile(c.at("y/.git"), nil, 0o644), syscall.ENOENT)
		fails(t, "mkdir", os.MkdirAll(c.at("z/.git"), 0o755), 0)
		fails(t, "a repository moved there", os.Rename(c.at("z"), c.at("y")), syscall.EACCES)
		fails(t, "mkdir", os.Mkdir(c.at("y"), 0o755), 0)
		fails(t, "a repository above", os.Mkdir(c.at("y/.git"), 0o755), syscall.EACCES)
		fails(t, "its directory moved there", os.Rename(c.at("z/.git"), c.at("y/.git")), syscall.EACCES)
		fails(t, "exchange", unix.Renameat2(unix.AT_FDCWD, c.at("z"), unix.AT_FDCWD, c.at("y"), unix.RENAME_EXCHANGE), syscall.EACCES)
	})
}

// Of the git directory of a submodule no file leads git, or a program around it, elsewhere.
func TestAsideOfSubmodules(t *testing.T) {
	mountedBoth(t, gitSetup(repository(".git/modules/m")), func(t *testing.T, c *client) {
		for _, dir := range []string{".git/", ".git/modules/m/", ".git/modules/new/er/", ".git/worktrees/w/"} {
			fails(t, "mkdir", os.MkdirAll(c.at(dir+"x"), 0o755), 0)
			put(t, c.at(dir+"x/up"), "URL: /elsewhere\n")
			fails(t, "a link", os.Symlink("x", c.at(dir+"remotes")), unix.EACCES)
			if err := os.Rename(c.at(dir+"x"), c.at(dir+"remotes")); err == nil {
				t.Errorf("%s: a directory becomes remotes", dir)
			}
			fails(t, "mkdir", os.Mkdir(c.at(dir+"remotes"), 0o755), 0)
			fails(t, "a remote", os.WriteFile(c.at(dir+"remotes/up"), nil, 0o644), unix.EACCES)
			fails(t, "a remote moved there", os.Rename(c.at(dir+"x/up"), c.at(dir+"remotes/up")), unix.EACCES)
			fails(t, "a directory of them", os.Mkdir(c.at(dir+"remotes/up"), 0o755), unix.EACCES)
		}
		for _, name := range []string{"m/crypt", "m/lazygit.yml", "new/er/sl"} {
			fails(t, name+" as a file", os.WriteFile(c.at(".git/modules/"+name), nil, 0o644), unix.EACCES)
			fails(t, name+" as a link", os.Symlink("refs", c.at(".git/modules/"+name)), unix.EACCES)
		}
		fails(t, "refs of a remote", os.MkdirAll(c.at(".git/modules/m/refs/remotes/origin"), 0o755), 0)
		put(t, c.at(".git/modules/m/refs/remotes/origin/x"), "URL: /elsewhere")
		fails(t, "a submodule called remotes", os.Mkdir(c.at(".git/modules/remotes"), 0o755), 0)
		fails(t, "a directory of refs becomes a submodule", os.Rename(c.at(".git/modules/m/refs"), c.at(".git/modules/k")), unix.EACCES)
		fails(t, "mkdir", os.MkdirAll(c.at(".git/modules/m/refs/y/remotes"), 0o755), 0)
		fails(t, "refs become a submodule", os.Rename(c.at(".git/modules/m/refs/y"), c.at(".git/modules/k")), unix.EXDEV)
	})
}

// A remote that is a path is one of the codebase, and no link is on the way.
func TestWaysOfRemotes(t *testing.T) {
	mounted(t, gitSetup(repository("r/.git")), func(t *testing.T, c *client) {
		config := fileText(t, c.at("r/.git/config"))
		remote := func(url string) string { return config + "[remote \"x\"]\n\turl = " + url + "\n" }
		fails(t, "mkdir", os.MkdirAll(c.at("one"), 0o755), 0)
		fails(t, "symlink", os.Symlink("/elsewhere", c.at("link")), 0)
		for _, url := range []string{"/elsewhere", "file:///elsewhere", "../../elsewhere", "../link", "../link/y", "~/y", "/one"} {
			fails(t, url, c.replace("r/.git/config", remote(url)), syscall.EACCES)
		}
		fails(t, "a remote in the codebase", c.replace("r/.git/config", remote("../one")), 0)
		fails(t, "move it", os.Rename(c.at("one"), c.at("two")), 0)
		fails(t, "a link in its place", os.Symlink("/elsewhere", c.at("one")), syscall.EACCES)

		// A file, in which git would find the path of a repository.
		fails(t, "a file in its place", os.WriteFile(c.at("one"), nil, 0o644), syscall.EACCES)
		put(t, c.at("file"), "gitdir: /elsewhere\n")
		fails(t, "a file moved there", os.Rename(c.at("file"), c.at("one")), syscall.EACCES)
		fails(t, "a hard link", os.Link(c.at("file"), c.at("one")), syscall.EACCES)
		put(t, c.at("r/.git/x.lock"), "gitdir: /elsewhere\n")
		fails(t, "a lock moved there", os.Rename(c.at("r/.git/x.lock"), c.at("one")), syscall.EACCES)
		fails(t, "mkdir", os.Mkdir(c.at("one"), 0o755), 0)
		fails(t, "exchange", unix.Renameat2(unix.AT_FDCWD, c.at("file"), unix.AT_FDCWD, c.at("one"), unix.RENAME_EXCHANGE), syscall.EACCES)
		fails(t, "remove", os.Remove(c.at("one")), 0)
		fails(t, "mkdir", os.MkdirAll(c.at("s/t"), 0o755), 0)
		put(t, c.at("s/t/one"), "")
		fails(t, "a remote that is a file", c.replace("r/.git/config", config+"[remote \"x\"]\n\turl = ../s/t/one\n"), syscall.EACCES)

		// Another working tree, from which the remote is elsewhere.
		fails(t, "mkdir", os.MkdirAll(c.at("r/.git/worktrees/w"), 0o755), 0)
		fails(t, "mkdir", os.MkdirAll(c.at("d/w"), 0o755), 0)
		fails(t, "symlink", os.Symlink("/elsewhere", c.at("d/one")), 0)
		fails(t, "a working tree beside a link", os.WriteFile(c.at("d/w/.git"), []byte("gitdir: ../../r/.git/worktrees/w\n"), 0o644), syscall.EACCES)
		fails(t, "mkdir", os.MkdirAll(c.at("e/w"), 0o755), 0)
		put(t, c.at("e/w/.git"), "gitdir: ../../r/.git/worktrees/w\n")
		fails(t, "a link beside it", os.Symlink("/elsewhere", c.at("e/one")), syscall.EACCES)
		config = remote("../one")
		fails(t, "a relative path", c.replace("r/.git/config", config+"[remote \"y\"]\n\turl = ../two\n"), syscall.EACCES)
		fails(t, "one that no link can lead elsewhere", c.replace("r/.git/config", config+"[remote \"y\"]\n\turl = ../two.git\n"), 0)
	})
}

// A commit that git on the host checks out brings no repository to which it pushes, if the sandbox did not make the one that pushes.
func TestTrackedRemotes(t *testing.T) {
	files := repository(".git")
	for name, text := range repository("n/.git") {
		files[name] = text
	}
	mountedBoth(t, gitSetup(files), func(t *testing.T, c *client) {
		config := fileText(t, c.at(".git/config"))
		remote := func(repo, url string) error {
			return c.replace(repo+".git/config", config+"[remote \"x\"]\n\turl = "+url+"\n")
		}
		for _, dir := range []string{"up", "m/.git/objects", "new/.git/objects", "new/.git/refs"} {
			fails(t, "mkdir", os.MkdirAll(c.at(dir), 0o755), 0)
		}
		tracked := syscall.EACCES
		if c.copied {
			tracked = 0
		}
		for _, url := range []string{"./up", "./later", "./m", "./x.git", "./n/up"} {
			fails(t, url, remote("", url), tracked)
			fails(t, "without", c.replace(".git/config", config), 0)
		}
		fails(t, "from a nested one", remote("n/", "../up"), tracked)
		fails(t, "a repository that was there", remote("", "./n"), 0)
		fails(t, "the repository itself", remote("n/", ".."), 0)
		fails(t, "from one that was made inside", remote("new/", "../up"), 0)
	})
}

// What an earlier server of the tree has recorded is guarded again, and what comes is recorded before it is written.
func TestPointersAreKept(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "sub/.git", "gitdir: ../a/x.git\n")
	write(t, dir, "gone/.git", "not one")
	rules, err := perm.Compile(append(perm.AnyGitRules(), perm.Rule{Pattern: "**", Level: perm.Write}))
	if err != nil {
		t.Fatal(err)
	}
	tr := testTree(t, dir, rules)
	tr.loadPointers([]string{"sub/.git", "gone/.git", "absent/.git"})
	link := func(name string, want syscall.Errno) {
		t.Helper()
		var out fuse.EntryOut
		if status := tr.Symlink(nil, &fuse.InHeader{NodeId: rootID}, "/elsewhere", name, &out); syscall.Errno(status) != want {
			t.Errorf("a link %s: %v, want %v", name, status, want)
		}
	}
	link("a", syscall.EACCES)
	link("b", 0)
	var kept []string
	full := syscall.Errno(0)
	tr.pointers.keep = func(files []string) error {
		if full != 0 {
			return full
		}
		kept = files
		return nil
	}
	if err := tr.follow("new/.git", "", "gitdir: ../c/x.git\n"); err != nil {
		t.Error(err)
	}
	write(t, dir, "new/.git", "")
	link("c", syscall.EACCES)
	full = syscall.ENOSPC
	if tr.follow("more/.git", "", "gitdir: ../d/x.git\n") == nil {
		t.Error("what cannot be recorded is written")
	}
	if got := fmt.Sprint(kept); got != "[new/.git sub/.git]" {
		t.Errorf("recorded are %s", got)
	}
	tr.pointers.keep = nil // which takes a second for all of these
	for i := range maxPointers {
		err = tr.follow(fmt.Sprintf("%d/.git", i), "", "gitdir: ../e/x.git\n")
	}
	if err != nil {
		t.Errorf("files that are gone count: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "sub/.git")); err != nil {
		t.Error(err)
	}
	link("a", syscall.EACCES)
}
