package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/rmtree"
)

// A tree is a directory that is being filled. All of it is reached by descriptors and
// package beneath: nothing in it can lead out of it, and no link is followed, where an
// os.Root would follow links within it.
type tree struct {
	root *os.File

	// The directory that was opened last: entries come directory by directory.
	last   string
	lastFD int // -1: none

	steps int // directories passed on the way to others, and names listed: what tests bound
}

func openTree(path string) (*tree, error) {
	root, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, lastFD: -1}, nil
}

func (t *tree) Close() error {
	t.forget()
	return t.root.Close()
}

// forget closes last: its name may mean another directory now.
func (t *tree) forget() {
	if t.lastFD >= 0 {
		_ = unix.Close(t.lastFD)
	}
	t.last, t.lastFD = "", -1
}

// open returns a descriptor of a directory, which is valid until the next open.
func (t *tree) open(dir string) (int, error) {
	if t.lastFD >= 0 && t.last == dir {
		return t.lastFD, nil
	}
	fd, err := t.openAside(dir)
	if err != nil {
		return -1, err
	}
	t.keep(dir, fd)
	return fd, nil
}

// keep makes fd the descriptor that open returns for dir.
func (t *tree) keep(dir string, fd int) {
	t.forget()
	t.last, t.lastFD = dir, fd
}

// openAside returns a descriptor of a directory. The caller closes it.
func (t *tree) openAside(dir string) (int, error) {
	t.steps += 1 + strings.Count(dir, "/")
	return beneath.Open(int(t.root.Fd()), dir, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// openIn returns a descriptor of a directory in another one. The caller closes it.
func (t *tree) openIn(parent int, base string) (int, error) {
	t.steps++
	return beneath.Open(parent, base, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// openAbove returns a descriptor of the directory that dir, which is not the root, is in. The
// caller closes it.
func (t *tree) openAbove(dir int) (int, error) {
	t.steps++
	return unix.Openat(dir, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// list returns the names in a directory.
func (t *tree) list(dir int) ([]string, error) {
	rd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(rd), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1) // bounded by Limits.Files
	t.steps += 1 + len(names)
	return names, err
}

// kindOf returns the type (S_IFMT) of a name; 0 if it does not exist.
func kindOf(parent int, base string) (uint32, error) {
	var st unix.Stat_t
	err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	return st.Mode & unix.S_IFMT, err
}

// remove deletes base in parent, with all below it. name is for errors.
func (t *tree) remove(parent int, base, name string) error {
	err := unix.Unlinkat(parent, base, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return fmt.Errorf("replace %.300q: %w", name, err)
	}
	fd, err := unix.FcntlInt(uintptr(parent), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	if t.lastFD != parent {
		t.forget() // it may be below
	}
	return rmtree.Remove(dir, base)
}

// dir makes a directory, or keeps an existing one with its content. The owner always has
// all permissions on it.
func (t *tree) dir(parent int, base, name string, mode uint32) error {
	kind, err := kindOf(parent, base)
	if err != nil {
		return err
	}
	if kind != unix.S_IFDIR {
		if kind != 0 {
			if err := t.remove(parent, base, name); err != nil {
				return err
			}
		}
		if err := unix.Mkdirat(parent, base, 0o700); err != nil {
			return err
		}
	}
	fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, mode|0o700) // whatever the umask
}

// setTime sets the modification time of a file, unless the file system cannot store it.
func setTime(f *os.File, at time.Time) error {
	if at.Unix() <= 0 {
		return nil
	}
	tv := []unix.Timeval{unix.NsecToTimeval(time.Now().UnixNano()), unix.NsecToTimeval(at.UnixNano())}
	if err := unix.Futimes(int(f.Fd()), tv); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOVERFLOW) {
		return err
	}
	return nil
}
