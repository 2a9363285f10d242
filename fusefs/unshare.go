package fusefs

import (
	"crypto/rand"
	"math"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/fusefs/gate"
)

// A file can have names outside of the tree: package managers link what they install from a
// cache shared by all projects, and a change here would change it there. So before a file is
// changed that has another name which is unknown here or must not be written here, its name
// gets a copy as an inode of its own. The kernel keeps the node: what it has open, cached or
// mapped continues with the copy.

// contents have files changed where nobody else sees that. A file is given another inode before: an own one, or one in the upper layer.
type contents struct {
	*names
	gate *gatekeeper

	// mu are held for reading while a file is changed, for writing while its node is given another inode; each is for a part
	// of all nodes. See contentLock.
	mu [64]sync.RWMutex
}

// all, for unshare, keeps the whole content.
const all = math.MaxInt64

// unshare makes sure that a change of n changes nothing outside of the tree. Only the first keep
// bytes of the content matter from then on, or with attributes no byte does. In a copied tree n is
// in the upper layer then. It returns a lock, held for reading, under which that stays so; the
// caller unlocks it. The lock is nil if n is not a regular file. The caller does not hold
// cs.renameMu. The gate has allowed o, which in asks for, on n; it is asked again if the rules can have changed
// meanwhile.
func (cs *contents) unshare(o gate.Op, in *fuse.InHeader, n *node, keep int64) (*sync.RWMutex, syscall.Errno) {
	if !n.isRegular() {
		return nil, cs.needOwn(n) // a direct tree cannot copy others
	}
	lock := cs.contentLock(n)
	const attempts = 4 // others may move the name or link the file meanwhile
	for range attempts {
		if !lock.TryRLock() {
			errno := cs.withoutRules(o, in, n, func() syscall.Errno { lock.RLock(); return 0 })
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
				errno = cs.withoutRules(o, in, n, func() syscall.Errno { lock.Lock(); return 0 })
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

// copying calls f, which copies size bytes of n, and lets the rules change meanwhile if they are many.
func (cs *contents) copying(o gate.Op, in *fuse.InHeader, n *node, size int64, f func() syscall.Errno) syscall.Errno {
	if size <= copyStep {
		return f()
	}
	return cs.withoutRules(o, in, n, f)
}

// withoutRules calls f, which waits for a lock of n's content or copies that, and lets the rules change meanwhile:
// else all requests would wait for a change of rules, and that for f. Then it asks the gate again whether o, which in
// asks for, is allowed on n. A request holds cs.changeMu and cs.levels.rulesMu for reading.
func (cs *contents) withoutRules(o gate.Op, in *fuse.InHeader, n *node, f func() syscall.Errno) syscall.Errno {
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
		return false, errnoOf(err)
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

// adopt gives n another inode: see table.adopt. The handles of n are still those of the former one, which is not watched any more.
func (ns *names) adopt(n *node, ident identity) bool {
	if !ns.table.adopt(n, ident) {
		return false
	}
	if n.isDir() {
		return true // it keeps its lower half
	}
	fd := -1
	if h := ns.fds.anyOf(n); h != nil {
		defer h.release()
		fd = h.fd
	}
	ns.watch.remove(n, fd)
	return true
}

// copyInode gives n an inode of its own, a copy of the present one, unless another request has. o and in are as of
// unshare. The caller holds n's lock of cs.mu for writing.
func (cs *contents) copyInode(o gate.Op, in *fuse.InHeader, n *node, keep int64) syscall.Errno {
	if shared, errno := cs.sharedOutside(n); errno != 0 || !shared {
		return errno
	}
	old, errno := cs.acquire(n, usePath)
	if errno != 0 {
		return errno
	}
	defer old.release()
	var st unix.Stat_t
	if err := unix.Fstat(old.fd, &st); err != nil {
		return errnoOf(err)
	}
	dir, name, errno := cs.openHome(n)
	if errno != 0 {
		return errno
	}
	defer dir.release()
	cost := min(st.Blocks*512, max(keep, 0))
	if name == "" {
		cost += objectCost // given back when its name was removed
	}
	if errno := cs.quota.take(cost); errno != 0 {
		return errno
	}
	home := dir.fd
	if cs.copied != nil {
		home = cs.copied.work
	}
	c, errno := newTempFile(home)
	if errno != 0 {
		cs.quota.give(cost)
		return errno
	}
	do := func() syscall.Errno { return cs.fill(c.fd, old.fd, &st, keep) }
	if errno = cs.copying(o, in, n, min(st.Size, keep), do); errno == 0 {
		errno = cs.replace(n, dir, name, c)
	}
	c.discard()
	if errno != 0 {
		cs.quota.give(cost)
	} else {
		cs.quota.give(cost - c.cost)
	}
	if errno == syscall.EAGAIN {
		return 0 // unshare tries again
	}
	return errno
}

// openHome opens the directory of n, and returns n's name; for an orphan the root, which is on
// the same file system, and "".
func (cs *contents) openHome(n *node) (openDir, string, syscall.Errno) {
	cs.renameMu.RLock()
	defer cs.renameMu.RUnlock()
	parent, name := cs.table.place(n)
	if parent == nil {
		parent = cs.root.node
	}
	e := newEntry(parent, name)
	dir, errno := cs.acquireEntry(&e, false)
	return dir, name, errno
}

// A tempFile is a new file, in the directory open as dir, that is to replace another.
type tempFile struct {
	dir, fd int    // fd is -1 once the cache of descriptors owns it
	name    string // empty: it has none
	cost    int64  // its bytes on the disk, once it has replaced the other
}

// newTempFile makes an empty one with the mode 0600. The caller calls discard.
func newTempFile(dir int) (*tempFile, syscall.Errno) {
	fd, errno := openBeneath(dir, ".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if errno == 0 {
		return &tempFile{dir: dir, fd: fd}, 0
	}
	c := &tempFile{dir: dir, name: tempName()} // a file system without O_TMPFILE
	if c.fd, errno = openBeneath(dir, c.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600); errno != 0 {
		return nil, errno
	}
	return c, 0
}

// ownPrefix begins the names of files that the server makes. No sandbox can use these names:
// another sandbox may have the same codebase.
const ownPrefix = cow.TempPrefix

func tempName() string { return ownPrefix + rand.Text() }

// discard removes c's name and closes it, unless it has replaced another file.
func (c *tempFile) discard() {
	if c.name != "" {
		unix.Unlinkat(c.dir, c.name, 0)
	}
	if c.fd >= 0 {
		unix.Close(c.fd)
	}
}

// replace makes c the inode of n, at n's name if it has one. EAGAIN: the name has moved
// meanwhile.
func (cs *contents) replace(n *node, dir openDir, name string, c *tempFile) syscall.Errno {
	cs.renameMu.Lock()
	defer cs.renameMu.Unlock()
	parent, now := cs.table.place(n)
	if now != name || parent != nil && parent != dir.node {
		return syscall.EAGAIN
	}
	fresh, errno := cs.stat(fdName{fd: c.fd})
	if errno != 0 {
		return errno
	}
	c.cost = int64(fresh.Blocks) * 512
	path := -1 // an orphan's, which cannot be opened by name
	if parent != nil {
		errno = cs.exchange(n, parent, dir.fd, name, c, fresh.ident)
	} else {
		path, errno = cs.openProc(c.fd, unix.O_PATH)
	}
	if errno != 0 {
		return errno
	}
	links := cs.table.links(n)
	if !cs.adopt(n, fresh.ident) { // does not happen during a request on n
		lookupResult{fd: path}.close()
		return syscall.ESTALE
	}
	cs.fds.renew(n)
	if parent == nil {
		cs.fds.add(n, usePath, path).release()
		cs.pinOrphan(n)
		c.cost += objectCost
		cs.quota.releaseLater(n, c.cost)
	}
	cs.fds.add(n, useWrite, c.fd).release()
	c.fd = -1
	if fresh.Mode&0o600 != 0o600 {
		cs.fds.prefer(n)
	}
	n.validatedAt.Store(cs.clock())
	for _, m := range links {
		cs.inval.add(invalidation{what: invalAttr, id: m.id}) // includes n
	}
	return 0
}

// exchange gives the name of n, called name in parent, which is open as dir, to c, whose inode is
// ident. The caller holds cs.renameMu for writing.
func (cs *contents) exchange(n, parent *node, dir int, name string, c *tempFile, ident identity) syscall.Errno {
	if errno := cs.validatePath(parent); errno != 0 {
		return errno
	}
	o, errno := cs.stat(fdName{dir, name})
	if errno = cs.checkSame(n, o, errno); errno != 0 {
		return errno
	}
	if c.name != "" {
		if o, errno := cs.stat(fdName{c.dir, c.name}); errno != 0 || o.ident != ident {
			c.name = "" // another file has taken it: discard must not remove that
			return syscall.EAGAIN
		}
	}
	return cs.install(c, dir, name)
}

// install moves c to name in the directory dir, replacing a file that is there.
func (b *backing) install(c *tempFile, dir int, name string) syscall.Errno {
	if c.name == "" {
		temporary := tempName()
		if errno := b.linkFD(c.fd, c.dir, temporary); errno != 0 {
			return errno
		}
		c.name = temporary
	}
	if err := unix.Renameat(c.dir, c.name, dir, name); err != nil {
		return errnoOf(err)
	}
	c.name = ""
	return 0
}
