package fusefs

import (
	"crypto/rand"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/fusefs/gate"
)

// copyInode gives n an inode of its own, a copy of the present one, unless another request has. o
// and in are as of unshare. The caller holds n's lock of cs.mu for writing.
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
	if errno := cs.quota.reserve(cost); errno != 0 {
		return errno
	}
	home := dir.fd
	if cs.copied != nil {
		home = cs.copied.work
	}
	c, errno := newTempFile(home)
	if errno != 0 {
		cs.quota.release(cost)
		return errno
	}
	do := func() syscall.Errno { return cs.fill(c.fd, old.fd, &st, keep) }
	if errno = cs.copying(o, in, n, min(st.Size, keep), do); errno == 0 {
		errno = cs.replace(n, dir, name, c)
	}
	c.discard()
	if errno != 0 {
		cs.quota.release(cost)
	} else {
		cs.quota.release(cost - c.cost)
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

// install moves c to name in the directory dir. It replaces an existing file.
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
