package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
	"wolffia/perm"
)

// attrs fill in the attributes that are presented, and for how long the kernel may cache them.
type attrs struct {
	*names
	kernel *kernelCache
	owner  Owner
	// several says that programs may be root of several users (Options.Chown), whom modes do not
	// keep out: see withhold.
	several   bool
	hostModes bool // Options.HostModes
	// asksWrites leaves it to the gate what is made and removed in read-only directories, since
	// only that learns the name.
	asksWrites bool
}

// withheld is userns.Withheld: an id of the mount's user namespace that programs inside lack.
const withheld = 65535

// withhold keeps root inside out of what a mode denies. The kernel opens files by the presented
// modes alone, and root's CAP_DAC_OVERRIDE passes them, but not of a file whose owner its
// namespace lacks (capable_wrt_inode_uidgid in the kernel's kernel/capability.c). The gate would
// refuse only the reads and writes that follow.
func withhold(a *fuse.Attr) {
	a.Owner = fuse.Owner{Uid: withheld, Gid: withheld}
	a.Mode = a.Mode&^0o077 | (a.Mode>>6&7)*0o11
}

// anyOf returns an open handle of n's inode for any use, nil if none is. The caller releases it.
func (d *fdCache) anyOf(n *node) *handle {
	for u := usePath; u < useLower; u++ {
		if u != usePath && n.borrows() {
			break // they belong to the file whose content it borrows
		}
		if h := d.cached(n, u); h != nil {
			return h
		}
	}
	return nil
}

// mode returns the presented mode of o. inside is the state inside a directory.
func (at *attrs) mode(o *backing.Object, level perm.Level, inside states) uint32 {
	bits := uint32(o.Mode) & 0o7777 &^ backing.SetIDBits
	if at.hostModes && o.Type() != unix.S_IFLNK {
		return o.Type() | bits
	}
	if o.Uid != at.EUID {
		bits = bits&^0o700 | o.Access<<6
	}
	switch o.Type() {
	case unix.S_IFLNK:
		bits = 0o777
	case unix.S_IFDIR:
		// The gate decides about each name inside, unless all have the same level.
		if l, ok := at.levels.constant(inside); ok && l < perm.Write && !(l == perm.Read && at.asksWrites) {
			bits &^= 0o222
		}
	default:
		switch {
		case level < perm.Read:
			bits &^= 0o777
		case level < perm.Write:
			bits &^= 0o222
		}
	}
	return o.Type() | bits
}

// attr fills in the presented attributes of o. inside is the state inside a directory.
func (at *attrs) attr(o *backing.Object, level perm.Level, inside states, a *fuse.Attr) {
	*a = fuse.Attr{
		Ino: at.git.number(o), Size: o.Size, Blocks: o.Blocks,
		Atime: uint64(o.Atime.Sec), Atimensec: o.Atime.Nsec,
		Mtime: uint64(o.Mtime.Sec), Mtimensec: o.Mtime.Nsec,
		Ctime: uint64(o.Ctime.Sec), Ctimensec: o.Ctime.Nsec,
		Mode: at.mode(o, level, inside), Nlink: o.Nlink,
		Owner:   fuse.Owner{Uid: at.owner.UID, Gid: at.owner.GID},
		Rdev:    uint32(unix.Mkdev(o.Rdev_major, o.Rdev_minor)),
		Blksize: o.Blksize,
	}
	if at.several && level < perm.Write && o.Type() == unix.S_IFREG {
		withhold(a)
	}
	if o.IsDir() {
		// The size and the link count of a directory would tell how much is hidden.
		if l, ok := at.levels.constant(inside); !ok || l == perm.None {
			a.Size, a.Blocks, a.Nlink = at.levels.dirSize, 8, min(a.Nlink, 1)
		}
	}
}

// fillAttr fills in the reply to a request for n's attributes.
func (at *attrs) fillAttr(n *node, o *backing.Object, out *fuse.AttrOut) {
	at.attr(o, n.getLevel(), n.getState(), &out.Attr)
	at.copiedAttr(n, &out.Attr)
	out.SetTimeout(at.attrTimeout(n, o))
}

// fillEntry fills in the reply to a lookup of n.
func (at *attrs) fillEntry(dir, n *node, o *backing.Object, out *fuse.EntryOut) {
	out.NodeId = n.id
	out.SetEntryTimeout(at.nameTimeout(dir))
	at.attr(o, n.getLevel(), n.getState(), &out.Attr)
	at.copiedAttr(n, &out.Attr)
	timeout := at.attrTimeout(n, o)
	if !o.IsDir() && o.Nlink > 1 {
		timeout = 0 // an invalidation of n has no effect until the kernel has this reply
	}
	out.SetAttrTimeout(timeout)
}

// copiedAttr makes attributes of the object of n, in a copied tree, those that are presented.
func (at *attrs) copiedAttr(n *node, a *fuse.Attr) {
	if n.layers == nil {
		return
	}
	a.Ino = n.layers.ino.Load()
	switch parent, _ := at.table.place(n); {
	case n.id != rootID && parent == nil && !n.inUpper() && n.isDir():
		a.Nlink = 0
	case n.id != rootID && parent == nil && !n.inUpper() && a.Nlink > 0:
		a.Nlink-- // the name that the sandbox has removed
	case n.isDir() && n.inUpper() && n.merges():
		a.Nlink = min(a.Nlink, 1)
	}
}

