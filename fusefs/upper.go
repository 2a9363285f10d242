package fusefs

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
)

// Everything comes into the upper layer, and leaves it, by one rename from or to the work directory, so
// that a killed server leaves nothing half done.

// needUpper makes the upper halves of the directory n and of all above it that have none. To the
// sandbox nothing changes. The caller holds t.renameMu for writing.
func (t *tree) needUpper(n *node) syscall.Errno {
	if n.inUpper() {
		return 0
	}
	lower, errno := t.acquireLocked(n, usePath)
	if errno != 0 {
		return errno
	}
	defer lower.release()
	o, errno := t.examine(fdName{fd: lower.fd})
	if errno != 0 {
		return errno
	}
	parent, name := t.table.place(n)
	if parent != nil {
		errno = t.needUpper(parent)
		if errno == 0 {
			errno = t.copied.note(n.layers.lowerPath(), o, nil)
		}
	}
	if errno == 0 {
		errno = t.quota.take(objectCost)
	}
	if errno != 0 {
		return errno
	}
	if errno = t.makeHalf(n, o, parent, name); errno != 0 {
		t.quota.give(objectCost)
	}
	return errno
}

// makeHalf makes the upper half of n, which is the host's o, at the entry called name of parent; of an
// orphan, which has no parent, one without a name.
func (t *tree) makeHalf(n *node, o *object, parent *node, name string) syscall.Errno {
	fd, tmp, errno := t.makeWorkDir()
	if errno != 0 {
		return errno
	}
	defer func() {
		if fd >= 0 {
			unix.Close(fd)
		}
	}()
	made, errno := t.stat(fdName{fd: fd})
	mode, self := t.ownMode(o), strconv.Itoa(fd)
	if errno == 0 { // a directory that is moved must be writable
		errno = errnoOf(unix.Fchmodat(t.proc, self, mode|0o700, 0))
	}
	if errno == 0 {
		errno = t.setTimes(fd, o)
	}
	if errno == 0 && parent != nil {
		errno = t.placeHalf(n, fd, tmp, parent, name)
	}
	if parent == nil || errno != 0 {
		t.removeWork(tmp, true)
	}
	if errno != 0 {
		return errno
	}
	if mode&0o700 != 0o700 {
		if err := unix.Fchmodat(t.proc, self, mode, 0); err != nil {
			t.logger.Error("set the mode of a directory of the upper layer", "error", err)
		}
	}
	t.adopt(n, made.ident)
	n.layers.lowerSeen.Store(t.clock())
	if parent == nil {
		n.layers.merges.Store(false)
		t.fds.renew(n)
	} else {
		t.fds.move(n, usePath, useLower)
	}
	n.layers.upper.Store(true)
	t.fds.add(n, usePath, fd).release()
	fd = -1
	if parent == nil {
		t.pinOrphan(n)
	}
	return 0
}

// makeWorkDir makes a directory in the work directory, and opens it.
func (t *tree) makeWorkDir() (fd int, name string, errno syscall.Errno) {
	name = t.copied.temp()
	if err := unix.Mkdirat(t.copied.work, name, 0o700); err != nil {
		return -1, "", errnoOf(err)
	}
	if fd, errno = openBeneath(t.copied.work, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); errno != 0 {
		_ = unix.Unlinkat(t.copied.work, name, unix.AT_REMOVEDIR)
	}
	return fd, name, errno
}

// placeHalf puts the new upper half of n, called tmp in the work directory and open as fd, at its place.
func (t *tree) placeHalf(n *node, fd int, tmp string, parent *node, name string) syscall.Errno {
	if half, path := n.half(parent, name); half != cow.Merged {
		if err := cow.SetLower(fd, half, path); err != nil {
			return errnoOf(err)
		}
	}
	up, errno := t.acquireLocked(parent, usePath)
	if errno != 0 {
		return errno
	}
	defer up.release()
	return t.putUpper(tmp, up.fd, name, false)
}

// putUpper moves tmp, a copy of what the host has, from the work directory to name in the upper
// directory fd; only with over it may replace something. To the sandbox nothing has changed there:
// the times of the directory stay. The caller holds t.renameMu for writing, so that no name is made
// in it meanwhile.
func (t *tree) putUpper(tmp string, fd int, name string, over bool) syscall.Errno {
	o, errno := t.stat(fdName{fd: fd})
	if errno != 0 {
		return errno
	}
	flags := uint(unix.RENAME_NOREPLACE)
	if over {
		flags = 0
	}
	errno = t.asOwner(fd, func() error {
		return unix.Renameat2(t.copied.work, tmp, fd, name, flags)
	})
	if errno != 0 {
		return errno
	}
	return t.setTimes(fd, o)
}

// makeUpper is make for a copied tree.
func (t *tree) makeUpper(d *openDir, name string, isDir bool, create func(dir int, name string) syscall.Errno) syscall.Errno {
	if _, _, errno := t.statEntry(*d, name); errno == 0 {
		return syscall.EEXIST
	} else if errno != syscall.ENOENT {
		return errno
	}
	if errno := t.ensureUpper(d); errno != 0 {
		return errno
	}
	_, absent := t.stat(fdName{d.fd, name})
	whiteout := absent == 0
	if !whiteout && !isDir {
		return create(d.fd, name)
	}
	work, tmp := t.copied.work, t.copied.temp()
	if errno := create(work, tmp); errno != 0 {
		return errno
	}
	var errno syscall.Errno
	if isDir {
		errno = t.makeOwn(work, tmp)
	}
	switch {
	case errno != 0:
	case !whiteout:
		errno = errnoOf(unix.Renameat2(work, tmp, d.fd, name, unix.RENAME_NOREPLACE))
	case isDir:
		errno = errnoOf(unix.Renameat2(work, tmp, d.fd, name, unix.RENAME_EXCHANGE))
		if errno == 0 { // the whiteout is in the work directory now
			isDir = false
			t.removeWork(tmp, false)
		}
	default:
		errno = errnoOf(unix.Renameat(work, tmp, d.fd, name))
	}
	switch {
	case errno != 0:
		t.removeWork(tmp, isDir)
	case whiteout:
		t.quota.give(objectCost)
	}
	return errno
}

// ensureUpper opens d with an upper half. If it has none the caller holds t.renameMu for writing.
func (t *tree) ensureUpper(d *openDir) syscall.Errno {
	if d.upper {
		return 0
	}
	if errno := t.needUpper(d.node); errno != 0 {
		return errno
	}
	again, errno := t.halves(d.node)
	if errno == 0 {
		d.release()
		*d = again
	}
	return errno
}

// removeWork removes name from the work directory. A failure leaves it there until the next start.
func (t *tree) removeWork(name string, isDir bool) {
	flags := 0
	if isDir {
		flags = unix.AT_REMOVEDIR
	}
	if err := unix.Unlinkat(t.copied.work, name, flags); err != nil {
		t.logger.Error("remove a temporary name", "error", err)
	}
}
