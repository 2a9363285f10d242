package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
)

// renameUpper does r, which is allowed, in a copied tree. What moves must be in the upper layer: a
// directory gets an upper half, others r.copyFirst if they are not. The caller holds u.renameMu for
// writing.
func (u *upperLayer) rename(r *renaming, from, to *openDir, flags uint32) syscall.Errno {
	if errno := u.mayReplace(r, *to, flags); errno != 0 {
		return errno
	}
	if r.dst != nil && r.src.ID == r.dst.ID {
		return 0
	}
	src, errno := u.moving(&r.from, r.srcOwn, r)
	if errno != 0 {
		return errno
	}
	var dst *node
	if r.swap {
		if dst, errno = u.moving(&r.to, r.dstOwn, r); errno != 0 {
			return errno
		}
	}
	if r.copyFirst != nil {
		return 0
	}
	for _, d := range []*openDir{from, to} {
		if errno := u.ensureUpper(d); errno != 0 {
			return errno
		}
	}
	hides, errno := u.noteHost(*from, r.from.name)
	if errno == 0 {
		_, errno = u.noteHost(*to, r.to.name)
	}
	if errno == 0 {
		errno = u.markMoving(src)
	}
	if errno == 0 && r.swap {
		errno = u.markMoving(dst)
	}
	switch {
	case errno != 0:
		return errno
	case r.swap:
		return backing.Errno(unix.Renameat2(from.fd, r.from.name, to.fd, r.to.name, unix.RENAME_EXCHANGE))
	}
	return u.move(r, from.fd, to.fd, hides)
}

// mayReplace returns what rename(2) would: r.to may be in the way, in the directory to.
func (u *upperLayer) mayReplace(r *renaming, to openDir, flags uint32) syscall.Errno {
	src := u.table.child(r.from.dir, r.from.name)
	for p := r.to.dir; p != nil; p, _ = u.table.place(p) {
		if p == src {
			return syscall.EINVAL // into itself
		}
	}
	switch {
	case flags&unix.RENAME_NOREPLACE != 0 && r.dst != nil:
		return syscall.EEXIST
	case r.dst == nil && r.swap:
		return syscall.ENOENT
	case r.dst == nil || r.swap || r.src.ID == r.dst.ID:
		return 0
	case r.src.IsDir() && !r.dst.IsDir():
		return syscall.ENOTDIR
	case !r.src.IsDir() && r.dst.IsDir():
		return syscall.EISDIR
	case r.dst.IsDir():
		return u.showsNothing(to, r.to.name)
	}
	return 0
}

// moving returns the node at e, an end of r, for a rename. If it is not in the upper layer, all of
// it, it gets an upper half, or is added to r.copyFirst: a file that went on to borrow under
// another name would lose its content when the deletion of the old name is applied.
func (u *upperLayer) moving(e *entry, own bool, r *renaming) (*node, syscall.Errno) {
	n := u.table.child(e.dir, e.name)
	switch {
	case n == nil:
		return nil, syscall.ESTALE // the kernel has backing.Forgotten the object that it is about to rename
	case own && !n.borrows():
		return n, 0
	case n.isDir():
		return n, u.needUpper(n)
	}
	r.copyFirst = append(r.copyFirst, n)
	return n, 0
}

// markMoving has the directory n, which is about to be renamed, remember where its lower half is.
// Of others it does nothing.
func (u *upperLayer) markMoving(n *node) syscall.Errno {
	if !n.isDir() {
		return 0
	}
	h, errno := u.acquireLocked(n, usePath)
	if errno != 0 {
		return errno
	}
	defer h.release()
	half := cow.Own
	if n.merges() {
		half = cow.Moved
	}
	return u.AsOwner(h.fd, func() error { return cow.SetLower(h.fd, half, n.layers.lowerPath()) })
}

// moveUpper renames between the upper directories from and to, and leaves a whiteout at r.from if
// that hides something.
func (u *upperLayer) move(r *renaming, from, to int, hides bool) syscall.Errno {
	at := backing.At{FD: to, Name: r.to.name}
	whiteout := false
	if !r.dstOwn {
		_, errno := u.Stat(at)
		whiteout = errno == 0
	}
	if r.src.IsDir() && r.dstOwn {
		// A directory with whiteouts in it cannot be renamed over.
		if errno := u.cover(to, r.to.name, true); errno != 0 {
			return errno
		}
		whiteout = true
	}
	cost := int64(0)
	if hides && !whiteout {
		cost = backing.ObjectCost
	}
	if errno := u.Quota.Reserve(cost); errno != 0 {
		return errno
	}
	var errno syscall.Errno
	switch {
	case r.src.IsDir() && whiteout:
		errno = backing.Errno(unix.Renameat2(from, r.from.name, to, r.to.name, unix.RENAME_EXCHANGE))
		if errno == 0 && !hides {
			errno = backing.Errno(unix.Unlinkat(from, r.from.name, 0)) // the whiteout
		}
	case hides:
		errno = backing.Errno(unix.Renameat2(from, r.from.name, to, r.to.name, unix.RENAME_WHITEOUT))
	default:
		errno = backing.Errno(unix.Renameat(from, r.from.name, to, r.to.name))
	}
	switch {
	case errno != 0:
		u.Quota.Release(cost)
	case whiteout && !hides:
		u.Quota.Release(backing.ObjectCost)
	}
	return errno
}
