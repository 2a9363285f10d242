package fusefs

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
)

// Everything comes into the upper layer, and leaves it, by one rename from or to the work
// directory, so that a killed server leaves nothing half done.

// needUpper makes the upper halves of the directory n and of all above it that have none. To the
// sandbox nothing changes. The caller holds u.renameMu for writing.
func (u *upperLayer) needUpper(n *node) syscall.Errno {
	if n.inUpper() {
		return 0
	}
	lower, errno := u.acquireLocked(n, usePath)
	if errno != 0 {
		return errno
	}
	defer lower.release()
	o, errno := u.Examine(backing.At{FD: lower.fd})
	if errno != 0 {
		return errno
	}
	parent, name := u.table.place(n)
	if parent != nil {
		errno = u.needUpper(parent)
		if errno == 0 {
			errno = u.note(n.layers.lowerPath(), o, nil)
		}
	}
	if errno == 0 {
		errno = u.Quota.Reserve(backing.ObjectCost)
	}
	if errno != 0 {
		return errno
	}
	if errno = u.makeHalf(n, o, parent, name); errno != 0 {
		u.Quota.Release(backing.ObjectCost)
	}
	return errno
}

// makeHalf makes the upper half of n, which is the host's o, at the entry called name of parent;
// of an orphan, which has no parent, one without a name.
func (u *upperLayer) makeHalf(n *node, o *backing.Object, parent *node, name string) syscall.Errno {
	fd, tmp, errno := u.makeWorkDir()
	if errno != 0 {
		return errno
	}
	defer func() {
		if fd >= 0 {
			unix.Close(fd)
		}
	}()
	made, errno := u.Stat(backing.At{FD: fd})
	mode, self := u.OwnMode(o), strconv.Itoa(fd)
	if errno == 0 { // a directory that is moved must be writable
		errno = backing.Errno(unix.Fchmodat(u.Proc, self, mode|0o700, 0))
	}
	if errno == 0 {
		errno = u.SetTimes(fd, o)
	}
	if errno == 0 && parent != nil {
		errno = u.placeHalf(n, fd, tmp, parent, name)
	}
	if parent == nil || errno != 0 {
		u.removeWork(tmp, true)
	}
	if errno != 0 {
		return errno
	}
	if mode&0o700 != 0o700 {
		if err := unix.Fchmodat(u.Proc, self, mode, 0); err != nil {
			u.Logger.Error("set the mode of a directory of the upper layer", "error", err)
		}
	}
	u.adopt(n, made.ID)
	n.layers.lowerSeen.Store(u.clock())
	if parent == nil {
		n.layers.merges.Store(false)
		u.fds.renew(n)
	} else {
		u.fds.move(n, usePath, useLower)
	}
	n.layers.upper.Store(true)
	u.fds.add(n, usePath, fd).release()
	fd = -1
	if parent == nil {
		u.pinOrphan(n)
	}
	return 0
}

// makeWorkDir makes a directory in the work directory, and opens it.
func (u *upperLayer) makeWorkDir() (fd int, name string, errno syscall.Errno) {
	name = u.temp()
	if err := unix.Mkdirat(u.work, name, 0o700); err != nil {
		return -1, "", backing.Errno(err)
	}
	if fd, errno = backing.OpenBeneath(u.work, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); errno != 0 {
		_ = unix.Unlinkat(u.work, name, unix.AT_REMOVEDIR)
	}
	return fd, name, errno
}

// placeHalf puts the new upper half of n, called tmp in the work directory and open as fd, at its
// place.
func (u *upperLayer) placeHalf(n *node, fd int, tmp string, parent *node, name string) syscall.Errno {
	if half, path := n.half(parent, name); half != cow.Merged {
		if err := cow.SetLower(fd, half, path); err != nil {
			return backing.Errno(err)
		}
	}
	up, errno := u.acquireLocked(parent, usePath)
	if errno != 0 {
		return errno
	}
	defer up.release()
	return u.putUpper(tmp, up.fd, name, false)
}

// putUpper moves tmp, a copy of the host's object, from the work directory to name in the upper
// directory fd; only with over it may replace an object. To the sandbox nothing has changed there:
// the times of the directory stay. The caller holds u.renameMu for writing, so that no name is
// made in it meanwhile.
func (u *upperLayer) putUpper(tmp string, fd int, name string, over bool) syscall.Errno {
	o, errno := u.Stat(backing.At{FD: fd})
	if errno != 0 {
		return errno
	}
	flags := uint(unix.RENAME_NOREPLACE)
	if over {
		flags = 0
	}
	errno = u.AsOwner(fd, func() error {
		return unix.Renameat2(u.work, tmp, fd, name, flags)
	})
	if errno != 0 {
		return errno
	}
	return u.SetTimes(fd, o)
}

// makeUpper is make for a copied tree.
func (u *upperLayer) makeUpper(d *openDir, name string, isDir bool, create func(dir int, name string) syscall.Errno) syscall.Errno {
	if _, _, errno := u.statEntry(*d, name); errno == 0 {
		return syscall.EEXIST
	} else if errno != syscall.ENOENT {
		return errno
	}
	if errno := u.ensureUpper(d); errno != 0 {
		return errno
	}
	_, absent := u.Stat(backing.At{FD: d.fd, Name: name})
	whiteout := absent == 0
	if !whiteout && !isDir {
		return create(d.fd, name)
	}
	work, tmp := u.work, u.temp()
	if errno := create(work, tmp); errno != 0 {
		return errno
	}
	var errno syscall.Errno
	if isDir {
		// It is the sandbox's own: what the host makes by its name does not show in it.
		errno = backing.InDir(work, tmp, func(fd int) syscall.Errno {
			return backing.Errno(cow.SetLower(fd, cow.Own, ""))
		})
	}
	switch {
	case errno != 0:
	case !whiteout:
		errno = backing.Errno(unix.Renameat2(work, tmp, d.fd, name, unix.RENAME_NOREPLACE))
	case isDir:
		errno = backing.Errno(unix.Renameat2(work, tmp, d.fd, name, unix.RENAME_EXCHANGE))
		if errno == 0 { // the whiteout is in the work directory now
			isDir = false
			u.removeWork(tmp, false)
		}
	default:
		errno = backing.Errno(unix.Renameat(work, tmp, d.fd, name))
	}
	switch {
	case errno != 0:
		u.removeWork(tmp, isDir)
	case whiteout:
		u.Quota.Release(backing.ObjectCost)
	}
	return errno
}

// ensureUpper opens d with an upper half. If it has none the caller holds u.renameMu for writing.
func (u *upperLayer) ensureUpper(d *openDir) syscall.Errno {
	if d.upper {
		return 0
	}
	if errno := u.needUpper(d.node); errno != 0 {
		return errno
	}
	again, errno := u.halves(d.node)
	if errno == 0 {
		d.release()
		*d = again
	}
	return errno
}

// removeWork removes name from the work directory. A failure leaves it there until the next start.
func (u *upperLayer) removeWork(name string, isDir bool) {
	flags := 0
	if isDir {
		flags = unix.AT_REMOVEDIR
	}
	if err := unix.Unlinkat(u.work, name, flags); err != nil {
		u.Logger.Error("remove a temporary name", "error", err)
	}
}
