package fusefs

import (
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// resolve confines every open: one name, below the directory it is asked of,
// never through a link and never into another mount. The last keeps the
// server out of its own mount as well, where it would wait for itself.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS |
	unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

// acquire returns a handle of n for u, opening it if need be.
func (t *tree) acquire(n *node, u use) (*handle, syscall.Errno) {
	if h := t.fds.cached(n, u); h != nil {
		return h, 0
	}
	t.renameMu.RLock()
	defer t.renameMu.RUnlock()
	return t.acquireLocked(n, u)
}

// acquireLocked is acquire for who holds t.renameMu, so that nothing is renamed
// through the tree while the names are walked.
func (t *tree) acquireLocked(n *node, u use) (*handle, syscall.Errno) {
	if h := t.fds.cached(n, u); h != nil {
		return h, 0
	}
	if u == usePath {
		return t.walk(n)
	}
	if !n.isRegular() {
		return nil, syscall.EINVAL // opening anything else could have effects
	}
	p, errno := t.acquireLocked(n, usePath)
	if errno != 0 {
		return nil, errno
	}
	defer p.release()
	fd, errno := t.reopen(p.fd, u)
	if errno != 0 {
		return nil, errno
	}
	return t.fds.add(n, u, fd), 0
}

// acquireDir opens the directory n so that names can be used in it. It must
// still be at its own name, from which it has its state: a process that holds
// it open, or works in it, would otherwise keep that state wherever the host
// moves it. t.renameMu is held.
func (t *tree) acquireDir(n *node) (*handle, syscall.Errno) {
	if errno := t.validatePath(n); errno != 0 {
		return nil, errno
	}
	return t.acquireLocked(n, usePath)
}

// maxDepth is how many directories deep names can be used: in any that has a path of
// PATH_MAX bytes. What is known of a deeper one would cost too much to keep true.
const maxDepth = unix.PathMax / 2

// validatePath makes sure that n and all above it were found at their names not
// longer ago than the timeout. ENAMETOOLONG: it is too deep.
//
// What was found is remembered as a proof of each directory on the way, so that the
// way is gone once for each timeout, or when something on it has moved, and not for
// each request. t.renameMu is held.
func (t *tree) validatePath(n *node) syscall.Errno {
	generation, now := t.table.generation.Load(), t.clock()
	valid := func(m *node, limit time.Duration) *proof {
		p := m.proof.Load()
		if p == nil || p.generation != generation || now-min(p.oldest, m.validatedAt.Load()) >= int64(limit) {
			return nil
		}
		return p
	}
	if valid(n, t.timeout) != nil {
		if parent, _ := t.table.place(n); parent == nil {
			return syscall.ENOENT // as in a directory that was removed
		}
		return 0
	}
	// Whatever is half as old as may be is looked at again, so that the next time is
	// not soon.
	fresh := t.timeout / 2
	var way []*node
	known := proof{generation: generation, oldest: now}
	for m := n; m.id != rootID; {
		if p := valid(m, fresh); p != nil {
			known = *p
			break
		}
		parent, _ := t.table.place(m)
		if parent == nil {
			return syscall.ENOENT
		}
		if way = append(way, m); len(way) > maxDepth {
			return syscall.ENAMETOOLONG
		}
		m = parent
	}
	if known.depth+len(way) > maxDepth {
		return syscall.ENAMETOOLONG
	}
	t.dirsWalked.Add(uint64(len(way)))
	for _, m := range slices.Backward(way) {
		seen, errno := t.validate(m, now, fresh)
		if errno != 0 {
			return errno
		}
		known.oldest, known.depth = min(known.oldest, seen), known.depth+1
		if m.isDir() {
			p := known
			m.proof.Store(&p)
		}
	}
	return 0
}

// validate returns when n was last found at its name. If that is not fresh, it is looked
// for now.
func (t *tree) validate(n *node, now int64, fresh time.Duration) (int64, syscall.Errno) {
	for {
		seen := n.validatedAt.Load()
		if now-seen < int64(fresh) {
			return seen, 0
		}
		parent, name := t.table.place(n)
		if parent == nil {
			return 0, syscall.ENOENT
		}
		h, errno := t.acquireLocked(parent, usePath)
		if errno != 0 {
			return 0, errno
		}
		o, errno := t.stat(fdName{h.fd, name})
		h.release()
		if errno = t.same(n, o, errno); errno != 0 {
			return 0, errno
		}
		if n.validatedAt.CompareAndSwap(seen, now) { // or it may have been taken away since
			return now, 0
		}
	}
}

// walk opens n below the closest directory above it that is open, and all between
// them, and makes sure that they are still the same objects.
func (t *tree) walk(n *node) (*handle, syscall.Errno) {
	var way []*node
	var h *handle
	for m := n; h == nil; {
		parent, _ := t.table.place(m)
		if parent == nil {
			return nil, syscall.ESTALE
		}
		if way = append(way, m); len(way) > maxDepth {
			return nil, syscall.ENAMETOOLONG
		}
		h, m = t.fds.cached(parent, usePath), parent
	}
	for _, m := range slices.Backward(way) {
		dir := h
		var errno syscall.Errno
		h, errno = t.step(dir, m)
		dir.release()
		if errno != 0 {
			return nil, errno
		}
	}
	return h, 0
}

// step opens n, whose directory is open as dir.
func (t *tree) step(dir *handle, n *node) (*handle, syscall.Errno) {
	parent, name := t.table.place(n)
	if parent != dir.node {
		return nil, syscall.ESTALE // it was lost just now
	}
	fd, errno := openBeneath(dir.fd, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return nil, t.same(n, nil, errno)
	}
	o, errno := t.stat(fdName{fd: fd})
	if errno = t.same(n, o, errno); errno != 0 {
		unix.Close(fd)
		return nil, errno
	}
	return t.fds.add(n, usePath, fd), 0
}

// same turns what was found at n's name into ESTALE if it is not n, on which
// the kernel looks the name up again if it came by one. It is told to forget
// the name for those who come later: they open without a question.
func (t *tree) same(n *node, o *object, errno syscall.Errno) syscall.Errno {
	switch errno {
	case 0:
		if o.ident == n.ident() {
			return 0
		}
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EXDEV:
	default:
		return errno
	}
	if parent, name := t.table.place(n); parent != nil {
		t.inval.add(invalidation{what: invalEntry, id: parent.id, name: name})
	}
	return syscall.ESTALE
}

// openBeneath opens the entry called name of the directory dir.
func openBeneath(dir int, name string, flags int, mode uint32) (int, syscall.Errno) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: resolve}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		switch err {
		case nil:
			return fd, 0
		case syscall.EINTR, syscall.EAGAIN: // EAGAIN: something moved meanwhile
		default:
			return -1, errnoOf(err)
		}
	}
}

