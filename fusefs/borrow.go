package fusefs

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
)

// A large file of which only attributes were changed borrows its content: the upper layer has a file with
// its attributes and a hole, and the content is the host's until the first write, or until the file is
// renamed. So a chmod of gigabytes costs nothing, and git, which sets the time of a pack at a commit, copies
// none.

// maxBorrowBlocks is how many bytes of the disk a file that borrows may take, for its attributes.
const maxBorrowBlocks = 64 << 10

// attributes, for unshare, keeps what a change of attributes needs.
const attributes = -1

// borrows reports whether n is a file whose content is the host's at layers.lowerPath, and whose
// attributes are in the upper layer.
func (n *node) borrows() bool { return n.isRegular() && n.layers != nil && n.layers.merges.Load() }

// mayBorrow reports whether the host's file o at n may be borrowed.
func (t *tree) mayBorrow(n *node, o *object) bool {
	parent, _ := t.table.place(n)
	return o.typ() == unix.S_IFREG && int64(o.Size) >= t.copied.borrow && parent != nil && parent.merges() && t.ownMode(o)&0o400 != 0
}

// borrowFile gives the empty file to the attributes of the host's file o at path, with a hole for its
// content, and has that on the disk: without the marks it would be a file of zeros.
func (b *backing) borrowFile(to int, o *object, path string) syscall.Errno {
	err := unix.Ftruncate(to, int64(o.Size))
	if err == nil {
		err = unix.Fsetxattr(to, cow.AttrLower, []byte(path), 0)
	}
	if err == nil {
		err = unix.Fsetxattr(to, cow.AttrData, []byte(cow.DataLower), 0)
	}
	if err == nil {
		err = unix.Fchmod(to, b.ownMode(o))
	}
	if err != nil {
		return errnoOf(err)
	}
	if errno := b.setTimes(to, o); errno != 0 {
		return errno
	}
	return errnoOf(unix.Fsync(to))
}

// readBorrow returns where the content of the upper layer's file o at a is; "": in itself.
func (t *tree) readBorrow(a fdName, o *object) (path string, errno syscall.Errno) {
	if int64(o.Size) < t.copied.borrow || int64(o.Blocks)*512 > maxBorrowBlocks {
		return "", 0
	}
	fd, errno := openBeneath(a.fd, a.name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return "", errno
	}
	defer unix.Close(fd)
	errno = t.asOwner(fd, func() (err error) { // reading an attribute needs the permission to read
		path, err = borrowMark(procPath(fd))
		return err
	})
	return path, errno
}

// borrowMark reads the marks of the file at the path of /proc.
func borrowMark(proc string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getxattr(proc, cow.AttrData, buf)
	switch {
	case errors.Is(err, unix.ENODATA):
		return "", nil
	case err != nil:
		return "", err
	case string(buf[:n]) != cow.DataLower:
		return "", syscall.EIO
	}
	if n, err = unix.Getxattr(proc, cow.AttrLower, buf); err != nil {
		return "", err
	}
	if path := string(buf[:n]); cow.ValidPath(path) {
		return path, nil
	}
	return "", syscall.EIO
}

// openBorrowed is acquireLocked with useRead for n, which borrows. It is the file that the host has at the
// path now, ENOENT if it has none.
func (t *tree) openBorrowed(n *node) (*handle, syscall.Errno) {
	lower, errno := t.lowerHalf(n)
	if errno != 0 {
		return nil, errno
	}
	defer lower.release()
	if h := t.fds.cached(n, useRead); h != nil {
		if sameInode(h.fd, lower.fd) {
			return h, 0
		}
		h.release()
		t.fds.close(n, useRead)
	}
	fd, errno := t.openProc(lower.fd, unix.O_RDONLY)
	if errno != 0 {
		return nil, errno
	}
	return t.fds.add(n, useRead, fd), 0
}

// lend completes o, the attributes of n, which borrows, by those of the content: its size, and when it was
// changed if that was after the sandbox has set its attributes. The caller holds t.renameMu.
func (t *tree) lend(n *node, o *object) {
	h, errno := t.lowerHalf(n)
	if errno != 0 {
		return // the size stays the last known one
	}
	defer h.release()
	host, errno := t.stat(fdName{fd: h.fd})
	if errno != 0 {
		return
	}
	o.Size, o.Blocks = host.Size, host.Blocks
	o.lentLinked = host.Nlink > 1
	if host.Mtime.Sec > o.Ctime.Sec || host.Mtime.Sec == o.Ctime.Sec && host.Mtime.Nsec > o.Ctime.Nsec {
		o.Mtime = host.Mtime
	}
}

// statBorrower is statNode for n, which borrows.
func (t *tree) statBorrower(n *node) (*object, syscall.Errno) {
	t.renameMu.RLock()
	defer t.renameMu.RUnlock()
	h, errno := t.acquireLocked(n, usePath)
	if errno != 0 {
		return nil, errno
	}
	defer h.release()
	o, errno := t.examine(fdName{fd: h.fd})
	if errno == 0 && n.borrows() {
		t.lend(n, o)
	}
	return o, errno
}

// lendsNoticed reports whether changes by the host of what n borrows are noticed.
func (t *tree) lendsNoticed(n *node) bool {
	parent, name := t.table.place(n)
	if parent == nil || !parent.watched.Load() {
		return false
	}
	half, _ := n.half(parent, name)
	return half == cow.Merged
}

// holdContent keeps open what n, which is about to lose its name, borrows.
func (t *tree) holdContent(n *node) {
	if n == nil || !n.borrows() {
		return
	}
	if h, errno := t.lowerHalf(n); errno == 0 {
		t.fds.pin(n, useLower)
		h.release()
	}
}
