package fusefs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// No FIFO is made, or moved, where git on the host opens files by their names; sockets, which nobody can open, are.
func TestFIFOsInGitDirectories(t *testing.T) {
	s := twoRepositories()
	writes := s.Host
	s.Host = func(t *testing.T, dir string) {
		writes(t, dir)
		for _, name := range []string{".git/hosts", "deploy/hosts"} {
			fails(t, "mkfifo "+name, unix.Mkfifo(filepath.Join(dir, name), 0o644), 0)
		}
	}
	mountedBoth(t, s, func(t *testing.T, c *client) {
		fails(t, "a FIFO elsewhere", unix.Mkfifo(c.at("fifo"), 0o644), 0)
		fails(t, "a directory", os.Mkdir(c.at("dir"), 0o755), 0)
		fails(t, "a FIFO in it", unix.Mkfifo(c.at("dir/packed-refs"), 0o644), 0)
		for _, git := range []string{".git", "deploy"} {
			for _, name := range []string{git + "/packed-refs", git + "/refs/x", git + "/index.lock", git + "/objects/new"} {
				refusesFIFO(t, c, name)
			}
			fails(t, "another name of the host's", os.Rename(c.at(git+"/hosts"), c.at(git+"/shallow")), syscall.EACCES)
			fails(t, "in the place of a file", os.Rename(c.at("fifo"), c.at(git+"/index")), syscall.EACCES)
			fails(t, "its removal", os.Remove(c.at(git+"/hosts")), 0)
			if err := os.Rename(c.at("dir"), c.at(git+"/logs")); err == nil {
				t.Errorf("a directory with a FIFO can be renamed to %s/logs", git)
			}
			fails(t, "a socket", unix.Mknod(c.at(git+"/fsmonitor--daemon.ipc"), unix.S_IFSOCK|0o600, 0), 0)
		}
		for _, name := range []string{".git-x", ".gitignore", "dir/.gitattributes", "dir/.GitModules", ".mailmap", ".lfsconfig"} {
			refusesFIFO(t, c, name)
		}
		put(t, c.at(".gitignore"), "fifo\n")
		if err := unix.Renameat2(unix.AT_FDCWD, c.at(".gitignore"), unix.AT_FDCWD, c.at("fifo"), unix.RENAME_EXCHANGE); err == nil {
			t.Error(".gitignore can be exchanged with a FIFO")
		}
		fails(t, "a FIFO by another name", os.Rename(c.at("fifo"), c.at("gitignore")), 0)
	})
}

// refusesFIFO makes sure that no FIFO comes to be at name; there is one called fifo.
func refusesFIFO(t *testing.T, c *client, name string) {
	t.Helper()
	fails(t, "mkfifo "+name, unix.Mkfifo(c.at(name), 0o644), syscall.EACCES)
	fails(t, "rename to "+name, os.Rename(c.at("fifo"), c.at(name)), syscall.EACCES)
	fails(t, "link to "+name, os.Link(c.at("fifo"), c.at(name)), syscall.EACCES)
}
