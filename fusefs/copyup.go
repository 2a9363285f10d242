package fusefs

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// copyStep is how many bytes of a file are copied at a time, and copyLimit how long a copy may take:
// the kernel gives the tree up if a request takes minutes.
const (
	copyStep  = 64 << 20
	copyLimit = time.Minute
)

// needOwn has n, which is not a regular file, in the upper layer of a copied tree. In a direct one it
// does nothing. The caller does not hold t.renameMu.
func (t *tree) needOwn(n *node) syscall.Errno {
	if t.copied == nil || n.inUpper() {
		return 0
	}
	if !n.isDir() {
		n.layers.content.Lock()
		defer n.layers.content.Unlock()
		return t.copyUp(n, 0)
	}
	t.renameMu.Lock()
	defer t.renameMu.Unlock()
	return t.needUpper(n)
}

// needCopy has n, which is not a directory, in the upper layer of a copied tree, with its content. In a
// direct one it does nothing. The caller does not hold t.renameMu.
func (t *tree) needCopy(n *node) syscall.Errno {
	if t.copied == nil || n.inUpper() {
		return 0
	}
	lock, errno := t.unshare(n, all)
	if lock != nil {
		lock.RUnlock()
	}
	return errno
}

// An upperCopy is a copy of the host's object, not yet at its place.
type upperCopy struct {
	fd   int    // open for writing of a regular file, else O_PATH; -1 once the cache of descriptors has it
	name string // in the work directory; empty: it has none yet
}

// copyUp copies n, which is not a directory, to the upper layer: of a regular file the first keep bytes.
// The kernel keeps the node. Others go on meanwhile: t.renameMu is taken only to put the copy at its
// place. The caller holds n's lock of contentLock for writing.
func (t *tree) copyUp(n *node, keep int64) syscall.Errno {
	if n.inUpper() {
		return 0
	}
	old, errno := t.acquire(n, usePath)
	if errno != 0 {
		return errno
	}
	defer old.release()
	o, errno := t.examine(fdName{fd: old.fd})
	if errno != 0 {
		return errno
	}
	cost := objectCost + min(int64(o.Blocks)*512, max(keep, 0))
	if errno := t.quota.take(cost); errno != 0 {
		return errno
	}
	c := upperCopy{fd: -1}
	actual := int64(0)
	if errno = t.copyObject(&c, old.fd, o, keep); errno == 0 {
		errno = t.noteAhead(n, o)
	}
	if errno == 0 {
		actual, errno = t.placeCopy(n, o, &c)
	}
	t.quota.give(cost - actual)
	if c.name != "" {
		t.removeWork(c.name, false)
	}
	lookupResult{fd: c.fd}.close()
	if errno == 0 {
		t.copied.copyUps.Add(1)
	}
	return errno
}

// noteAhead records what the host has where n is, and has the record on the disk: as the copy, before that
// has a name.
func (t *tree) noteAhead(n *node, o *object) syscall.Errno {
	t.renameMu.RLock()
	parent, name := t.table.place(n)
	path, shown := "", parent != nil && parent.merges()
	if shown {
		path = lowerPathOf(parent, name)
	}
	t.renameMu.RUnlock()
	if !shown {
		return 0
	}
	if errno := t.copied.note(path, o); errno != 0 || !n.isRegular() {
		return errno
	}
	if err := t.copied.log.Sync(); err != nil {
		t.logger.Error("record what the host has", "error", err)
		return syscall.EIO
	}
	return 0
}

// copyObject fills c with a copy of o, which is open as from.
func (t *tree) copyObject(c *upperCopy, from int, o *object, keep int64) (errno syscall.Errno) {
	work := t.copied.work
	switch o.typ() {
	case unix.S_IFREG:
		tmp, errno := newTempFile(work)
		if errno != 0 {
			return errno
		}
		c.fd, c.name = tmp.fd, tmp.name
		return t.copyFile(c.fd, from, o, keep)
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(from, "", target)
		if err != nil {
			return errnoOf(err)
		}
		name := t.copied.temp()
		if err := unix.Symlinkat(string(target[:n]), work, name); err != nil {
			return errnoOf(err)
		}
		c.name = name
	case unix.S_IFIFO, unix.S_IFSOCK:
		name := t.copied.temp()
		if err := unix.Mknodat(work, name, o.typ()|t.ownMode(o), 0); err != nil {
			return errnoOf(err)
		}
		c.name = name
	default:
		return syscall.EPERM // a device
	}
	if c.fd, errno = openBeneath(work, c.name, unix.O_PATH|unix.O_NOFOLLOW, 0); errno != 0 {
		return errno
	}
	times := []unix.Timespec{
		{Sec: o.Atime.Sec, Nsec: int64(o.Atime.Nsec)}, {Sec: o.Mtime.Sec, Nsec: int64(o.Mtime.Nsec)},
	}
	return errnoOf(unix.UtimesNanoAt(work, c.name, times, unix.AT_SYMLINK_NOFOLLOW))
}

