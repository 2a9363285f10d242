package treeserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/internal/boot"
	"wolffia/internal/gitcopy"
	"wolffia/internal/gitsync"
	"wolffia/internal/rmtree"
	"wolffia/internal/statedir"
)

// A private is the open directory of a sandbox's own git directories.
type private struct {
	*gitcopy.Copier
	store, work *os.File
}

// openPrivate opens what the sandbox at run has; nil if its git directories are not its own. It
// empties the directory for temporary names.
func openPrivate(run, codebase, mountPoint string, g boot.TreeGit) (p *private, err error) {
	if !g.Private {
		return nil, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open the sandbox's own git directories: %w", err), p.close())
		}
	}()
	p = new(private)
	dir, err := os.OpenFile(statedir.Git(run), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return p, err
	}
	apart, err := openApart(dir)
	if err != nil {
		return p, errors.Join(err, dir.Close())
	}
	defer apart.Close()
	err = rmtree.Remove(apart, statedir.GitWork)
	if err == nil {
		err = unix.Mkdirat(int(apart.Fd()), statedir.GitWork, 0o700)
	}
	open := func(name string) *os.File {
		fd, bad := unix.Openat(int(apart.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, bad))
			return nil
		}
		return os.NewFile(uintptr(fd), name)
	}
	p.store, p.work = open(statedir.GitStore), open(statedir.GitWork)
	if err != nil {
		return p, errors.Join(err, dir.Close())
	}
	p.Copier, err = gitcopy.Open(gitcopy.Options{
		Codebase: codebase, MountPoint: mountPoint, Dir: dir, Work: filepath.Join(filepath.Base(apart.Name()), statedir.GitWork), Hosts: statedir.GitHosts, Mark: statedir.GitChanged,
		Credentials: g.Credentials,
		Begin: func(copy, at string) error {
			return gitsync.Begin(copy, filepath.Join(dir.Name(), statedir.GitBase, statedir.GitBaseName(at)))
		},
	})
	if err != nil {
		err = errors.Join(err, dir.Close())
	}
	return p, err
}

// openApart opens the directory of dir that has the store.
func openApart(dir *os.File) (*os.File, error) {
	name, err := statedir.GitApart(dir.Name())
	if err != nil {
		return nil, err
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// options returns what fusefs.Serve needs; nil if the git directories are not the sandbox's own.
func (p *private) options() *fusefs.Git {
	if p == nil {
		return nil
	}
	return &fusefs.Git{Store: int(p.store.Fd()), Work: int(p.work.Fd()), Host: p.Copier}
}

// close closes what only openPrivate and Serve need. p may be nil.
func (p *private) close() error {
	if p == nil {
		return nil
	}
	return errors.Join(closeFile(p.store), closeFile(p.work))
}
