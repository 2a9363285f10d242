package cow

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// Objects in the upper layer have the modes that the sandbox has set, which can forbid their
// owner, this user, to change them. A mode is changed for one call only, while nothing reads the
// layer: so no plan has such a mode, and no such mode is applied. A kill in between leaves the
// owner, and no other user, more access than the sandbox has set.

// asOwner calls f, and if the mode of fd, which is a file or directory of the upper layer and may
// be open with O_PATH, forbids what f does, calls it again with another mode.
func (l *Layers) asOwner(fd int, f func() error) error {
	err := f()
	if errors.Is(err, unix.EACCES) {
		l.alone(func() { err = withAccess(fd, f) })
	}
	return err
}

// withAccess calls f while the owner of fd has all access to it.
func withAccess(fd int, f func() error) error {
	o, err := statAt(fd, "")
	if err != nil {
		return err
	}
	mode, access := uint32(o.Mode)&0o7777, uint32(0o600)
	if o.isDir() {
		access = 0o700
	}
	if mode&access == access || !o.isDir() && !o.isFile() {
		return f()
	}
	if err := unix.Fchmodat(unix.AT_FDCWD, procPath(fd), mode|access, 0); err != nil {
		return err
	}
	return errors.Join(f(), unix.Fchmodat(unix.AT_FDCWD, procPath(fd), mode, 0))
}

// ownDir is openDir in the upper layer, or in a copy of it, whose directory root is.
func (l *Layers) ownDir(root int, p string) (int, error) {
	fd, err := openDir(root, p)
	if !errors.Is(err, unix.EACCES) {
		return fd, err
	}
	err = l.asOwner(root, func() (err error) { fd, err = openDir(root, ""); return err })
	for name := range splitPath(p) {
		if err != nil || fd < 0 {
			break
		}
		dir := fd
		err = l.asOwner(dir, func() (err error) { fd, err = openDir(dir, name); return err })
		unix.Close(dir)
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// inOwn calls f with the parent directory of a path of the upper layer, and the name in it. A
// missing directory is ESTALE.
func (l *Layers) inOwn(at string, f func(dir int, name string) error) error {
	dir, err := l.ownDir(l.Upper, parentOf(at))
	if err != nil || dir < 0 {
		return errors.Join(err, unix.ESTALE)
	}
	defer unix.Close(dir)
	return l.asOwner(dir, func() error { return f(dir, path.Base(at)) })
}

// onOwn calls f with a descriptor, open with O_PATH, of what the upper layer's directory dir has
// as name.
func (l *Layers) onOwn(dir int, name string, f func(fd int) error) error {
	fd := -1
	err := l.asOwner(dir, func() (err error) { fd, err = beneath.Open(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0); return err })
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return l.asOwner(fd, func() error { return f(fd) })
}

// ownLink is beneath.Readlink in the upper layer.
func (l *Layers) ownLink(dir int, name string) (target string, err error) {
	err = l.asOwner(dir, func() (err error) { target, err = beneath.Readlink(dir, name); return err })
	return target, err
}

// openOwn is openRegular in the upper layer.
func (l *Layers) openOwn(dir int, p string) (fd int, size int64, err error) {
	if fd, size, err = openRegular(dir, p); !errors.Is(err, unix.EACCES) {
		return fd, size, err
	}
	parent, err := l.ownDir(dir, parentOf(p))
	if err != nil || parent < 0 {
		return -1, 0, errors.Join(err, unix.ESTALE)
	}
	defer unix.Close(parent)
	err = l.onOwn(parent, path.Base(p), func(file int) (err error) {
		if o, err := statAt(file, ""); err != nil || !o.isFile() {
			return errors.Join(err, unix.ESTALE)
		}
		fd, size, err = reopen(file)
		return err
	})
	if err != nil {
		return -1, 0, err
	}
	return fd, size, nil
}

// reopen opens a regular file that is open with O_PATH for reading.
func reopen(file int) (fd int, size int64, err error) {
	if fd, err = unix.Open(procPath(file), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, st.Size, nil
}
