package fusefs

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A use is what a descriptor of a node is good for.
type use uint8

const (
	usePath  use = iota // O_PATH: reaching it, and what is below a directory
	useRead             // reading the content of a regular file
	useWrite            // reading and writing it
	uses
)

// A handle is an open descriptor of a node. Whoever acquired it releases it.
type handle struct {
	set  *fdCache
	node *node
	fd   int
	use  use

	// Guarded by set.mu.
	keep         bool    // opening it again may fail: close others first
	refs, pins   int32   // users right now; reasons never to close it while its node is known
	older, newer *handle // in the cache's order; nil once it is out of the cache
}

// release ends one use of h.
func (h *handle) release() {
	h.set.mu.Lock()
	defer h.set.unlock()
	h.refs--
	h.set.settle(h)
}

// An fdCache is a cache of handles, the least recently used closed first.
// It may grow beyond max by what is pinned or in use.
type fdCache struct {
	mu     sync.Mutex
	order  handle // the ends of a ring: order.older is the newest handle; guarded by mu
	max    int
	open   int   // guarded by mu
	pinned int   // guarded by mu
	kept   int   // handles with keep set; guarded by mu
	dead   []int // to be closed; guarded by mu
}

// unlock releases mu, and closes what is to be closed: that may take long, if
// it was the last of a file without a name.
func (d *fdCache) unlock() {
	dead := d.dead
	d.dead = nil
	d.mu.Unlock()
	for _, fd := range dead {
		unix.Close(fd)
	}
}

func newFDCache(limit int) *fdCache {
	d := &fdCache{max: limit}
	d.order.older, d.order.newer = &d.order, &d.order
	return d
}

// pushFront makes h the newest. d.mu is held.
func (d *fdCache) pushFront(h *handle) {
	h.newer, h.older = &d.order, d.order.older
	h.older.newer, d.order.older = h, h
}

// unlink takes h out of the order. The set's mu is held.
func (h *handle) unlink() {
	h.older.newer, h.newer.older = h.newer, h.older
	h.older, h.newer = nil, nil
}

// cached returns a handle of n that is good for u, nil if none is open.
func (d *fdCache) cached(n *node, u use) *handle {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := n.handles[u]
	if h == nil && u == useRead {
		h = n.handles[useWrite]
	}
	if h != nil {
		h.refs++
		if d.order.older != h {
			h.unlink()
			d.pushFront(h)
		}
	}
	return h
}

// add caches fd as n's handle for u and acquires it. If another was faster,
// that one is returned and fd is closed.
func (d *fdCache) add(n *node, u use, fd int) *handle {
	d.mu.Lock()
	defer d.unlock()
	if h := n.handles[u]; h != nil {
		d.dead = append(d.dead, fd)
		h.refs++
		return h
	}
	h := &handle{set: d, fd: fd, node: n, use: u, refs: 1}
	d.open++
	if n.gone {
		return h // closed by its release
	}
	n.handles[u] = h
	d.pushFront(h)
	d.shrink(false)
	d.shrink(true)
	return h
}

// shrink closes what is not in use until no more than max are open, the
// oldest first. What may be hard to open again is spared, unless that is more
// than a quarter, or all is set. d.mu is held.
func (d *fdCache) shrink(all bool) {
	for next := d.order.newer; next != &d.order && d.open > d.max; {
		h := next
		next = h.newer
		if h.refs == 0 && h.pins == 0 && (all || !h.keep || d.kept > d.max/4) {
			d.drop(h)
		}
	}
}

// drop takes h out of the cache. d.mu is held.
func (d *fdCache) drop(h *handle) {
	h.unlink()
	d.pinned -= int(h.pins)
	h.pins = 0
	if h.keep {
		h.keep = false
		d.kept--
	}
	h.node.handles[h.use] = nil
	d.settle(h)
}

// settle closes h if nobody can reach it any more. d.mu is held.
func (d *fdCache) settle(h *handle) {
	if h.older == nil && h.refs == 0 {
		d.dead = append(d.dead, h.fd)
		d.open--
	}
}

// pin keeps n's handle for u, if there is one, as long as n is known. No more
// than max are kept: the sandbox must not use up the server's descriptors.
func (d *fdCache) pin(n *node, u use) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := n.handles[u]; h != nil && d.pinned < d.max {
		h.pins++
		d.pinned++
	}
}

// prefer closes other handles before n's handle for u, which the mode of the
// file may forbid to open again while somebody has it open. The kernel never
// says when that ends.
func (d *fdCache) prefer(n *node, u use) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := n.handles[u]; h != nil && !h.keep {
		h.keep = true
		d.kept++
	}
}

// forget closes all handles of n, those in use when they are released, and
// caches no more for it.
func (d *fdCache) forget(n *node) {
	d.mu.Lock()
	n.gone = true
	d.mu.Unlock()
	d.renew(n)
}

// renew closes all handles of n, those in use when they are released: it has become
// another file.
func (d *fdCache) renew(n *node) {
	d.mu.Lock()
	defer d.unlock()
	for _, h := range n.handles {
		if h != nil {
			d.drop(h)
		}
	}
}

// count returns how many descriptors are open.
func (d *fdCache) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}
