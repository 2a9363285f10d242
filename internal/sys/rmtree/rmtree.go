// Package rmtree deletes a tree whose content is hostile: of any depth, with directories
// that cannot be listed. It follows no link, does not cross into a mount, and needs three
// descriptors.
package rmtree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// batch is the number of names that are read at a time.
const batch = 512

// Remove deletes name in the directory parent, with all that is below it. It returns nil
// if name does not exist. After an error a part of the tree may be deleted.
func Remove(parent *os.File, name string) error {
	t := &tree{}
	err := t.remove(int(parent.Fd()), name)
	if f := others.Load(); f != nil && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) {
		if more := (*f)(parent, name); more != nil {
			err = fmt.Errorf("%w; in a user namespace: %w", err, more)
		} else {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("delete %s/%s: %w", parent.Name(), name, err)
	}
	return nil
}

var others atomic.Pointer[func(parent *os.File, name string) error]

// Others has Remove call f for a tree of which this process may not delete a part, as one with
// files of subordinate ids of its user. f deletes the rest, and returns an error if it cannot. It
// is safe for concurrent use. The last f counts.
func Others(f func(parent *os.File, name string) error) { others.Store(&f) }

// RemovePath is Remove in the directory dir. A missing dir is not an error, and dir may be a link to a
// directory; another file in its place is an error.
func RemovePath(dir, name string) error {
	// a FIFO blocks no process
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	parent := os.NewFile(uintptr(fd), dir)
	defer parent.Close()
	return Remove(parent, name)
}

// A tree is a tree that is being deleted. Directories that are not empty are first moved
// up into its top directory, so that its depth does not matter.
type tree struct {
	top   *os.File
	moved int // directories, for their new names
}

func (t *tree) remove(parent int, name string) error {
	gone, err := unlink(parent, name)
	if gone || err != nil {
		return err
	}
	if t.top, err = enter(parent, name); err != nil {
		return err
	}
	defer t.top.Close()
	if err := each(t.top, t.drop); err != nil {
		return err
	}
	return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
}

// drop deletes a name in the top directory.
func (t *tree) drop(name string) error {
	top := int(t.top.Fd())
	gone, err := unlink(top, name)
	if gone || err != nil {
		return err
	}
	dir, err := enter(top, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := each(dir, func(name string) error { return t.lift(dir, name) }); err != nil {
		return err
	}
	return unix.Unlinkat(top, name, unix.AT_REMOVEDIR)
}

// lift deletes a name in dir, or moves it up.
func (t *tree) lift(dir *os.File, name string) error {
	gone, err := unlink(int(dir.Fd()), name)
	if gone || err != nil {
		return err
	}
	// A directory that gets another parent must be writable itself.
	d, err := enter(int(dir.Fd()), name)
	if err != nil {
		return err
	}
	_ = d.Close()
	for {
		t.moved++
		err := unix.Renameat2(int(dir.Fd()), name, int(t.top.Fd()), strconv.Itoa(t.moved), unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
}

// unlink deletes a file or an empty directory, and reports whether the name no longer exists.
func unlink(dir int, name string) (gone bool, err error) {
	err = unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return true, nil
	case errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST):
		return false, nil
	}
	return false, fmt.Errorf("%q: %w", name, err)
}

// enter opens a directory, after it has given the owner all permissions on it.
func enter(parent int, name string) (*os.File, error) {
	fd, err := beneath.Open(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	path := os.NewFile(uintptr(fd), name)
	defer path.Close()
	st, err := path.Stat()
	if err != nil {
		return nil, err
	}
	if st.Mode().Perm()&0o700 != 0o700 {
		// By the descriptor: the name could be a link by now.
		if err := os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700); err != nil {
			return nil, err
		}
	}
	dir, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	return os.NewFile(uintptr(dir), name), nil
}

// each calls do for every name in dir until dir is empty. do must remove the name.
func each(dir *os.File, do func(name string) error) error {
	for {
		names, err := dir.Readdirnames(batch)
		if len(names) == 0 && (err == nil || errors.Is(err, io.EOF)) {
			return nil
		}
		if len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}
