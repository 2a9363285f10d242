package fusefs

import (
	"syscall"

	"wolffia/fusefs/backing"

	"golang.org/x/sys/unix"
)

// placeCopy makes c, a copy of o, the inode of n: at n's name, if it has one. It returns how many
// bytes c takes.
func (cs *contents) placeCopy(n *node, o *backing.Object, c *upperCopy) (cost int64, errno syscall.Errno) {
	fresh, errno := cs.Stat(backing.At{FD: c.fd})
	if errno != 0 {
		return 0, errno
	}
	cost = int64(fresh.Blocks) * 512
	if !c.over {
		cost += backing.ObjectCost
	}
	cs.renameMu.Lock()
	defer cs.renameMu.Unlock()
	parent, name := cs.table.place(n)
	if parent != nil {
		if errno := cs.placeAt(n, o, parent, name, c); errno != 0 {
			return 0, errno
		}
	}
	path, errno := cs.openCopy(c, o)
	if errno != 0 {
		return 0, errno
	}
	if !cs.adopt(n, fresh.ID) { // does not happen during a request on n
		lookupResult{fd: path}.close()
		return 0, syscall.ESTALE
	}
	cs.fds.renew(n)
	cs.lower.setBorrow(n, parent, name, c)
	n.layers.upper.Store(true)
	cs.fds.add(n, usePath, path).release()
	if n.isRegular() && !c.borrows {
		cs.fds.add(n, useWrite, c.fd).release()
		c.fd = -1
		if fresh.Mode&0o600 != 0o600 {
			cs.fds.prefer(n)
		}
	}
	if parent == nil {
		cs.pinOrphan(n)
		cs.Quota.ReleaseLater(n.ident(), cost)
	}
	n.validatedAt.Store(cs.clock())
	return cost, 0
}

// openCopy returns an O_PATH descriptor of c.
func (cs *contents) openCopy(c *upperCopy, o *backing.Object) (int, syscall.Errno) {
	if o.Type() == unix.S_IFREG {
		return cs.OpenProc(c.fd, unix.O_PATH)
	}
	fd, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 3)
	return fd, backing.Errno(err)
}

// placeAt puts c, a copy of o, at the name of n, in the upper half of parent. The caller holds
// cs.renameMu for writing.
func (cs *contents) placeAt(n *node, o *backing.Object, parent *node, name string, c *upperCopy) syscall.Errno {
	d, errno := cs.acquireDir(parent)
	if errno != 0 {
		return errno
	}
	defer func() { d.release() }()
	now, _, errno := cs.statEntry(d, name)
	if errno = cs.checkSame(n, now, errno); errno != 0 {
		return errno
	}
	if errno = cs.copied.ensureUpper(&d); errno != 0 {
		return errno
	}
	if parent.merges() && !c.over {
		path := lowerPathOf(parent, name)
		if c.borrows && path != c.path {
			return syscall.EAGAIN // it was renamed meanwhile
		}
		if errno = cs.copied.note(path, o, nil); errno != 0 {
			return errno
		}
	}
	if c.name == "" {
		tmp := cs.copied.temp()
		if errno = cs.LinkFD(c.fd, cs.copied.work, tmp); errno != 0 {
			return errno
		}
		c.name = tmp
	}
	if errno = cs.copied.putUpper(c.name, d.fd, name, c.over); errno == 0 {
		c.name = ""
	}
	return errno
}