// copyFile copies the first keep bytes and the attributes of the regular file o, open as from, to the
// empty file to, and has them on the disk: the name must not become durable before the content.
func (t *tree) copyFile(to, from int, o *object, keep int64) syscall.Errno {
	if size := min(int64(o.Size), keep); size > 0 {
		src, errno := t.openProc(from, unix.O_RDONLY)
		if errno != 0 {
			return errno
		}
		defer unix.Close(src)
		end := time.Now().Add(copyLimit)
		errno = copyContent(to, src, size, func(off, size int64) error {
			// It is written to the disk as it goes, so that the flush at the end is short.
			_ = unix.SyncFileRange(to, off, size, unix.SYNC_FILE_RANGE_WRITE)
			if time.Now().After(end) {
				return syscall.EFBIG
			}
			return nil
		})
		if errno != 0 {
			return errno
		}
	}
	if err := unix.Fchmod(to, t.ownMode(o)); err != nil {
		return errnoOf(err)
	}
	if errno := t.setTimes(to, o); errno != 0 {
		return errno
	}
	return errnoOf(unix.Fdatasync(to))
}

// placeCopy makes c, a copy of o, the inode of n: at n's name, if it has one. It returns how many bytes c
// takes.
func (t *tree) placeCopy(n *node, o *object, c *upperCopy) (cost int64, errno syscall.Errno) {
	fresh, errno := t.stat(fdName{fd: c.fd})
	if errno != 0 {
		return 0, errno
	}
	cost = objectCost + int64(fresh.Blocks)*512
	t.renameMu.Lock()
	defer t.renameMu.Unlock()
	parent, name := t.table.place(n)
	if parent != nil {
		if errno := t.placeAt(n, o, parent, name, c); errno != 0 {
			return 0, errno
		}
	}
	path, errno := t.openCopy(c, o)
	if errno != 0 {
		return 0, errno
	}
	if !t.table.adopt(n, fresh.ident) { // does not happen during a request on n
		lookupResult{fd: path}.close()
		return 0, syscall.ESTALE
	}
	t.fds.renew(n)
	n.layers.upper.Store(true)
	t.fds.add(n, usePath, path).release()
	if n.isRegular() {
		t.fds.add(n, useWrite, c.fd).release()
		c.fd = -1
		if fresh.Mode&0o600 != 0o600 {
			t.fds.prefer(n, useWrite)
		}
	}
	if parent == nil {
		t.pinOrphan(n)
		t.quota.releaseLater(n, cost)
	}
	n.validatedAt.Store(t.clock())
	return cost, 0
}

// openCopy returns an O_PATH descriptor of c.
func (t *tree) openCopy(c *upperCopy, o *object) (int, syscall.Errno) {
	if o.typ() == unix.S_IFREG {
		return t.openProc(c.fd, unix.O_PATH)
	}
	fd, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 3)
	return fd, errnoOf(err)
}

// placeAt puts c, a copy of o, at the name of n, in the upper half of parent. The caller holds
// t.renameMu for writing.
func (t *tree) placeAt(n *node, o *object, parent *node, name string, c *upperCopy) syscall.Errno {
	d, errno := t.acquireDir(parent)
	if errno != 0 {
		return errno
	}
	defer func() { d.release() }()
	now, _, errno := t.statEntry(d, name)
	if errno = t.checkSame(n, now, errno); errno != 0 {
		return errno
	}
	if errno = t.ensureUpper(&d); errno != 0 {
		return errno
	}
	if parent.merges() {
		if errno = t.copied.note(lowerPathOf(parent, name), o); errno != 0 {
			return errno
		}
	}
	if c.name == "" {
		tmp := t.copied.temp()
		if errno = t.linkFD(c.fd, t.copied.work, tmp); errno != 0 {
			return errno
		}
		c.name = tmp
	}
	if errno = t.putUpper(c.name, d.fd, name); errno == 0 {
		c.name = ""
	}
	return errno
}
