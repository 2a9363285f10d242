package fusefs

import (
	"errors"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
)

// chmodFD sets the mode of the object of the O_PATH descriptor fd. It neither sets set-id
// bits, nor takes them from a directory: there they only decide about the group of new
// entries, and the presented mode does not show them.
func (b *backing) chmodFD(fd int, mode uint32) syscall.Errno {
	mode &= 0o7777 &^ setID
	b.modeMu.Lock() // else asOwner could undo it
	defer b.modeMu.Unlock()
	o, errno := b.stat(fdName{fd: fd})
	if errno != 0 {
		return errno
	}
	if o.isDir() {
		mode |= uint32(o.Mode) & setID
	}
	return errnoOf(unix.Fchmodat(b.proc, strconv.Itoa(fd), mode, 0))
}

// restoreMode gives a new entry the mode that was asked for, if it was made with another: the
// server's own umask takes bits from it. The kernel has applied the caller's umask.
func (b *backing) restoreMode(dir int, name string, mode uint32) {
	fd, errno := openBeneath(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return // the caller's lookup fails as well
	}
	defer unix.Close(fd)
	b.chmodFD(fd, mode)
}

// asOwner calls f, and if the mode of the server's own directory fd forbids what f does, calls it
// with another mode. f calls neither asOwner nor chmodFD.
func (b *backing) asOwner(fd int, f func() error) syscall.Errno {
	errno := retry(f)
	if errno != syscall.EACCES {
		return errno
	}
	b.modeMu.Lock() // else another call could restore the mode before f is done
	defer b.modeMu.Unlock()
	o, bad := b.stat(fdName{fd: fd})
	if bad != 0 || o.Uid != b.euid {
		return errno
	}
	if o.Mode&0o700 == 0o700 {
		return retry(f) // it may have been changed since
	}
	self := strconv.Itoa(fd)
	if err := unix.Fchmodat(b.proc, self, uint32(o.Mode)&0o7777|0o700, 0); err != nil {
		return errno
	}
	errno = retry(f)
	if err := unix.Fchmodat(b.proc, self, uint32(o.Mode)&0o7777, 0); err != nil {
		b.logger.Error("restore the mode of a directory of the upper layer", "error", err)
	}
	return errno
}

// ownMode returns the mode of the server's copy of o.
func (b *backing) ownMode(o *object) uint32 {
	mode := uint32(o.Mode) & 0o7777 &^ setID
	if o.Uid != b.euid {
		mode = mode&^0o700 | o.access<<6
	}
	return mode
}

// setTimes gives the object of the descriptor fd the times of o.
func (b *backing) setTimes(fd int, o *object) syscall.Errno {
	times := []unix.Timespec{
		{Sec: o.Atime.Sec, Nsec: int64(o.Atime.Nsec)},
		{Sec: o.Mtime.Sec, Nsec: int64(o.Mtime.Nsec)},
	}
	return errnoOf(unix.UtimesNanoAt(b.proc, strconv.Itoa(fd), times, 0))
}

// openUpper opens the directory at a, which is in the upper layer, and returns where its lower
// half is.
func (b *backing) openUpper(a fdName) (fd int, half cow.Half, path string, errno syscall.Errno) {
	if fd, errno = openBeneath(a.fd, a.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); errno != 0 {
		return -1, 0, "", errno
	}
	var err error
	errno = b.asOwner(fd, func() error { // reading an attribute needs the permission to read
		half, path, err = cow.Lower(fd)
		if errors.Is(err, syscall.EACCES) {
			return syscall.EACCES
		}
		return nil
	})
	if errno == 0 && err != nil {
		b.logger.Error("read a directory of the upper layer", "error", err)
		errno = syscall.EIO
	}
	if errno != 0 {
		unix.Close(fd)
		return -1, 0, "", errno
	}
	return fd, half, path, 0
}

// moveDir renames the upper directory at from to to: the mode of a directory can forbid that.
func (b *backing) moveDir(from, to fdName, flags uint) syscall.Errno {
	return inDir(from.fd, from.name, func(fd int) syscall.Errno {
		return b.asOwner(fd, func() error { return unix.Renameat2(from.fd, from.name, to.fd, to.name, flags) })
	})
}
