package fusefs

import (
	"math"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
)

// A file can have names outside of the tree: package managers link installed files from a cache
// shared by all projects, and a change here would change the cache. So before a file is changed
// that has another name which is unknown here or must not be written here, its name gets a copy as
// an inode of its own. The kernel keeps the node: open descriptors, cached pages and mappings
// continue with the copy.

// contents prepares files for changes that only the sandbox sees. Before a change a file
// gets another inode: one of its own, or one in the upper layer.
type contents struct {
	*names
	gate *gatekeeper

	// mu are held for reading while a file is changed, for writing while its node is given another
	// inode; each is for a part of all nodes. See contentLock.
	mu [64]sync.RWMutex
}

// all, for unshare, keeps the whole content.
const all = math.MaxInt64

// unshare makes sure that a change of n changes nothing outside of the tree. Only the first keep
// bytes of the content matter from then on, or with attributes no byte does. In a copied tree n is
// in the upper layer then. It returns a lock, held for reading, under which that stays so; the
// caller unlocks it. The lock is nil if n is not a regular file. The caller does not hold
// cs.renameMu. The gate has allowed the operation o of the request in on n. unshare asks the gate
// again if the rules can have changed meanwhile.
func (cs *contents) unshare(o gate.Op, in *fuse.InHeader, n *node, keep int64) (*sync.RWMutex, syscall.Errno) {
	if !n.isRegular() {
		return nil, cs.needOwn(n) // a direct tree cannot copy others
	}
	lock := cs.contentLock(n)
	const attempts = 4 // other processes may move the name or link the file meanwhile
	for range attempts {
		if !lock.TryRLock() {
			errno := cs.splitRules(o, in, n, func() syscall.Errno { lock.RLock(); return 0 })
			if errno != 0 {
				lock.RUnlock()
				return nil, errno
			}
		}
		hosts := cs.copied != nil && (!n.inUpper() || n.borrows() && keep != attributes)
		shared, errno := hosts, syscall.Errno(0)
		if !hosts {
			shared, errno = cs.sharedOutside(n)
		}
		if errno == 0 && !shared {
			return lock, 0
		}
		lock.RUnlock()
		if errno == 0 {
			if !lock.TryLock() {
				errno = cs.splitRules(o, in, n, func() syscall.Errno { lock.Lock(); return 0 })
			}
			switch {
			case errno != 0:
			case hosts:
				errno = cs.copyUp(o, in, n, keep)
			default:
				errno = cs.copyInode(o, in, n, uncut(keep))
			}
			lock.Unlock()
		}
		if errno != 0 {
			return nil, errno
		}
	}
	return nil, syscall.EBUSY
}

// uncut returns keep, or all for attributes.
func uncut(keep int64) int64 {
	if keep == attributes {
		return all
	}
	return keep
}

// copying calls f, which copies size bytes of n, and lets the rules change meanwhile if they are
// many.
func (cs *contents) copying(o gate.Op, in *fuse.InHeader, n *node, size int64, f func() syscall.Errno) syscall.Errno {
	if size <= backing.CopyStep {
		return f()
	}
	return cs.splitRules(o, in, n, f)
}

// splitRules calls f, which waits for a lock of n's content or copies the content, and lets the
// rules change meanwhile: else all requests would wait for a change of rules, and that for f. Then
// it asks the gate again whether the operation o of the request in is allowed on n. A request
// holds cs.changeMu and cs.levels.rulesMu for reading.
func (cs *contents) splitRules(o gate.Op, in *fuse.InHeader, n *node, f func() syscall.Errno) syscall.Errno {
	errno := func() syscall.Errno {
		cs.levels.rulesMu.RUnlock()
		cs.changeMu.RUnlock()
		defer func() {
			cs.changeMu.RLock()
			cs.levels.rulesMu.RLock()
		}()
		return f()
	}()
	if errno != 0 {
		return errno
	}
	return cs.gate.allow(o, in, n)
}

