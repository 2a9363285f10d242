package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
)

// A lowerLayer is what a copied tree shows of the host, which changes it; nil in a direct one.
type lowerLayer struct {
	*names
	top *handle // Options.Root; held until close

	// moved are the directories whose lower half, and files whose content, has another path than
	// they. Guarded by table.mu.
	moved map[*node]struct{}
}

// lowerHalf opens the lower half of n, a directory with an upper half, or the file whose content n
// borrows. It looks the path up again after each half of lo.timeout, so that an object that the
// host moves away is not used for long. ENOENT: n has no lower half now. The caller holds
// lo.renameMu.
func (lo *lowerLayer) half(n *node) (*handle, syscall.Errno) {
	l, now := n.layers, lo.clock()
	if now-l.lowerSeen.Load() < int64(lo.timeout/2) {
		if h := lo.fds.cached(n, useLower); h != nil {
			return h, 0
		}
	}
	parent, _ := lo.table.place(n)
	if n.id == rootID || parent == nil { // an orphan keeps its lower half
		if h := lo.fds.cached(n, useLower); h != nil {
			return h, 0
		}
	}
	seen := l.lowerSeen.Load()
	flags := unix.O_PATH | unix.O_NOFOLLOW
	if n.isDir() {
		flags |= unix.O_DIRECTORY
	}
	fd, errno := backing.OpenBeneath(lo.top.fd, l.lowerPath(), flags, 0)
	if errno == 0 && n.isRegular() && !backing.IsRegularFD(fd) {
		unix.Close(fd)
		errno = syscall.ENOENT
	}
	switch errno {
	case 0:
	case syscall.ENOTDIR, syscall.ELOOP, syscall.EXDEV:
		errno = syscall.ENOENT
		fallthrough
	default:
		lo.drop(n)
		return nil, errno
	}
	if h := lo.fds.cached(n, useLower); h != nil {
		if backing.SameInode(h.fd, fd) {
			unix.Close(fd)
			l.lowerSeen.CompareAndSwap(seen, now)
			return h, 0
		}
		h.release()
		lo.drop(n)
	}
	h := lo.fds.add(n, useLower, fd)
	if n.isDir() {
		lo.watch.add(n, h.fd)
	}
	l.lowerSeen.CompareAndSwap(seen, now) // else the host may have moved it since
	return h, 0
}

// dropLower closes the lower half of n, which is not at its path any more.
func (lo *lowerLayer) drop(n *node) {
	fd := -1
	if h := lo.fds.cached(n, useLower); h != nil {
		fd = h.fd
		defer h.release()
	} else if !n.watched.Load() {
		return
	}
	lo.watch.remove(n, fd)
	lo.fds.close(n, useLower)
	if n.borrows() {
		lo.fds.close(n, useRead)
	}
	lo.inval.add(invalidation{what: invalContent, id: n.id})
}

// noteMoved keeps upperLayer.moved right for n, a directory at the entry called name of dir. The
// caller holds table.mu.
func (lo *lowerLayer) noteMoved(n, dir *node, name string) {
	if !n.isDir() && !n.borrows() {
		delete(lo.moved, n)
		return
	}
	if half, _ := n.half(dir, name); half == cow.Moved {
		lo.moved[n] = struct{}{}
	} else {
		delete(lo.moved, n)
	}
}

// releaseLayers frees what the layers of n hold, which is no longer in the table.
func (lo *lowerLayer) release(n *node) {
	u := usePath
	if n.inUpper() {
		u = useLower
	}
	fd := -1
	if h := lo.fds.cached(n, u); h != nil {
		defer h.release()
		fd = h.fd
	}
	lo.watch.remove(n, fd)
	if n.isDir() || n.borrows() {
		lo.table.mu.Lock()
		delete(lo.moved, n)
		lo.table.mu.Unlock()
	}
}

// setLower records that the lower half of n is at path; "": n has no lower half.
func (lo *lowerLayer) set(n, parent *node, name string, merges bool, path string) {
	lo.table.mu.Lock()
	defer lo.table.mu.Unlock()
	if n.layers.merges.Load() == merges && n.layers.lowerPath() == path {
		return
	}
	n.layers.merges.Store(merges)
	n.layers.setLowerPath(path)
	n.layers.lowerSeen.Store(neverValidated)
	lo.noteMoved(n, parent, name)
}

// setBorrow records whether n, which c is the inode of now, borrows its content.
func (lo *lowerLayer) setBorrow(n, parent *node, name string, c *upperCopy) {
	lo.table.mu.Lock()
	defer lo.table.mu.Unlock()
	if c.borrows {
		n.layers.setLowerPath(c.path)
	}
	n.layers.merges.Store(c.borrows)
	n.layers.lowerSeen.Store(neverValidated)
	if parent != nil {
		lo.noteMoved(n, parent, name)
	} else {
		delete(lo.moved, n)
	}
}

// lowerPathOf returns the path that the entry called name of dir has in the lower layer.
func lowerPathOf(dir *node, name string) string {
	if dir.layers.lowerPath() == "" {
		return name
	}
	return dir.layers.lowerPath() + "/" + name
}

// noteListing makes the kernel read the directory n again if the host has changed it since the
// last listing. The attributes of a directory with an upper half do not show that, and a directory
// that is not watched has no other sign.
func (lo *lowerLayer) noteListing(n *node) {
	if !n.isDir() || !n.inUpper() || !n.merges() || n.watched.Load() || n.layers.lowerTime.Load() == 0 {
		return
	}
	lo.renameMu.RLock()
	defer lo.renameMu.RUnlock()
	now := int64(0)
	if h, errno := lo.half(n); errno == 0 {
		if o, errno := lo.Stat(backing.At{FD: h.fd}); errno == 0 {
			now = o.Mtime.Sec*1e9 + int64(o.Mtime.Nsec)
		}
		h.release()
	}
	if n.layers.lowerTime.Swap(now) != now {
		lo.inval.add(invalidation{what: invalContent, id: n.id})
	}
}
