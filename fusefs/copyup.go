package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
	"wolffia/internal/sys/beneath"
)

// An upperCopy is a copy of the host's object, not yet at its place.
type upperCopy struct {
	fd   int    // open for writing of a regular file, else O_PATH; -1 once the cache of descriptors has it
	name string // in the work directory; empty: it has none yet

	over    bool   // it replaces one that borrows its content
	borrows bool   // it borrows its content
	path    string // of the original, in the lower layer
}

// copyUp copies n, which is not a directory, to the upper layer. Of a regular file it copies the
// first keep bytes, or with attributes perhaps only the attributes. The kernel keeps the node.
// Other requests continue meanwhile: copyUp takes cs.renameMu only to put the copy at its place. o
// and in are as of unshare. The caller holds n's lock of contentLock for writing.
func (cs *contents) copyUp(o gate.Op, in *fuse.InHeader, n *node, keep int64) syscall.Errno {
	if n.inUpper() && !(n.borrows() && keep != attributes) {
		return 0
	}
	old, obj, errno := cs.original(n, keep)
	if errno != 0 {
		return errno
	}
	defer old.release()
	c := upperCopy{fd: -1, over: n.borrows()}
	if keep == attributes && cs.copied.mayBorrow(n, obj) {
		c.borrows, keep = true, 0
	}
	keep = uncut(keep)
	cost := min(int64(obj.Blocks)*512, max(keep, 0))
	if !c.over {
		cost += backing.ObjectCost
	}
	if errno := cs.Quota.Reserve(cost); errno != 0 {
		return errno
	}
	actual := int64(0)
	if errno = cs.noteAhead(n, obj, old.fd, &c); errno == 0 {
		do := func() syscall.Errno { return cs.copyObject(&c, old.fd, obj, keep) }
		errno = cs.copying(o, in, n, min(int64(obj.Size), keep), do)
	}
	if errno == 0 {
		actual, errno = cs.placeCopy(n, obj, &c)
	}
	cs.Quota.Release(cost - actual)
	if c.name != "" {
		cs.copied.removeWork(c.name, false)
	}
	lookupResult{fd: c.fd}.close()
	if errno == 0 {
		cs.copied.copyUps.Add(1)
	}
	return errno
}

// original opens the object that n is copied from, and returns its attributes: those of the upper
// layer if n borrows. With keep 0 its content does not matter.
func (cs *contents) original(n *node, keep int64) (*handle, *backing.Object, syscall.Errno) {
	h, errno := cs.acquire(n, usePath)
	if errno != 0 {
		return nil, nil, errno
	}
	o, errno := cs.Examine(backing.At{FD: h.fd})
	if errno == 0 && n.borrows() && keep != 0 {
		cs.renameMu.RLock()
		cs.lower.lend(n, o)
		lower, bad := cs.lower.half(n)
		cs.renameMu.RUnlock()
		h.release()
		h, errno = lower, bad
	}
	if errno != 0 {
		if h != nil {
			h.release()
		}
		return nil, nil, errno
	}
	return h, o, 0
}

// noteAhead records what the host has where n is, open as fd, and has the record on the disk: as
// the copy, before that has a name.
func (cs *contents) noteAhead(n *node, o *backing.Object, fd int, c *upperCopy) syscall.Errno {
	if c.over {
		return 0 // it was recorded before
	}
	cs.renameMu.RLock()
	parent, name := cs.table.place(n)
	shown := parent != nil && parent.merges()
	if shown {
		c.path = lowerPathOf(parent, name)
	}
	cs.renameMu.RUnlock()
	if !shown {
		c.borrows = false
		return 0
	}
	if errno := cs.copied.note(c.path, o, func() (int, syscall.Errno) { return cs.OpenProc(fd, unix.O_RDONLY) }); errno != 0 || !n.isRegular() {
		return errno
	}
	if err := cs.copied.log.Sync(); err != nil {
		cs.Logger.Error("record what the host has", "error", err)
		return syscall.EIO
	}
	return 0
}

// copyObject fills c with a copy of o, which is open as from.
func (cs *contents) copyObject(c *upperCopy, from int, o *backing.Object, keep int64) (errno syscall.Errno) {
	work := cs.copied.work
	switch o.Type() {
	case unix.S_IFREG:
		tmp, errno := backing.NewTempFile(work)
		if errno != 0 {
			return errno
		}
		c.fd, c.name = tmp.FD, tmp.Name
		if c.borrows {
			return cs.BorrowFile(c.fd, o, c.path)
		}
		return cs.CopyFile(c.fd, from, o, keep)
	case unix.S_IFLNK:
		target, err := beneath.Readlink(from, "")
		if err != nil {
			return backing.Errno(err)
		}
		name := cs.copied.temp()
		if err := unix.Symlinkat(target, work, name); err != nil {
			return backing.Errno(err)
		}
		c.name = name
	case unix.S_IFIFO, unix.S_IFSOCK:
		name := cs.copied.temp()
		if err := unix.Mknodat(work, name, o.Type()|cs.OwnMode(o), 0); err != nil {
			return backing.Errno(err)
		}
		c.name = name
	default:
		return syscall.EPERM // a device
	}
	if c.fd, errno = backing.OpenBeneath(work, c.name, unix.O_PATH|unix.O_NOFOLLOW, 0); errno != 0 {
		return errno
	}
	times := []unix.Timespec{
		{Sec: o.Atime.Sec, Nsec: int64(o.Atime.Nsec)}, {Sec: o.Mtime.Sec, Nsec: int64(o.Mtime.Nsec)},
	}
	return backing.Errno(unix.UtimesNanoAt(work, c.name, times, unix.AT_SYMLINK_NOFOLLOW))
}