// nameTimeout returns how long the kernel may cache an entry of dir.
func (at *attrs) nameTimeout(dir *node) time.Duration {
	if dir.watched.Load() || !dir.hostChanges() {
		return max(watchedTimeout, at.timeout)
	}
	return at.timeout
}

// attrTimeout returns how long the kernel may cache the attributes of n, which are o's.
func (at *attrs) attrTimeout(n *node, o *backing.Object) time.Duration {
	switch {
	case at.shared(n, o), at.git.showsObjects(n):
		return 0
	case n.borrows() && (o.BorrowsLinked || !at.lower.lendsNoticed(n)):
		return at.timeout
	case n.inUpper() && !n.isDir() && !n.borrows():
		return max(watchedTimeout, at.timeout) // nothing else changes it
	case !n.watched.Load() && (n.isDir() && n.hostChanges() || !n.isDir() && o.Nlink > 1):
		return at.timeout // the host may change it by another name, or in a directory that is not watched
	case n.id == rootID:
		return at.nameTimeout(n)
	}
	if parent, _ := at.table.place(n); parent != nil {
		return at.nameTimeout(parent)
	}
	return at.timeout
}

// shared reports whether n's inode is also known by other names. To the kernel those are
// inodes of their own, which an operation on n does not change: it must ask each time. A
// removed name counts as long as it is open.
func (at *attrs) shared(n *node, o *backing.Object) bool {
	if o.IsDir() || o.Nlink <= 1 && !at.table.aliased(n) {
		return false
	}
	added, known := at.table.alias(n)
	if added && known > 1 {
		for _, m := range at.table.links(n) {
			if m != n {
				// Sent at once although this answers a request: the change must show by the other
				// names when the caller continues. Unlike names and content, attributes are
				// invalidated without waiting for a lock that a request may hold
				// (fuse_reverse_inval_inode in fs/fuse/inode.c).
				at.kernel.send(invalidation{what: invalAttr, id: m.id})
			}
		}
	}
	return known > 1
}

// GetAttr returns the attributes of a node.
func (t *tree) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, errno := t.gate.allowed(gate.OpGetattr, &in.InHeader, in.NodeId)
	if errno != 0 {
		return fuse.Status(errno)
	}
	if errno := t.gate.askKernel(&in.InHeader, n); errno != 0 {
		return fuse.Status(errno)
	}
	if t.copied != nil {
		t.lower.noteListing(n)
	}
	watched := n.watched.Load()
	o, errno := t.statNode(n)
	if errno != 0 {
		return fuse.Status(errno)
	}
	t.attrs.watchLinked(n, o)
	if !watched && n.watched.Load() { // by this request or another one: it may have changed before the watch began
		if o, errno = t.statNode(n); errno != 0 {
			return fuse.Status(errno)
		}
	}
	t.attrs.fillAttr(n, o, out)
	if t.granted(&in.InHeader, n, o, &out.Attr) {
		out.SetTimeout(0)
	}
	return fuse.OK
}

// granted makes attributes of n, whose object is o, those for a process that may do more with n
// than the rules say. They are for this process only: the kernel must not cache them.
func (t *tree) granted(in *fuse.InHeader, n *node, o *backing.Object, out *fuse.Attr) bool {
	l := t.gate.levelFor(in, n)
	if l == n.getLevel() || n.isDir() {
		return false
	}
	t.attrs.attr(o, l, states{}, out)
	t.attrs.copiedAttr(n, out)
	return true
}

// watchLinked begins to watch n, whose object is o, if it is a file of the host that has names
// elsewhere. It does so when the kernel asks for the second time: a watch takes as long as an
// answer for each file, and a process that walks a new tree once would wait for that.
func (at *attrs) watchLinked(n *node, o *backing.Object) {
	if !n.isRegular() || o.Nlink <= 1 || !at.watch.accepts(n) || n.inUpper() || n.borrows() || at.shared(n, o) ||
		!n.asked.Swap(true) {
		return
	}
	if h, errno := at.acquire(n, usePath); errno == 0 {
		at.watch.addFile(n, o.ID, h.fd)
		h.release()
	}
}

// absent fills in a reply that says for how long the kernel may cache that e does not exist. The
// time is zero if e is or may be hidden, so that the server reports each process that asks for it.
func (at *attrs) absent(e *entry, out *fuse.EntryOut) fuse.Status {
	*out = fuse.EntryOut{}
	if at.levels.of(e, false) == perm.None || at.levels.of(e, true) == perm.None || e.dir.getState().path == inHosts {
		return fuse.OK // git inside asks for an object that the host's git makes as soon as it knows the name
	}
	timeout := at.nameTimeout(e.dir)
	if e.dir.id == rootID && !at.kernel.dev.Epochs {
		timeout = min(at.timeout, rootAbsence) // nothing else makes the kernel forget these
		at.kernel.rootAbsent.Store(at.clock())
	}
	out.SetEntryTimeout(timeout)
	return fuse.OK
}
