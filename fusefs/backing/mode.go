package backing

import (
	"errors"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
)

// ChmodFD sets the mode of the object of the O_PATH descriptor fd. It neither sets set-id
// bits, nor takes them from a directory: there they only decide about the group of new
// entries, and the presented mode does not show them.
func (b *FS) ChmodFD(fd int, mode uint32) syscall.Errno {
	mode &= 0o7777 &^ SetIDBits
	b.modeMu.Lock() // else AsOwner could undo it
	defer b.modeMu.Unlock()
	o, errno := b.Stat(At{FD: fd})
	if errno != 0 {
		return errno
	}
	if o.IsDir() {
		mode |= uint32(o.Mode) & SetIDBits
	}
	return Errno(unix.Fchmodat(b.Proc, strconv.Itoa(fd), mode, 0))
}

// RestoreMode gives a new entry the mode that was asked for, if it was made with another: the
// server's own umask takes bits from it. The kernel has applied the caller's umask.
func (b *FS) RestoreMode(dir int, name string, mode uint32) {
	fd, errno := OpenBeneath(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return // the caller's lookup fails as well
	}
	defer unix.Close(fd)
	b.ChmodFD(fd, mode)
}

// AsOwner calls f, and if the mode of the server's own directory fd forbids what f does, calls it
// with another mode. f calls neither AsOwner nor ChmodFD.
func (b *FS) AsOwner(fd int, f func() error) syscall.Errno {
	errno := Retry(f)
	if errno != syscall.EACCES {
		return errno
	}
	b.modeMu.Lock() // else another call could restore the mode before f is done
	defer b.modeMu.Unlock()
	o, bad := b.Stat(At{FD: fd})
	if bad != 0 || o.Uid != b.EUID {
		return errno
	}
	if o.Mode&0o700 == 0o700 {
		return Retry(f) // it may have been changed since
	}
	self := strconv.Itoa(fd)
	if err := unix.Fchmodat(b.Proc, self, uint32(o.Mode)&0o7777|0o700, 0); err != nil {
		return errno
	}
	errno = Retry(f)
	if err := unix.Fchmodat(b.Proc, self, uint32(o.Mode)&0o7777, 0); err != nil {
		b.Logger.Error("restore the mode of a directory of the upper layer", "error", err)
	}
	return errno
}

// OwnMode returns the mode of the server's copy of o.
func (b *FS) OwnMode(o *Object) uint32 {
	mode := uint32(o.Mode) & 0o7777 &^ SetIDBits
	if o.Uid != b.EUID {
		mode = mode&^0o700 | o.Access<<6
	}
	return mode
}

// SetTimes gives the object of the descriptor fd the times of o.
func (b *FS) SetTimes(fd int, o *Object) syscall.Errno {
	times := []unix.Timespec{
		{Sec: o.Atime.Sec, Nsec: int64(o.Atime.Nsec)},
		{Sec: o.Mtime.Sec, Nsec: int64(o.Mtime.Nsec)},
	}
	return Errno(unix.UtimesNanoAt(b.Proc, strconv.Itoa(fd), times, 0))
}

// OpenUpper opens the directory at a, which is in the upper layer, and returns where its lower
// half is.
func (b *FS) OpenUpper(a At) (fd int, half cow.Half, path string, errno syscall.Errno) {
	if fd, errno = OpenBeneath(a.FD, a.Name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); errno != 0 {
		return -1, 0, "", errno
	}
	var err error
	errno = b.AsOwner(fd, func() error { // reading an attribute needs the permission to read
		half, path, err = cow.Lower(fd)
		if errors.Is(err, syscall.EACCES) {
			return syscall.EACCES
		}
		return nil
	})
	if errno == 0 && err != nil {
		b.Logger.Error("read a directory of the upper layer", "error", err)
		errno = syscall.EIO
	}
	if errno != 0 {
		unix.Close(fd)
		return -1, 0, "", errno
	}
	return fd, half, path, 0
}

// MoveDir renames the upper directory at from to to: the mode of a directory can forbid that.
func (b *FS) MoveDir(from, to At, flags uint) syscall.Errno {
	return InDir(from.FD, from.Name, func(fd int) syscall.Errno {
		return b.AsOwner(fd, func() error { return unix.Renameat2(from.FD, from.Name, to.FD, to.Name, flags) })
	})
}
