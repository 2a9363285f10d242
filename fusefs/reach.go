package fusefs

import (
	"slices"
	"syscall"
	"time"

	"wolffia/fusefs/backing"

	"golang.org/x/sys/unix"
)

// acquire returns a handle of n for u, and opens n if necessary. The caller releases it.
func (ns *names) acquire(n *node, u use) (*handle, syscall.Errno) {
	if h := ns.fds.cached(n, u); h != nil {
		if u != useRead || !n.borrows() {
			return h, 0
		}
		h.release() // the host may have replaced it
	}
	ns.renameMu.RLock()
	defer ns.renameMu.RUnlock()
	return ns.acquireLocked(n, u)
}

// acquireLocked is acquire; the caller holds ns.renameMu, so that nothing is renamed through
// the tree while the path is walked.
func (ns *names) acquireLocked(n *node, u use) (*handle, syscall.Errno) {
	if u == useRead && n.borrows() {
		return ns.lower.openBorrowed(n)
	}
	if h := ns.fds.cached(n, u); h != nil {
		return h, 0
	}
	if u == usePath {
		return ns.walk(n)
	}
	if u == useWrite && ns.copied != nil && (!n.inUpper() || n.borrows()) {
		return nil, syscall.EROFS // it is copied first: see unshare
	}
	if !n.isRegular() {
		return nil, syscall.EINVAL // opening a FIFO or device could have effects
	}
	p, errno := ns.acquireLocked(n, usePath)
	if errno != 0 {
		return nil, errno
	}
	defer p.release()
	fd, blind, errno := ns.Reopen(p.fd, u == useWrite)
	if errno != 0 {
		return nil, errno
	}
	return ns.fds.insert(n, u, fd, blind), 0
}

// acquireDir opens the directory n for the use of names in it. n must still be at its own
// name, which gave it its state: a process that holds it open, or works in it, would
// otherwise keep that state wherever the host moves it. The caller holds ns.renameMu.
func (ns *names) acquireDir(n *node) (openDir, syscall.Errno) {
	if errno := ns.validatePath(n); errno != 0 {
		return openDir{}, errno
	}
	return ns.halves(n)
}

