package fusefs

import (
	"maps"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// twoRepositories is a set-up with the git directories .git and deploy.
func twoRepositories() setup {
	files := repository(".git")
	maps.Copy(files, repository("deploy"))
	s := gitSetup(files)
	s.Policy = append(perm.GitRules([]string{"deploy"}), s.Policy...)
	return s
}

// No link in a git directory leads git on the host elsewhere; git's own tests of links work.
func TestLinksInGitDirectories(t *testing.T) {
	s := twoRepositories()
	mountedBoth(t, s, func(t *testing.T, c *client) {
		outside := t.TempDir()
		for _, dir := range []string{".git/worktrees", ".git/logs/refs", ".git/refs/heads/x"} {
			fails(t, "mkdir", os.MkdirAll(c.at(dir), 0o755), 0)
		}
		fails(t, "a link elsewhere", os.Symlink(outside, c.at("link")), 0)
		fails(t, "a link with one name", os.Symlink("name", c.at("short")), 0)
		fails(t, "a directory elsewhere", os.Mkdir(c.at("dir"), 0o755), 0)
		fails(t, "a link in it", os.Symlink(outside, c.at("dir/sub")), 0)
		for _, name := range []string{".git/rr-cache", ".git/worktrees/x", ".git/logs/refs/heads", ".git/refs/heads/x/y"} {
			for _, target := range []string{outside, "..", "../..", "a/b", "./x"} {
				fails(t, "symlink "+name+" to "+target, os.Symlink(target, c.at(name)), syscall.EACCES)
			}
			fails(t, "rename to "+name, os.Rename(c.at("link"), c.at(name)), syscall.EACCES)
			fails(t, "link to "+name, unix.Linkat(unix.AT_FDCWD, c.at("link"), unix.AT_FDCWD, c.at(name), 0), syscall.EACCES)
			if err := os.Rename(c.at("dir"), c.at(name)); err == nil {
				t.Errorf("a directory can be renamed to %s", name)
			}
		}
		for _, name := range []string{".git/logs/refs", ".git/worktrees"} {
			if err := unix.Renameat2(unix.AT_FDCWD, c.at("link"), unix.AT_FDCWD, c.at(name), unix.RENAME_EXCHANGE); err == nil {
				t.Errorf("a link can be exchanged with %s", name)
			}
			if err := unix.Renameat2(unix.AT_FDCWD, c.at(name), unix.AT_FDCWD, c.at("link"), unix.RENAME_EXCHANGE); err == nil {
				t.Errorf("%s can be exchanged with a link", name)
			}
		}
		fails(t, "a link in a repository with another name", os.Symlink(outside, c.at("deploy/rr-cache")), syscall.EACCES)
		fails(t, "what git init tries", os.Symlink("testing", c.at(".git/tAbCdEf")), 0)
		fails(t, "and removes", os.Remove(c.at(".git/tAbCdEf")), 0)
		fails(t, "rename with one name", os.Rename(c.at("short"), c.at(".git/short")), 0)
		fails(t, "rename within", os.Rename(c.at(".git/logs/refs"), c.at(".git/logs/other")), 0)
	})
}
