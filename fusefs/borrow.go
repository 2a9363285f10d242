package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
)

// If only the attributes of a large file change, the file borrows its content: the upper layer has
// a file with its attributes and a hole, and the content is the host's until the first write, or
// until the file is renamed. So a chmod of gigabytes costs nothing, and git, which sets the time
// of a pack at a commit, copies no pack.

// maxBorrowBlocks is how many bytes of the disk a file that borrows may take, for its attributes.
const maxBorrowBlocks = 64 << 10

// attributes, for unshare, keeps what a change of attributes needs.
const attributes = -1

// borrows reports whether n is a file whose content is the host's at layers.lowerPath, and whose
// attributes are in the upper layer.
func (n *node) borrows() bool { return n.isRegular() && n.layers != nil && n.layers.merges.Load() }

// mayBorrow reports whether the host's file o at n may be borrowed.
func (u *upperLayer) mayBorrow(n *node, o *backing.Object) bool {
	parent, _ := u.table.place(n)
	return o.Type() == unix.S_IFREG && int64(o.Size) >= u.borrow && parent != nil && parent.merges() && u.OwnMode(o)&0o400 != 0
}

// readBorrow returns where the content of the upper layer's file o at a is; "": in itself.
func (u *upperLayer) readBorrow(a backing.At, o *backing.Object) (path string, errno syscall.Errno) {
	if int64(o.Size) < u.borrow || int64(o.Blocks)*512 > maxBorrowBlocks {
		return "", 0
	}
	fd, errno := backing.OpenBeneath(a.FD, a.Name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return "", errno
	}
	defer unix.Close(fd)
	errno = u.AsOwner(fd, func() (err error) { // reading an attribute needs the permission to read
		path, err = backing.BorrowMark(backing.ProcPath(fd))
		return err
	})
	return path, errno
}

// openBorrowed is acquireLocked with useRead for n, which borrows. It is the file that the host
// has at the path now, ENOENT if it has none.
func (lo *lowerLayer) openBorrowed(n *node) (*handle, syscall.Errno) {
	lower, errno := lo.half(n)
	if errno != 0 {
		return nil, errno
	}
	defer lower.release()
	if h := lo.fds.cached(n, useRead); h != nil {
		if backing.SameInode(h.fd, lower.fd) {
			return h, 0
		}
		h.release()
		lo.fds.close(n, useRead)
	}
	fd, errno := lo.OpenProc(lower.fd, unix.O_RDONLY)
	if errno != 0 {
		return nil, errno
	}
	return lo.fds.add(n, useRead, fd), 0
}

// lend completes o, the attributes of n, which borrows, by those of the content: its size, and
// when it was changed if that was after the sandbox has set its attributes. The caller holds
// lo.renameMu.
func (lo *lowerLayer) lend(n *node, o *backing.Object) {
	h, errno := lo.half(n)
	if errno != 0 {
		return // the size stays the last known one
	}
	defer h.release()
	host, errno := lo.Stat(backing.At{FD: h.fd})
	if errno != 0 {
		return
	}
	o.Size, o.Blocks = host.Size, host.Blocks
	o.BorrowsLinked = host.Nlink > 1
	if host.Mtime.Sec > o.Ctime.Sec || host.Mtime.Sec == o.Ctime.Sec && host.Mtime.Nsec > o.Ctime.Nsec {
		o.Mtime = host.Mtime
	}
}

// statBorrower is statNode for n, which borrows.
func (lo *lowerLayer) statBorrower(n *node) (*backing.Object, syscall.Errno) {
	lo.renameMu.RLock()
	defer lo.renameMu.RUnlock()
	h, errno := lo.acquireLocked(n, usePath)
	if errno != 0 {
		return nil, errno
	}
	defer h.release()
	o, errno := lo.Examine(backing.At{FD: h.fd})
	if errno == 0 && n.borrows() {
		lo.lend(n, o)
	}
	return o, errno
}

// lendsNoticed reports whether changes by the host of what n borrows are noticed.
func (lo *lowerLayer) lendsNoticed(n *node) bool {
	parent, name := lo.table.place(n)
	if parent == nil || !parent.watched.Load() {
		return false
	}
	half, _ := n.half(parent, name)
	return half == cow.Merged
}

// holdContent keeps open what n, which is about to lose its name, borrows.
func (lo *lowerLayer) holdContent(n *node) {
	if n == nil || !n.borrows() {
		return
	}
	if h, errno := lo.half(n); errno == 0 {
		lo.fds.pin(n, useLower)
		h.release()
	}
}
