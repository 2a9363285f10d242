package fusefs

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A use is what a descriptor of a node is opened for.
type use uint8

const (
	usePath  use = iota // O_PATH: to look at it, and to reach entries of a directory
	useRead             // to read a regular file
	useWrite            // to write a regular file, and to read it unless the handle is blind
	useLower            // O_PATH: to reach entries of the lower half of a directory that has an upper one
	uses
)

// A handle is an open descriptor of a node. Each acquired handle must be released.
type handle struct {
	set  *fdCache
	node *node
	fd   int
	use  use

	blind bool // of useWrite: it cannot be read, since the mode forbade that

	// Guarded by set.mu.
	keep         bool    // opening it again may fail: close others first
	refs, pins   int32   // users at present; reasons not to close it while its node is known
	newer, older *handle // its neighbours in the cache's order; nil once it is out of the cache
}

// release ends one use of h.
func (h *handle) release() {
	h.set.mu.Lock()
	defer h.set.unlock()
	h.refs--
	h.set.closeUnused(h)
}

// An fdCache is an LRU cache of handles. Pinned and used handles can exceed max. Its methods are
// safe for concurrent use.
type fdCache struct {
	mu     sync.Mutex
	order  handle // before the newest and after the oldest; guarded by mu
	max    int
	open   int   // guarded by mu
	pinned int   // guarded by mu
	kept   int   // handles with keep set; guarded by mu
	dead   []int // to be closed; guarded by mu
}

func newFDCache(limit int) *fdCache {
	d := &fdCache{max: limit}
	d.order.newer, d.order.older = &d.order, &d.order
	return d
}

// mostReserved bounds reserve: it takes 8 bytes of the kernel's memory for each descriptor.
const mostReserved = 1 << 14

// reserve makes room in the process's table of descriptors for the descriptors of the cache. Each
// time that the kernel enlarges the table of a process with threads, it waits for an RCU grace
// period, several milliseconds, and each thread that opens a file waits with it: a first walk of a
// tree would wait eight times.
func (d *fdCache) reserve(fd int) {
	if high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, min(d.max, mostReserved)-1); err == nil {
		unix.Close(high)
	}
}

// push makes h the newest. The caller holds d.mu.
func (d *fdCache) push(h *handle) {
	h.newer, h.older = &d.order, d.order.older
	h.newer.older, h.older.newer = h, h
}

// pull takes h out of the order. The caller holds d.mu.
func (d *fdCache) pull(h *handle) {
	h.newer.older, h.older.newer = h.older, h.newer
	h.newer, h.older = nil, nil
}

// unlock releases mu, and then closes dead: closing the last descriptor of a file without a
// name may take long.
func (d *fdCache) unlock() {
	dead := d.dead
	d.dead = nil
	d.mu.Unlock()
	for _, fd := range dead {
		unix.Close(fd)
	}
}

// cached returns an open handle of n that can be used for u, or nil. The caller releases it.
func (d *fdCache) cached(n *node, u use) *handle {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := n.handles[u]
	if w := n.handles[useWrite]; h == nil && u == useRead && w != nil && !w.blind {
		h = w
	}
	if h != nil {
		h.refs++
		d.pull(h)
		d.push(h)
	}
	return h
}

// add caches fd as n's handle for u and returns that, for the caller to release. If there is
// one already, it returns that one and closes fd.
func (d *fdCache) add(n *node, u use, fd int) *handle { return d.insert(n, u, fd, false) }

// insert is add. It also reports whether the handle is blind.
func (d *fdCache) insert(n *node, u use, fd int, blind bool) *handle {
	d.mu.Lock()
	defer d.unlock()
	if h := n.handles[u]; h != nil {
		d.dead = append(d.dead, fd)
		h.refs++
		return h
	}
	h := &n.first.handle
	if h.node != nil {
		h = new(handle)
	}
	*h = handle{set: d, fd: fd, node: n, use: u, blind: blind, refs: 1}
	d.open++
	if n.dropped {
		return h // release closes it
	}
	n.handles[u] = h
	d.push(h)
	d.shrink(false)
	d.shrink(true)
	return h
}

// shrink closes unused handles, oldest first, until at most max are open. Unless all is set it
// spares handles with keep set, up to a quarter of max. The caller holds d.mu.
func (d *fdCache) shrink(all bool) {
	for next := d.order.newer; next != &d.order && d.open > d.max; {
		h := next
		next = next.newer
		if h.refs == 0 && h.pins == 0 && (all || !h.keep || d.kept > d.max/4) {
			d.drop(h)
		}
	}
}

// drop removes h from the cache. The caller holds d.mu.
func (d *fdCache) drop(h *handle) {
	d.pull(h)
	d.pinned -= int(h.pins)
	h.pins = 0
	if h.keep {
		h.keep = false
		d.kept--
	}
	h.node.handles[h.use] = nil
	d.closeUnused(h)
}

// closeUnused closes h if it is out of the cache and not in use. The caller holds d.mu.
func (d *fdCache) closeUnused(h *handle) {
	if h.newer == nil && h.refs == 0 {
		d.dead = append(d.dead, h.fd)
		d.open--
	}
}

// pin keeps n's handle for u, if there is one, open as long as n is known. It pins at most max
// handles, so that a sandbox cannot use up the server's descriptors.
func (d *fdCache) pin(n *node, u use) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := n.handles[u]; h != nil && d.pinned < d.max {
		h.pins++
		d.pinned++
	}
}

// prefer makes shrink close other handles before n's handle for writing. The mode may forbid to
// open the file again while a process has it open, and the kernel does not report when that ends.
func (d *fdCache) prefer(n *node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := n.handles[useWrite]; h != nil && !h.keep {
		h.keep = true
		d.kept++
	}
}

// forget is renew, and caches no more handles of n.
func (d *fdCache) forget(n *node) {
	d.mu.Lock()
	n.dropped = true
	d.unlock()
	d.renew(n)
}

// renew closes all handles of n, those in use when they are released: n has another inode now.
func (d *fdCache) renew(n *node) {
	d.mu.Lock()
	defer d.unlock()
	for _, h := range n.handles {
		if h != nil {
			d.drop(h)
		}
	}
}

// close closes n's handle for u, if there is one.
func (d *fdCache) close(n *node, u use) {
	d.mu.Lock()
	defer d.unlock()
	if h := n.handles[u]; h != nil {
		d.drop(h)
	}
}

// move makes n's handle for one use that for another, which n has none for.
func (d *fdCache) move(n *node, from, to use) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := n.handles[from]; h != nil {
		n.handles[from], n.handles[to], h.use = nil, h, to
	}
}

// count returns how many descriptors are open.
func (d *fdCache) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}