// reopen opens the regular file that the O_PATH descriptor fd refers to. It
// goes through the descriptor, so that no name is resolved again.
func (t *tree) reopen(fd int, u use) (int, syscall.Errno) {
	flags := []int{unix.O_RDONLY}
	if u == useWrite {
		flags = []int{unix.O_RDWR, unix.O_WRONLY} // the second for a file that may only be written
	}
	var errno syscall.Errno
	for _, f := range flags {
		var fd2 int
		if fd2, errno = t.openProc(fd, f); errno == 0 {
			if u == useWrite {
				errno = stripSetID(fd2)
			}
			if errno == 0 {
				return fd2, 0
			}
			unix.Close(fd2)
		}
		if errno != syscall.EACCES {
			break
		}
	}
	return -1, errno
}

func (t *tree) openProc(fd, flags int) (int, syscall.Errno) {
	for {
		got, err := unix.Openat(t.proc, strconv.Itoa(fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err != syscall.EINTR {
			return got, errnoOf(err)
		}
	}
}

// stripSetID takes the set-id bits from a file that is about to be written.
// The kernel does so at the write, but not for a server that runs as root.
func stripSetID(fd int) syscall.Errno {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errnoOf(err)
	}
	if st.Mode&setID == 0 {
		return 0
	}
	return errnoOf(unix.Fchmod(fd, st.Mode&0o7777&^setID))
}

// errnoOf returns the errno in err, 0 for nil.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(syscall.Errno); ok {
		return e
	}
	return syscall.EIO
}
