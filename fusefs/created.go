package fusefs

import (
	"sync"

	"golang.org/x/sys/unix"
)

// maxCreated bounds the inodes that createdInodes holds. Beyond it the oldest count as
// created outside.
const maxCreated = 1 << 16

// createdInodes are the git directories, and the parts of git directories, that were
// created through the tree. Its methods are safe for concurrent use.
type createdInodes struct {
	mu    sync.Mutex
	known map[identity]birth // guarded by mu
	order []identity         // oldest first, including some no longer known; guarded by mu
}

// A birth tells an inode from a later one with its number, which a file system may give out
// again before its clock advances: name_to_handle_at(2) includes a generation.
type birth struct {
	handle string // empty where the file system has none
	time   unix.StatxTimestamp
}

func birthOf(a fdName, obj *object) birth {
	handle, _ := handleOf(a) // without one, the time has to do
	return birth{handle, obj.Btime}
}

// mayHave reports whether the inode id, or an earlier one with its number, was created
// inside.
func (c *createdInodes) mayHave(id identity) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.known[id]
	return ok
}

// has reports whether obj, which is at a, was created inside.
func (c *createdInodes) has(a fdName, obj *object) bool {
	if !c.mayHave(obj.ident) {
		return false
	}
	b := birthOf(a, obj)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[obj.ident] == b {
		return true
	}
	delete(c.known, obj.ident)
	return false
}

// add records that obj, which is at a, was created inside.
func (c *createdInodes) add(a fdName, obj *object) {
	b := birthOf(a, obj)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[identity]birth{}
	}
	if _, ok := c.known[obj.ident]; !ok {
		c.order = append(c.order, obj.ident)
	}
	c.known[obj.ident] = b
	for len(c.known) > maxCreated || len(c.order) > 2*maxCreated {
		delete(c.known, c.order[0])
		c.order = c.order[1:]
	}
}

// remove forgets obj, which may be nil.
func (c *createdInodes) remove(obj *object) {
	if obj != nil {
		c.forget(obj.ident)
	}
}

// forget forgets the inode id.
func (c *createdInodes) forget(id identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
	if len(c.known) == 0 {
		c.order = nil
	}
}