// contentLock returns the lock that is held for writing while n is given another inode.
func (cs *contents) contentLock(n *node) *sync.RWMutex {
	if n.layers != nil {
		return &n.layers.content
	}
	return &cs.mu[n.id%uint64(len(cs.mu))]
}

// sharedOutside reports whether n's inode has a name that is unknown here, or known and not
// writable.
func (cs *contents) sharedOutside(n *node) (bool, syscall.Errno) {
	h := cs.fds.anyOf(n)
	if h == nil {
		var errno syscall.Errno
		if h, errno = cs.acquire(n, usePath); errno != 0 {
			return false, errno
		}
	}
	defer h.release()
	var st unix.Stat_t
	if err := unix.Fstat(h.fd, &st); err != nil {
		return false, backing.Errno(err)
	}
	if parent, _ := cs.table.place(n); st.Nlink == 0 || st.Nlink == 1 && parent != nil {
		return false, 0
	}
	cs.table.alias(n)
	cs.renameMu.RLock()
	defer cs.renameMu.RUnlock()
	known := 0
	for _, m := range cs.table.links(n) {
		if m.getLevel() >= gate.Need(gate.OpWrite) && cs.validatePath(m) == 0 {
			known++
		}
	}
	return known < int(st.Nlink), 0
}

// needOwn has n, which is not a regular file, in the upper layer of a copied tree. In a direct one
// it does nothing. The caller does not hold cs.renameMu.
func (cs *contents) needOwn(n *node) syscall.Errno {
	if cs.copied == nil || n.inUpper() {
		return 0
	}
	if !n.isDir() {
		n.layers.content.Lock() // held for a short time only: the file has no content
		defer n.layers.content.Unlock()
		return cs.copyUp(gate.OpNone, nil, n, 0)
	}
	cs.renameMu.Lock()
	defer cs.renameMu.Unlock()
	return cs.copied.needUpper(n)
}

// needCopy has n, which is not a directory, in the upper layer of a copied tree, with its content;
// o is as of unshare. In a direct one it does nothing. The caller does not hold cs.renameMu.
func (cs *contents) needCopy(o gate.Op, in *fuse.InHeader, n *node) syscall.Errno {
	if cs.copied == nil || n.inUpper() && !n.borrows() {
		return 0
	}
	lock, errno := cs.unshare(o, in, n, all)
	if lock != nil {
		lock.RUnlock()
	}
	return errno
}

// openWrite returns a writing of the node called id, if the gate allows o. The caller releases it.
func (cs *contents) openWrite(o gate.Op, in *fuse.InHeader, id uint64) (writing, syscall.Errno) {
	n, errno := cs.gate.allowed(o, in, id)
	if errno != 0 {
		return writing{}, errno
	}
	switch {
	case n.isDir():
		return writing{}, syscall.EISDIR
	case !n.isRegular():
		return writing{}, syscall.EINVAL
	}
	lock, errno := cs.unshare(o, in, n, all)
	if errno != 0 {
		return writing{}, errno
	}
	h, errno := cs.acquire(n, useWrite)
	if errno != 0 {
		lock.RUnlock()
	}
	return writing{h, lock}, errno
}

// A writing is a handle of a file for writing, and the lock under which it is not shared with
// names outside of the tree.
type writing struct {
	*handle
	lock *sync.RWMutex
}

func (w writing) release() {
	w.handle.release()
	w.lock.RUnlock()
}

func (cs *contents) truncate(n *node, size int64) syscall.Errno {
	if n.isDir() {
		return syscall.EISDIR
	}
	h, errno := cs.acquire(n, useWrite)
	if errno != 0 {
		return errno
	}
	defer h.release()
	return cs.resize(h, size)
}

// resize sets the size of the file that h is open for writing of.
func (cs *contents) resize(h *handle, size int64) syscall.Errno {
	grown, errno := cs.Quota.Grow(h.node.ident(), h.fd, 0, 0)
	if errno != 0 {
		return errno
	}
	defer grown()
	return backing.Retry(func() error { return unix.Ftruncate(h.fd, size) })
}
