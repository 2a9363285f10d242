package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
)

// copyInode gives n an inode of its own, a copy of the present one, unless another request has. o
// and in are as of unshare. The caller holds n's lock of cs.mu for writing.
func (cs *contents) copyInode(o gate.Op, in *fuse.InHeader, n *node, keep int64) syscall.Errno {
	if shared, errno := cs.sharedOutside(n); errno != 0 || !shared {
		return errno
	}
	old, errno := cs.acquire(n, usePath)
	if errno != 0 {
		return errno
	}
	defer old.release()
	var st unix.Stat_t
	if err := unix.Fstat(old.fd, &st); err != nil {
		return backing.Errno(err)
	}
	dir, name, errno := cs.openHome(n)
	if errno != 0 {
		return errno
	}
	defer dir.release()
	cost := min(st.Blocks*512, max(keep, 0))
	if name == "" {
		cost += backing.ObjectCost // given back when its name was removed
	}
	if errno := cs.Quota.Reserve(cost); errno != 0 {
		return errno
	}
	home := dir.fd
	if cs.copied != nil {
		home = cs.copied.work
	}
	c, errno := backing.NewTempFile(home)
	if errno != 0 {
		cs.Quota.Release(cost)
		return errno
	}
	do := func() syscall.Errno { return cs.Fill(c.FD, old.fd, &st, keep) }
	if errno = cs.copying(o, in, n, min(st.Size, keep), do); errno == 0 {
		errno = cs.replace(n, dir, name, c)
	}
	c.Discard()
	if errno != 0 {
		cs.Quota.Release(cost)
	} else {
		cs.Quota.Release(cost - c.Cost)
	}
	if errno == syscall.EAGAIN {
		return 0 // unshare tries again
	}
	return errno
}

// openHome opens the directory of n, and returns n's name; for an orphan the root, which is on
// the same file system, and "".
func (cs *contents) openHome(n *node) (openDir, string, syscall.Errno) {
	cs.renameMu.RLock()
	defer cs.renameMu.RUnlock()
	parent, name := cs.table.place(n)
	if parent == nil {
		parent = cs.root.node
	}
	e := newEntry(parent, name)
	dir, errno := cs.acquireEntry(&e, false)
	return dir, name, errno
}

// replace makes c the inode of n, at n's name if it has one. EAGAIN: the name has moved
// meanwhile.
func (cs *contents) replace(n *node, dir openDir, name string, c *backing.TempFile) syscall.Errno {
	cs.renameMu.Lock()
	defer cs.renameMu.Unlock()
	parent, now := cs.table.place(n)
	if now != name || parent != nil && parent != dir.node {
		return syscall.EAGAIN
	}
	fresh, errno := cs.Stat(backing.At{FD: c.FD})
	if errno != 0 {
		return errno
	}
	c.Cost = int64(fresh.Blocks) * 512
	path := -1 // an orphan's, which cannot be opened by name
	if parent != nil {
		errno = cs.exchange(n, parent, dir.fd, name, c, fresh.ID)
	} else {
		path, errno = cs.OpenProc(c.FD, unix.O_PATH)
	}
	if errno != 0 {
		return errno
	}
	links := cs.table.links(n)
	if !cs.adopt(n, fresh.ID) { // does not happen during a request on n
		lookupResult{fd: path}.close()
		return syscall.ESTALE
	}
	cs.fds.renew(n)
	if parent == nil {
		cs.fds.add(n, usePath, path).release()
		cs.pinOrphan(n)
		c.Cost += backing.ObjectCost
		cs.Quota.ReleaseLater(n.ident(), c.Cost)
	}
	cs.fds.add(n, useWrite, c.FD).release()
	c.FD = -1
	if fresh.Mode&0o600 != 0o600 {
		cs.fds.prefer(n)
	}
	n.validatedAt.Store(cs.clock())
	for _, m := range links {
		cs.inval.add(invalidation{what: invalAttr, id: m.id}) // includes n
	}
	return 0
}

// exchange gives the name of n, called name in parent, which is open as dir, to c, whose inode is
// ident. The caller holds cs.renameMu for writing.
func (cs *contents) exchange(
	n, parent *node, dir int, name string, c *backing.TempFile, ident backing.Identity,
) syscall.Errno {
	if errno := cs.validatePath(parent); errno != 0 {
		return errno
	}
	o, errno := cs.Stat(backing.At{FD: dir, Name: name})
	if errno = cs.checkSame(n, o, errno); errno != 0 {
		return errno
	}
	if c.Name != "" {
		if o, errno := cs.Stat(backing.At{FD: c.Dir, Name: c.Name}); errno != 0 || o.ID != ident {
			c.Name = "" // another file has taken it: discard must not remove that
			return syscall.EAGAIN
		}
	}
	return cs.Install(c, dir, name)
}
