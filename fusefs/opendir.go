package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// An openDir is a directory that is open for the use of names in it. Of a copied tree it has up to two
// halves.
type openDir struct {
	*handle         // the directory; its upper half if it has one
	lower   *handle // the lower half of a directory that has an upper half; else nil
	upper   bool    // handle is of the upper half
}

func (d openDir) release() {
	d.handle.release()
	if d.lower != nil {
		d.lower.release()
	}
}

// lowerFD returns a descriptor of the half that the host has, -1 if there is none.
func (d openDir) lowerFD() int {
	switch {
	case !d.upper:
		return d.fd
	case d.lower != nil:
		return d.lower.fd
	}
	return -1
}

// halves opens the directory n. The caller holds ns.renameMu, and releases the result.
func (ns *names) halves(n *node) (openDir, syscall.Errno) {
	h, errno := ns.acquireLocked(n, usePath)
	d := openDir{handle: h, upper: n.inUpper()}
	if errno == 0 && d.upper && n.merges() {
		if d.lower, errno = ns.lower.half(n); errno == syscall.ENOENT {
			errno = 0 // the host has none now
		}
		if errno != 0 {
			h.release()
		}
	}
	return d, errno
}

// locate returns where the entry called name of d is, without following a link. ENOENT: it does not
// exist, or was deleted in a copied tree; in a direct one locate does not look.
func (ns *names) locate(d openDir, name string) (fdName, syscall.Errno) {
	if ns.copied == nil {
		return fdName{d.fd, name}, 0
	}
	_, a, errno := ns.statEntry(d, name)
	return a, errno
}

// statEntry returns the entry called name of d, and where it is.
func (ns *names) statEntry(d openDir, name string) (*object, fdName, syscall.Errno) {
	a := fdName{d.fd, name}
	upper, lower := ns.git.sides(d.node, name)
	if !d.upper && !lower {
		return nil, a, syscall.ENOENT
	}
	var o *object
	errno := syscall.ENOENT
	if upper || !d.upper {
		o, errno = ns.stat(a)
	}
	if errno == 0 && ns.git != nil && (name == gitName && isWhiteout(o) || ns.git.isGone(d.fd, d.node, name)) {
		return nil, a, syscall.ENOENT
	}
	if !d.upper || errno != 0 && errno != syscall.ENOENT {
		return o, a, errno
	}
	switch {
	case errno == 0 && isWhiteout(o):
		return nil, a, syscall.ENOENT
	case errno == 0:
		return o, a, 0
	case d.lower == nil || !lower:
		return nil, a, errno
	}
	a.fd = d.lower.fd
	o, errno = ns.stat(a)
	return o, a, errno
}

// exists reports whether d may have an entry called name, be it one that is gone for the sandbox.
func (ns *names) exists(d openDir, name string) bool {
	if !d.upper {
		_, errno := ns.stat(fdName{d.fd, name})
		return errno != syscall.ENOENT
	}
	_, _, errno := ns.statEntry(d, name)
	return errno != syscall.ENOENT
}

// lowerHalf opens the lower half of n, a directory with an upper half, or what n borrows. It is found by
// its path, again after each half of lo.timeout, so that what the host moves away is not used for
// long. ENOENT: there is none now. The caller holds lo.renameMu.
func (lo *lowerLayer) half(n *node) (*handle, syscall.Errno) {
	l, now := n.layers, lo.clock()
	if now-l.lowerSeen.Load() < int64(lo.timeout/2) {
		if h := lo.fds.cached(n, useLower); h != nil {
			return h, 0
		}
	}
	parent, _ := lo.table.place(n)
	if n.id == rootID || parent == nil { // an orphan keeps what it has
		if h := lo.fds.cached(n, useLower); h != nil {
			return h, 0
		}
	}
	seen := l.lowerSeen.Load()
	flags := unix.O_PATH | unix.O_NOFOLLOW
	if n.isDir() {
		flags |= unix.O_DIRECTORY
	}
	fd, errno := openBeneath(lo.top.fd, l.lowerPath(), flags, 0)
	if errno == 0 && n.isRegular() && !isRegular(fd) {
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
		if sameInode(h.fd, fd) {
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
