// Package gitstore opens a sandbox's own git directories for the process that shows them to it.
package gitstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitcopy"
	"wolffia/internal/git/gitsync"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rmtree"
)

// Options say whose git directories they are. Run, Codebase and MountPoint are required.
type Options struct {
	// Run is statedir.Record.Run of the sandbox.
	Run string
	// Codebase, MountPoint, Shown and Credentials are those of gitcopy.Options.
	Codebase, MountPoint, Shown string
	Credentials                 bool
	// Copied is whether the codebase is copied: then they are in its upper layer.
	Copied bool
	// Monitor and Ignore are those of gitcopy.Options.
	Monitor bool
	Ignore  string
}

// A Store is the open directory of a sandbox's own git directories. The Copier is safe for
// concurrent use.
type Store struct {
	*gitcopy.Copier
	// Store and Work are the directories statedir.GitStore and statedir.GitWork. Of a copied
	// codebase Store is nil, and Work is statedir.CowWork.
	Store, Work *os.File
}

// Open opens the sandbox's store, and empties the directory for temporary names. The caller closes
// the result with Close, or with CloseDirs if it continues to use the Copier.
func Open(o Options) (*Store, error) {
	s := new(Store)
	open := s.open
	if o.Copied {
		open = s.openCopied
	}
	if err := open(&o); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open the sandbox's own git directories: %w", err)
	}
	return s, nil
}

func (s *Store) open(o *Options) (err error) {
	dir, err := os.OpenFile(statedir.Git(o.Run), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = dir.Close()
		}
	}()
	apart, err := openApart(dir)
	if err != nil {
		return err
	}
	defer apart.Close()
	err = rmtree.Remove(apart, statedir.GitWork)
	if err == nil {
		err = unix.Mkdirat(int(apart.Fd()), statedir.GitWork, 0o700)
	}
	if err != nil {
		return err
	}
	if s.Store, err = openIn(apart, statedir.GitStore); err != nil {
		return err
	}
	if s.Work, err = openIn(apart, statedir.GitWork); err != nil {
		return err
	}
	s.Copier, err = gitcopy.Open(gitcopy.Options{
		Codebase: o.Codebase, MountPoint: o.MountPoint, Shown: o.Shown, Credentials: o.Credentials,
		Monitor: o.Monitor, Ignore: o.Ignore,
		Dir: dir, Work: filepath.Join(filepath.Base(apart.Name()), statedir.GitWork),
		Hosts: statedir.GitHosts, Mark: statedir.GitChanged,
		Begin: func(copy, at string) error {
			return gitsync.Begin(copy, filepath.Join(dir.Name(), statedir.GitBase, statedir.GitBaseName(at)))
		},
	})
	return err
}

// openCopied is open for a copied codebase: nothing there is synchronised. The directory for
// temporary names is the upper layer's, and was emptied.
func (s *Store) openCopied(o *Options) (err error) {
	dir, err := os.OpenFile(statedir.Cow(o.Run), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	if s.Work, err = openIn(dir, statedir.CowWork); err == nil {
		s.Copier, err = gitcopy.Open(gitcopy.Options{
			Codebase: o.Codebase, MountPoint: o.MountPoint, Shown: o.Shown, Credentials: o.Credentials,
			Dir: dir, Work: statedir.CowWork, Hosts: statedir.CowHosts,
		})
	}
	if err != nil {
		_ = dir.Close()
	}
	return err
}

// openApart opens the directory of dir that has the store.
func openApart(dir *os.File) (*os.File, error) {
	name, err := statedir.GitApart(dir.Name())
	if err != nil {
		return nil, err
	}
	return openIn(dir, name)
}

// openIn opens the directory called name of dir.
func openIn(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// CloseDirs closes Store and Work. s may be nil.
func (s *Store) CloseDirs() error {
	if s == nil {
		return nil
	}
	return errors.Join(closeFile(s.Store), closeFile(s.Work))
}

// Close closes all of s, which may be nil.
func (s *Store) Close() error {
	err := s.CloseDirs()
	if s != nil && s.Copier != nil {
		err = errors.Join(err, s.Copier.Close())
	}
	return err
}

// closeFile closes f, which may be nil.
func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}