// validatePath makes sure that n and all above it were found at their names not longer ago
// than the timeout. It returns ENOENT for an orphan, ENAMETOOLONG below backing.MaxDepth, and
// checkSame's errno. The caller holds ns.renameMu.
//
// Each directory on the way keeps a proof, so that the path is walked once per timeout, or
// when something on it has moved, and not for each request.
func (ns *names) validatePath(n *node) syscall.Errno {
	generation, now := ns.table.generation.Load(), ns.clock()
	valid := func(m *node, limit time.Duration) *proof {
		p := m.proof.Load()
		if p == nil || p.generation != generation || now-min(p.oldest, m.validatedAt.Load()) >= int64(limit) {
			return nil
		}
		return p
	}
	if valid(n, ns.timeout) != nil {
		if parent, _ := ns.table.place(n); parent == nil {
			return syscall.ENOENT // as in a directory that was removed
		}
		return 0
	}
	// Names validated longer ago than half the timeout are looked up again, so that the
	// next walk is not soon.
	fresh := ns.timeout / 2
	var way []*node
	known := proof{generation: generation, oldest: now}
	for m := n; m.id != rootID; {
		if p := valid(m, fresh); p != nil {
			known = *p
			break
		}
		parent, _ := ns.table.place(m)
		if parent == nil {
			return syscall.ENOENT
		}
		if way = append(way, m); len(way) > backing.MaxDepth {
			return syscall.ENAMETOOLONG
		}
		m = parent
	}
	if known.depth+len(way) > backing.MaxDepth {
		return syscall.ENAMETOOLONG
	}
	ns.dirsWalked.Add(uint64(len(way)))
	for _, m := range slices.Backward(way) {
		seen, errno := ns.validate(m, now, fresh)
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

// validate returns when n was last found at its name, and looks it up there if that is longer
// ago than fresh.
func (ns *names) validate(n *node, now int64, fresh time.Duration) (int64, syscall.Errno) {
	for {
		seen := n.validatedAt.Load()
		if now-seen < int64(fresh) {
			return seen, 0
		}
		parent, name := ns.table.place(n)
		if parent == nil {
			return 0, syscall.ENOENT
		}
		d, errno := ns.dirOf(parent, name)
		if errno != 0 {
			return 0, ns.checkSame(n, nil, errno)
		}
		o, _, errno := ns.statEntry(d, name)
		d.release()
		if errno = ns.checkSame(n, o, errno); errno != 0 {
			return 0, errno
		}
		if n.validatedAt.CompareAndSwap(seen, now) { // else the host may have moved it since
			return now, 0
		}
	}
}

// walk opens n, and all directories between it and the closest open one above, and makes
// sure that they are still the same objects.
func (ns *names) walk(n *node) (*handle, syscall.Errno) {
	var way []*node
	var h *handle
	for m := n; h == nil; {
		parent, _ := ns.table.place(m)
		if parent == nil {
			return nil, syscall.ESTALE
		}
		if way = append(way, m); len(way) > backing.MaxDepth {
			return nil, syscall.ENAMETOOLONG
		}
		h, m = ns.fds.cached(parent, usePath), parent
	}
	for _, m := range slices.Backward(way) {
		dir := h
		var errno syscall.Errno
		h, errno = ns.step(dir, m)
		dir.release()
		if errno != 0 {
			return nil, errno
		}
	}
	return h, 0
}

// step opens n, whose directory is open as dir.
func (ns *names) step(dir *handle, n *node) (*handle, syscall.Errno) {
	parent, name := ns.table.place(n)
	if parent != dir.node {
		return nil, syscall.ESTALE // it became an orphan just now
	}
	switch {
	case ns.git.isApart(parent, name):
		own, errno := ns.dirOf(parent, name)
		if errno != 0 {
			return nil, ns.checkSame(n, nil, errno)
		}
		defer own.release()
		dir = own.handle
	case parent.inUpper() && !n.inUpper():
		lower, errno := ns.lower.half(parent)
		if errno != 0 {
			return nil, ns.checkSame(n, nil, errno)
		}
		defer lower.release()
		dir = lower
	}
	fd, errno := backing.OpenBeneath(dir.fd, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return nil, ns.checkSame(n, nil, errno)
	}
	o, errno := ns.Stat(backing.At{FD: fd})
	if errno = ns.checkSame(n, o, errno); errno != 0 {
		unix.Close(fd)
		return nil, errno
	}
	return ns.fds.add(n, usePath, fd), 0
}

// checkSame returns 0 if o, found at n's name, is n, and ESTALE if the name has another object or
// none: the kernel then looks the name up again. It also makes the kernel forget the name, since
// the kernel opens files without asking. errno is that of the look; errnos other than those of a
// changed name are returned as they are.
func (ns *names) checkSame(n *node, o *backing.Object, errno syscall.Errno) syscall.Errno {
	switch errno {
	case 0:
		if o.ID == n.ident() {
			return 0
		}
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EXDEV:
	default:
		return errno
	}
	if parent, name := ns.table.place(n); parent != nil {
		ns.inval.add(invalidation{what: invalEntry, id: parent.id, name: name})
	}
	return syscall.ESTALE
}

// statNode returns n's object, as by examine, or checkSame's errno.
func (ns *names) statNode(n *node) (*backing.Object, syscall.Errno) {
	if n.borrows() {
		return ns.lower.statBorrower(n)
	}
	if h := ns.fds.anyOf(n); h != nil {
		defer h.release()
		return ns.Examine(backing.At{FD: h.fd})
	}
	ns.renameMu.RLock()
	defer ns.renameMu.RUnlock()
	parent, name := ns.table.place(n)
	if parent == nil {
		return nil, syscall.ESTALE
	}
	dir, errno := ns.dirOf(parent, name)
	if errno != 0 {
		return nil, ns.checkSame(n, nil, errno)
	}
	defer dir.release()
	a, errno := ns.locate(dir, name)
	var o *backing.Object
	if errno == 0 {
		o, errno = ns.Examine(a)
	}
	return o, ns.checkSame(n, o, errno)
}

// openVictim opens the node at e, which is about to lose its name, so that a process that has it
// open keeps it. It returns nil if e has no node. The caller holds ns.renameMu.
func (ns *names) openVictim(e *entry) *node {
	n := ns.table.child(e.dir, e.name)
	if n == nil {
		return nil
	}
	if h, errno := ns.acquireLocked(n, usePath); errno == 0 {
		h.release()
	}
	ns.lower.holdContent(n)
	return n
}

// checkMoving makes sure that the nodes that r moves, by their names, are those of the objects
// that were judged: others than the sandbox change names too.
func (ns *names) checkMoving(r *renaming) (errno syscall.Errno) {
	if n := ns.table.child(r.from.dir, r.from.name); n != nil {
		errno = ns.checkSame(n, r.src, 0)
	}
	if n := ns.table.child(r.to.dir, r.to.name); errno == 0 && r.swap && n != nil && r.dst != nil {
		errno = ns.checkSame(n, r.dst, 0)
	}
	return errno
}

// holdBelow opens all files of the upper layer at n and below that the kernel knows.
func (ns *names) holdBelow(n *node) {
	ns.renameMu.RLock()
	defer ns.renameMu.RUnlock()
	for _, m := range ns.table.below(n) {
		if m.isDir() || !m.inUpper() {
			continue
		}
		if h, errno := ns.acquireLocked(m, usePath); errno == 0 {
			ns.fds.pin(m, usePath)
			h.release()
		}
	}
}
