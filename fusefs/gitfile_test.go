package fusefs

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/perm"
)

// gitSetup is a tree in which all can be written but what is git's, with a repository.
func gitSetup(files map[string]string) setup {
	return setup{
		Timeout: time.Hour,
		Policy:  append(perm.AnyGitRules(), perm.Rule{Pattern: "**", Level: perm.Write}),
		Host: func(t *testing.T, dir string) {
			for name, text := range files {
				write(t, dir, name, text)
			}
		},
	}
}

// repository are the files of a git directory.
func repository(dir string) map[string]string {
	return map[string]string{
		dir + "/HEAD": "ref: refs/heads/main\n", dir + "/objects/info/packs": "", dir + "/refs/heads/main": "", dir + "/config": "[core]\n\tbare = false\n",
		dir + "/hooks/x.sample": "", dir + "/index": "",
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A configuration is replaced by a new file of the server: a process that has the lock file open
// or mapped does not write the configuration.
func TestConfigurationIsTheServersFile(t *testing.T) {
	mountedBoth(t, gitSetup(repository(".git")), func(t *testing.T, c *client) {
		config, lock := c.at(".git/config"), c.at(".git/config.lock")
		f, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		const text = "[core]\n\tbare = false\n[user]\n\tname = x\n"
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		m, err := unix.Mmap(int(f.Fd()), 0, len(text), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		fails(t, "chmod", f.Chmod(0o777), 0)
		was, err := os.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		defer was.Close()
		fails(t, "rename", os.Rename(lock, config), 0)
		var st unix.Stat_t
		if err := unix.Stat(c.behind(".git/config"), &st); err != nil || st.Mode&0o7777 != 0o644 {
			t.Errorf("the configuration has the mode %o: %v", st.Mode, err)
		}
		if text, err := io.ReadAll(was); err != nil || string(text) != "[core]\n\tbare = false\n" {
			t.Errorf("who has the old configuration open reads %q, %v", text, err)
		}
		fails(t, "the lock", unix.Access(lock, unix.F_OK), unix.ENOENT)
		if got := fileText(t, config); got != text {
			t.Errorf("the configuration is %q", got)
		}
		_, err = f.WriteAt([]byte("[core]\n\tpager = evil\n"), 0)
		fails(t, "write to what was the lock", err, unix.EACCES)
		fails(t, "truncate what was the lock", f.Truncate(0), unix.EACCES)
		fails(t, "fallocate", unix.Fallocate(int(f.Fd()), 0, 0, 1<<16), unix.EACCES)
		copy(m, "[core] pager=evil")
		_ = unix.Msync(m, unix.MS_SYNC)
		_ = unix.Munmap(m)
		if got := fileText(t, c.behind(".git/config")); got != text {
			t.Errorf("the configuration of the host is %q", got)
		}
		for _, flags := range []int{os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREATE} {
			_, err := os.OpenFile(config, flags, 0o644)
			fails(t, fmt.Sprintf("open with %#x", flags), err, unix.EACCES)
		}
		fails(t, "unlink", os.Remove(config), unix.EACCES)
		fails(t, "chmod", os.Chmod(config, 0), unix.EACCES)
		fails(t, "rename away", os.Rename(config, c.at("x")), unix.EACCES)
		put(t, c.at("y"), "")
		fails(t, "rename over", os.Rename(c.at("y"), config), unix.EACCES)
		fails(t, "exchange", unix.Renameat2(unix.AT_FDCWD, c.at("y"), unix.AT_FDCWD, config, unix.RENAME_EXCHANGE), unix.EACCES)
		fails(t, "link over", os.Link(c.at("y"), c.at(".git/config.worktree")), unix.EACCES)
		fails(t, "link from", os.Link(config, c.at("z")), unix.EACCES)
		fails(t, "symlink", os.Symlink("../y", c.at(".git/config.worktree")), unix.EACCES)
		for _, name := range []string{".git/config.worktree", ".git/modules/a/config", ".git/commondir", ".git/hooks/pre-commit", ".git/hooks/a/b", "x.git/config"} {
			_ = os.MkdirAll(filepath.Dir(c.at(name)), 0o755)
			if _, err := os.Create(c.at(name)); err == nil {
				t.Errorf("%s can be made", name)
			}
			if err := os.Mkdir(c.at(name), 0o755); err == nil {
				t.Errorf("the directory %s can be made", name)
			}
		}
		fails(t, "a name of the server's own", unix.Access(c.at(".git/"+ownPrefix+"x"), unix.F_OK), unix.EINVAL)
		names, err := os.ReadDir(c.behind(".git"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if strings.HasPrefix(n.Name(), ownPrefix) {
				t.Errorf("%s is left", n.Name())
			}
		}
	})
}

// A lock file made outside cannot be changed: git outside would rename what is at its name onto
// its configuration.
func TestLocksOfTheHost(t *testing.T) {
	mountedBoth(t, gitSetup(repository(".git")), func(t *testing.T, c *client) {
		for _, name := range []string{"config.lock", "index.lock", "refs/heads/main.lock", "HEAD.lock", "BISECT_LOG", "rebase-merge/git-rebase-todo"} {
			write(t, c.host, ".git/"+name, "host's")
			path, mine := c.at(".git/"+name), c.at("mine")
			put(t, mine, "evil")
			_, err := os.OpenFile(path, os.O_WRONLY, 0)
			fails(t, name+": write", err, unix.EACCES)
			_, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
			fails(t, name+": open and truncate", err, unix.EACCES)
			fails(t, name+": truncate", os.Truncate(path, 0), unix.EACCES)
			fails(t, name+": unlink", os.Remove(path), unix.EACCES)
			fails(t, name+": rename over", os.Rename(mine, path), unix.EACCES)
			lock := c.at(".git/mine.lock")
			put(t, lock, "evil")
			fails(t, name+": rename a lock over", os.Rename(lock, path), unix.EACCES)
			put(t, c.at(".git/other.lock"), "")
			fails(t, name+": rename a lock over one of this sandbox's", os.Rename(lock, c.at(".git/other.lock")), 0)
			fails(t, name+": rename away", os.Rename(path, mine), unix.EACCES)
			fails(t, name+": exchange", unix.Renameat2(unix.AT_FDCWD, mine, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE), unix.EACCES)
			fails(t, name+": link", os.Link(path, c.at("other")), unix.EACCES)
			fails(t, name+": chmod", os.Chmod(path, 0o666), unix.EACCES)
			if got := fileText(t, filepath.Join(c.host, ".git", name)); got != "host's" {
				t.Errorf("%s is %q", name, got)
			}
		}
		if _, err := os.Create(c.at(".git/rebase-merge/done")); err == nil {
			t.Error("a file can be made in a rebase of the host's")
		}
		for _, name := range []string{"HEAD", "objects", "refs"} {
			fails(t, name+": rename away", os.Rename(c.at(".git/"+name), c.at(".git/x")), unix.EACCES)
		}
		fails(t, "close .git", os.Chmod(c.at(".git"), 0), unix.EACCES)
		fails(t, "close refs", os.Chmod(c.at(".git/refs"), 0o400), unix.EACCES)
		fails(t, "close HEAD", os.Chmod(c.at(".git/HEAD"), 0), unix.EACCES)
		fails(t, "open .git", os.Chmod(c.at(".git"), 0o700), 0)
		fails(t, "a link like a repository", os.Symlink(".", c.at("x.git")), unix.EACCES)
		fails(t, "unlink HEAD", os.Remove(c.at(".git/HEAD")), unix.EACCES)
		fails(t, "rename .git", os.Rename(c.at(".git"), c.at("x.git")), unix.EACCES)
		fails(t, "rename .git", os.Rename(c.at(".git"), c.at("x")), unix.EACCES)
	})
}

// What was made inside can be written, replaced and removed, all of it.
func TestRepositoryMadeInside(t *testing.T) {
	mountedBoth(t, gitSetup(nil), func(t *testing.T, c *client) {
		run := func(dir string, args ...string) {
			t.Helper()
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+c.at("."), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("git %q: %v\n%s", args, err, out)
			}
		}
		for i := range 20 { // what is said of the new configuration is true at once
			repo := c.at(fmt.Sprint("r", i))
			run(c.at("."), "init", "-q", "-b", "main", repo)
			if text := fileText(t, repo+"/.git/config"); !strings.Contains(text, "filemode = true") {
				t.Fatalf("git has found that modes cannot be changed:\n%s", text)
			}
		}
		run(c.at("r0"), "commit", "-q", "--allow-empty", "-m", "x")
		run(c.at("."), "clone", "-q", "r0", "clone")
		run(c.at("clone"), "push", "-q", "-u", "origin", "main:other")
		fails(t, "rm -rf", os.RemoveAll(c.at("clone")), 0)
		fails(t, "rm -rf", os.RemoveAll(c.at("r1")), 0)
	})
}

// Of two processes that make the halves of a git directory at once, one fails.
func TestNoDirectoryBecomesARepository(t *testing.T) {
	mountedBoth(t, gitSetup(map[string]string{"plain/config": "[core]\n\tfsmonitor = evil\n"}), func(t *testing.T, c *client) {
		makers := []func(dir string) error{
			func(dir string) error { return os.WriteFile(dir+"/HEAD", nil, 0o644) },
			func(dir string) error { return os.Mkdir(dir+"/objects", 0o755) },
			func(dir string) error { return os.Symlink("elsewhere", dir+"/refs") },
			func(dir string) error { return os.Rename(dir+"/x", dir+"/commondir") },
			func(dir string) error { return os.Rename(dir+"/y", dir+"/reftable") },
		}
		for i := range 100 {
			dir := c.at(fmt.Sprint("d", i))
			if err := os.MkdirAll(dir+"/y", 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, dir+"/x", "")
			var wg sync.WaitGroup
			var refused atomic.Int32
			for _, f := range makers {
				wg.Go(func() {
					if err := f(dir); err != nil {
						if errnoIn(err) != unix.EACCES {
							t.Errorf("%v", err)
						}
						refused.Add(1)
					}
				})
			}
			wg.Wait()
			has := func(name string) bool { _, err := os.Lstat(dir + "/" + name); return err == nil }
			if refused.Load() == 0 || has("HEAD") && (has("commondir") || has("objects") && (has("refs") || has("reftable"))) {
				names, _ := os.ReadDir(dir)
				t.Fatalf("a git directory has come into being: %v", names)
			}
		}
		fails(t, "a directory with a configuration becomes .git", os.Rename(c.at("plain"), c.at(".git")), unix.EXDEV)
		fails(t, "a directory with a configuration becomes x.git", os.Rename(c.at("plain"), c.at("x.git")), unix.EXDEV)
		fails(t, "mkdir", os.Mkdir(c.at(".git"), 0o755), 0)
		fails(t, "exchange", unix.Renameat2(unix.AT_FDCWD, c.at("plain"), unix.AT_FDCWD, c.at(".git"), unix.RENAME_EXCHANGE), unix.EXDEV)
		fails(t, "a link called .git", os.Symlink("../plain", c.at("d0/.git")), unix.EACCES)
		fails(t, "a FIFO called .git", unix.Mkfifo(c.at("d0/.git"), 0o644), unix.EACCES)
	})
}

// As long as the kernel knows a replaced configuration, no new file has the number of the inode by
// which it knew it: gVisor takes files of one number for one file.
func TestNumberOfReplacedConfiguration(t *testing.T) {
	mounted(t, gitSetup(nil), func(t *testing.T, c *client) {
		fails(t, "mkdir", os.Mkdir(c.at("x.git"), 0o755), 0)
		lock := c.at("x.git/config.lock")
		put(t, lock, "[core]\n\tbare = true\n")
		var was, is unix.Stat_t
		fails(t, "stat", unix.Stat(lock, &was), 0)
		fails(t, "rename", os.Rename(lock, c.at("x.git/config")), 0)
		for i := range 20 {
			name := c.at(fmt.Sprintf("x.git/t%d", i))
			put(t, name, "")
			if fails(t, "stat", unix.Stat(name, &is), 0); is.Ino == was.Ino {
				t.Fatalf("file %d has the number of the lock", i)
			}
		}
	})
}

// A file of git's that was removed can be changed by a process that has it open: gVisor sets the
// times of a removed file.
func TestRemovedFileOfGit(t *testing.T) {
	s := gitSetup(repository(".git"))
	s.After = func(t *testing.T, _ *Server, denials []Denial) {
		if len(denials) > 0 {
			t.Errorf("denials: %v", denials)
		}
	}
	mountedBoth(t, s, func(t *testing.T, c *client) {
		fails(t, "mkdir", os.Mkdir(c.at(".git/sequencer"), 0o755), 0)
		name := c.at(".git/sequencer/head")
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fails(t, "remove", os.Remove(name), 0)
		fails(t, "chmod", f.Chmod(0o600), 0)
		_, err = f.WriteString("x")
		fails(t, "write", err, 0)
	})
}

// A .git file or commondir is written once, with an allowed content.
func TestLinkFiles(t *testing.T) {
	mountedBoth(t, gitSetup(nil), func(t *testing.T, c *client) {
		for _, d := range []string{"a", "b", "x.git"} {
			fails(t, "mkdir", os.Mkdir(c.at(d), 0o755), 0)
		}
		fails(t, "to a plain directory", os.WriteFile(c.at("a/.git"), []byte("gitdir: ../b\n"), 0o644), unix.EACCES)
		fails(t, "to a repository", os.WriteFile(c.at("a/.git"), []byte("gitdir: ../x.git\n"), 0o644), 0)
		f, err := os.OpenFile(c.at("a/.git"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, err = f.WriteAt([]byte("gitdir: ../b    \n"), 0)
		fails(t, "again", err, unix.EACCES)
		_, err = f.WriteAt([]byte("../b"), 8)
		fails(t, "a part", err, unix.EACCES)
		fails(t, "longer", f.Truncate(100), unix.EACCES)
		fails(t, "fallocate", unix.Fallocate(int(f.Fd()), 0, 0, 100), unix.EACCES)
		fails(t, "link", os.Link(c.at("a/.git"), c.at("a/x")), unix.EACCES)
		fails(t, "rename", os.Rename(c.at("a/.git"), c.at("a/x")), unix.EACCES)
		fails(t, "remove", os.Remove(c.at("a/.git")), 0)
	})
}

// TestConfigurationOfNewWorktree: git worktree add copies harmless settings for its worktree, once. In a worktree of the host's a
// configuration comes into being as elsewhere.
func TestConfigurationOfNewWorktree(t *testing.T) {
	const sparse = "[core]\n\tsparseCheckout = true\n"
	files := repository(".git")
	files[".git/worktrees/old/HEAD"], files[".git/worktrees/old/commondir"] = "ref: refs/heads/old\n", "../..\n"
	mountedBoth(t, gitSetup(files), func(t *testing.T, c *client) {
		create := func(name, text string) error {
			f, err := os.OpenFile(c.at(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString(text)
			return err
		}
		replace := func(name, text string) error {
			put(t, c.at(name+".lock"), text)
			err := os.Rename(c.at(name+".lock"), c.at(name))
			_ = os.Remove(c.at(name + ".lock"))
			return err
		}
		const old, own = ".git/worktrees/old/config.worktree", ".git/worktrees/new/config.worktree"
		fails(t, "in a worktree of the host's", create(old, sparse), unix.EACCES)
		fails(t, "of the repository", create(".git/config.worktree", sparse), unix.EACCES)
		fails(t, "mkdir", os.Mkdir(c.at(".git/worktrees/new"), 0o755), 0)
		fails(t, "a program", create(own, "[core]\n\tfsmonitor = evil\n"), unix.EACCES)
		fails(t, "a part of it", os.WriteFile(c.at(own), []byte("[core]\n\tfsmonitor = e"), 0o644), 0)
		if got := fileText(t, c.behind(own)); got != "" {
			t.Errorf("the host has %q", got)
		}
		fails(t, "harmless settings", os.WriteFile(c.at(own), []byte(sparse), 0o644), 0)
		f, err := os.OpenFile(c.at(own), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, err = f.WriteAt([]byte("[core]\n\tfsmonitor = evil"), 0)
		fails(t, "again", err, unix.EACCES)
		_, err = f.WriteAt([]byte("\tfsmonitor = evil\n"), int64(len(sparse)))
		fails(t, "more", err, unix.EACCES)
		fails(t, "a program by a lock", replace(own, sparse+"\tfsmonitor = evil\n"), unix.EACCES)
		fails(t, "a setting by a lock", replace(own, sparse+"\tsparseCheckoutCone = true\n"), 0)
		fails(t, "a setting of init in a worktree of the host's", replace(old, sparse+"\tbare = true\n"), unix.EACCES)
		fails(t, "a setting by a lock in a worktree of the host's", replace(old, sparse), 0)
		fails(t, "remove", os.Remove(c.at(own)), 0)
	})
}

// The kernel may send one write in parts: the host sees all or nothing of an allowed content.
func TestLinkFileInParts(t *testing.T) {
	mountedBoth(t, gitSetup(nil), func(t *testing.T, c *client) {
		for _, d := range []string{"a", "x", "x.git"} {
			fails(t, "mkdir", os.Mkdir(c.at(d), 0o755), 0)
		}
		name := c.at("a/.git")
		for _, x := range []struct {
			parts []string
			errno unix.Errno // of the last
			want  string
		}{
			{[]string{"git", "dir: ../x", ".git\n"}, 0, "gitdir: ../x.git\n"},
			{[]string{"gitdir: ../x.git", "/modules/y\n"}, 0, "gitdir: ../x.git/modules/y\n"},
			{[]string{"gitdir: ../x.git", "/refs\n"}, unix.EACCES, "gitdir: ../x.git"},
			{[]string{"gitdir: ../x.git\n", "\n"}, unix.EACCES, "gitdir: ../x.git\n"},
			{[]string{"gitdir: ../x"}, 0, ""},
			{[]string{"gitdir: ../x", "\n"}, unix.EACCES, ""},
			{[]string{"gitdir: ../x.g", "it\n../x"}, unix.EACCES, ""},
			{[]string{"gitdir: /nowhere/x.g"}, unix.EACCES, ""},
			{[]string{"gitdir: ../" + strings.Repeat("x", maxOnce)}, unix.EACCES, ""},
		} {
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			off := int64(0)
			for i, part := range x.parts {
				errno := unix.Errno(0)
				if i == len(x.parts)-1 {
					errno = x.errno
				}
				_, err := f.WriteAt([]byte(part), off)
				fails(t, fmt.Sprintf("%q, part %d", x.parts, i), err, errno)
				off += int64(len(part))
			}
			if got := fileText(t, c.behind("a/.git")); got != x.want {
				t.Errorf("%q: the host has %q", x.parts, got)
			}
			f.Close()
			fails(t, "remove", os.Remove(name), 0)
		}
		// An unfinished write is not in another file's way, and ends with the next one.
		put(t, c.at("x/.git"), "gitdir: ../x")
		put(t, name, "gitdir: ../x.git\n")
		fails(t, "anew", os.WriteFile(c.at("x/.git"), []byte("gitdir: ../x.git\n"), 0o644), 0)
		if got := fileText(t, c.behind("x/.git")); got != "gitdir: ../x.git\n" {
			t.Errorf("the host has %q", got)
		}
	})
}

// TestClaimed: while another sandbox may be making a part of a git directory in the host's directory, none is made there
// from inside, by no operation; and a part that the other has made counts.
func TestClaimed(t *testing.T) {
	files := map[string]string{"x/objects/keep": "", "x/tmp": "ref: refs/heads/main\n", "bare.git/keep": ""}
	mounted(t, gitSetup(files), func(t *testing.T, c *client) {
		x, err := unix.Open(filepath.Join(c.host, "x"), unix.O_PATH|unix.O_CLOEXEC, 0)
		fails(t, "open", err, 0)
		defer unix.Close(x)
		makes := map[string]func() error{
			"create":  func() error { return os.WriteFile(c.at("x/HEAD"), nil, 0o644) },
			"symlink": func() error { return os.Symlink("tmp", c.at("x/HEAD")) },
			"link":    func() error { return os.Link(c.at("x/tmp"), c.at("x/HEAD")) },
			"rename":  func() error { return os.Rename(c.at("x/tmp"), c.at("x/HEAD")) },
			"mkdir":   func() error { return os.Mkdir(c.at("x/refs"), 0o755) },
		}
		release, err := cow.Claim(x, "refs")
		fails(t, "claim", err, 0)
		for what, do := range makes {
			fails(t, what, do(), unix.EBUSY)
		}
		fails(t, "another name", os.WriteFile(c.at("x/other"), nil, 0o644), 0)
		fails(t, "another directory", os.Mkdir(c.at("refs"), 0o755), 0)
		release()
		fails(t, "mkdir", os.Mkdir(filepath.Join(c.host, "x/refs"), 0o755), 0) // the other's
		delete(makes, "mkdir")
		for what, do := range makes {
			fails(t, what, do(), unix.EACCES)
		}
		fails(t, "remove", os.Remove(filepath.Join(c.host, "x/refs")), 0)
		fails(t, "rename", makes["rename"](), 0)
	})
}

// The options that git am on the host passes to git apply are those that git inside writes: one of others has it replace any file.
func TestOptionsOfApply(t *testing.T) {
	const fake = " '--build-fake-ancestor=/home/ann/.profile'\n"
	mountedBoth(t, gitSetup(repository(".git")), func(t *testing.T, c *client) {
		dir := c.at(".git/rebase-apply")
		for _, text := range []string{"", " '-p1'\n"} {
			fails(t, "mkdir", os.Mkdir(dir, 0o755), 0)
			put(t, filepath.Join(dir, "next"), "1\n")
			put(t, filepath.Join(dir, "apply-opt"), text)
			fails(t, "write others", os.WriteFile(filepath.Join(dir, "apply-opt"), []byte(fake), 0o644), unix.EACCES)
			put(t, c.at("x"), fake)
			fails(t, "rename onto it", os.Rename(c.at("x"), filepath.Join(dir, "apply-opt")), unix.EACCES)
			put(t, filepath.Join(dir, "y"), fake)
			fails(t, "rename onto it in its directory", os.Rename(filepath.Join(dir, "y"), filepath.Join(dir, "apply-opt")), unix.EACCES)
			if got, err := os.ReadFile(filepath.Join(dir, "apply-opt")); err == nil && string(got) == fake {
				t.Errorf("the options are %q", got)
			}
			fails(t, "remove", os.RemoveAll(dir), 0)
		}
	})
}

// What shell scripts of git before 2.34 execute or evaluate is not what a sandbox likes.
func TestScriptsOfOldGit(t *testing.T) {
	mountedBoth(t, gitSetup(repository(".git")), func(t *testing.T, c *client) {
		names := c.at(".git/BISECT_NAMES")
		for _, text := range []string{"\n", " 'a' 'b'\n"} {
			put(t, names, text)
			fails(t, "write others", os.WriteFile(names, []byte("`x`\n"), 0o644), unix.EACCES)
			fails(t, "remove", os.Remove(names), 0)
		}
		put(t, c.at(".git/BISECT_X"), "`x`\n")
		fails(t, "rename onto it", os.Rename(c.at(".git/BISECT_X"), names), unix.EACCES)

		state := c.at(".git/rebase-merge")
		fails(t, "mkdir", os.Mkdir(state, 0o755), 0)
		fails(t, "an author's script", os.WriteFile(state+"/author-script", []byte("x\n"), 0o644), unix.EACCES)
		fails(t, "mkdir", os.Mkdir(state+"/rewritten", 0o755), unix.EACCES)
		fails(t, "symlink", os.Symlink(".", state+"/rewritten"), unix.EACCES)
		fails(t, "mkdir", os.Mkdir(c.at("d"), 0o755), 0)
		if os.Rename(c.at("d"), state+"/rewritten") == nil {
			t.Error("a directory comes by a rename")
		}
		fails(t, "remove", os.RemoveAll(state), 0)
	})
}
