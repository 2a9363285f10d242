package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// placeCopy makes c, a copy of o, the inode of n: at n's name, if it has one. It returns how many bytes c
// takes.
func (t *tree) placeCopy(n *node, o *object, c *upperCopy) (cost int64, errno syscall.Errno) {
	fresh, errno := t.stat(fdName{fd: c.fd})
	if errno != 0 {
		return 0, errno
	}
	cost = int64(fresh.Blocks) * 512
	if !c.over {
		cost += objectCost
	}
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
	if !t.adopt(n, fresh.ident) { // does not happen during a request on n
		lookupResult{fd: path}.close()
		return 0, syscall.ESTALE
	}
	t.fds.renew(n)
	t.setBorrow(n, parent, name, c)
	n.layers.upper.Store(true)
	t.fds.add(n, usePath, path).release()
	if n.isRegular() && !c.borrows {
		t.fds.add(n, useWrite, c.fd).release()
		c.fd = -1
		if fresh.Mode&0o600 != 0o600 {
			t.fds.prefer(n)
		}
	}
	if parent == nil {
		t.pinOrphan(n)
		t.quota.releaseLater(n, cost)
	}
	n.validatedAt.Store(t.clock())
	return cost, 0
}

// setBorrow records whether n, which c is the inode of now, borrows its content.
func (t *tree) setBorrow(n, parent *node, name string, c *upperCopy) {
	t.table.mu.Lock()
	defer t.table.mu.Unlock()
	if c.borrows {
		n.layers.setLowerPath(c.path)
	}
	n.layers.merges.Store(c.borrows)
	n.layers.lowerSeen.Store(neverValidated)
	if parent != nil {
		t.copied.noteMoved(n, parent, name)
	} else {
		delete(t.copied.moved, n)
	}
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
	if parent.merges() && !c.over {
		path := lowerPathOf(parent, name)
		if c.borrows && path != c.path {
			return syscall.EAGAIN // it was renamed meanwhile
		}
		if errno = t.copied.note(path, o, nil); errno != 0 {
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
	if errno = t.putUpper(c.name, d.fd, name, c.over); errno == 0 {
		c.name = ""
	}
	return errno
}
