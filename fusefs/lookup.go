package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
	"wolffia/fusefs/gate"
	"wolffia/perm"
)

// An entry is a name in a directory, whether or not it exists.
type entry struct {
	dir       *node
	name      string
	levels    [2]perm.Level   // as a file and as a directory; use levels.of
	recreated bool            // a directory that the sandbox had removed and makes again: see recreate
	scratch   *backing.Object // what lookupHost may use for its result; nil: nothing
}

// unknownLevel stands in entry.levels for a level that the rules were not asked for.
const unknownLevel perm.Level = 0xff

func newEntry(dir *node, name string) entry {
	return entry{dir: dir, name: name, levels: [2]perm.Level{unknownLevel, unknownLevel}}
}

// entry returns the entry called name of the directory node called id.
func (ns *names) entry(id uint64, name string) (entry, syscall.Errno) {
	dir, errno := ns.dir(id)
	if errno == 0 && !plainName(name) {
		errno = syscall.EINVAL
	}
	return newEntry(dir, name), errno
}

// Lookup finds an entry of a directory. A hidden entry gives the same answer as one that
// does not exist.
func (t *tree) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	e, errno := t.entry(in.NodeId, name)
	if errno != 0 {
		return fuse.Status(errno)
	}
	t.git.ownGit(e.dir, name, false)
	if t.levels.hidden(&e) {
		t.gate.deny(gate.OpLookup, in, e.dir, name, perm.None, syscall.ENOENT, "")
		return t.attrs.absent(&e, out)
	}
	if t.git.asks(e.dir, name) {
		return t.answer(&e, out)
	}
	t.renameMu.RLock()
	defer t.renameMu.RUnlock()
	known := t.table.child(e.dir, name)
	d, errno := t.acquireEntry(&e, false)
	if errno == 0 {
		_, errno = t.find(in, &e, d, known, out)
		d.release()
	} else if reason := ""; errno == syscall.EACCES && t.levels.owns(e.dir.getState(), name) {
		if reason = t.git.failed.of(e.dir).reason; reason != "" {
			t.gate.deny(gate.OpLookup, in, e.dir, name, perm.None, errno, reason)
		}
		return fuse.Status(errno)
	} else if !t.git.isApart(e.dir, name) {
		return fuse.Status(errno)
	}
	if errno == syscall.ENOENT {
		if t.table.vanish(e.dir, name, known) {
			t.pinOrphan(known)
		}
		return t.attrs.absent(&e, out)
	}
	return fuse.Status(errno)
}

// find looks e up in its directory, which is open as d, and gives the kernel a node for
// it. known is the node that the kernel has at e, if the caller knows it. The caller holds
// t.renameMu.
func (t *tree) find(in *fuse.InHeader, e *entry, d openDir, known *node, out *fuse.EntryOut) (*node, syscall.Errno) {
	r, errno := t.lookupEntry(e, d, known)
	if errno != 0 {
		return nil, errno
	}
	errno = t.gate.allowName(gate.OpLookup, in, e, r.obj.IsDir())
	if errno == 0 && r.obj.IsMount() {
		errno = syscall.EACCES // another file system
	}
	if errno != 0 {
		r.close()
		return nil, errno
	}
	n := t.enter(e, r, out)
	if t.granted(in, n, r.obj, &out.Attr) {
		out.SetAttrTimeout(0)
	}
	return n, 0
}

// A lookupResult is the object at an entry.
type lookupResult struct {
	obj *backing.Object
	fd  int // O_PATH, of the object; -1 if it was not opened

	// Of a copied tree.
	upper     bool     // it is in the upper layer
	half      cow.Half // where the lower half of a directory is
	lowerPath string   // for cow.Moved
	borrowed  string   // where the content of a file is that borrows it
}

func (r lookupResult) close() {
	if r.fd >= 0 {
		unix.Close(r.fd)
	}
}

// lookupEntry returns the object at e, whose directory is open as d; known is as in find.
func (ns *names) lookupEntry(e *entry, d openDir, known *node) (lookupResult, syscall.Errno) {
	upper, lower := ns.git.sides(e.dir, e.name)
	if !d.upper {
		if !lower || ns.git.isRemovedDir(d.fd, e.dir, e.name) {
			return lookupResult{fd: -1}, syscall.ENOENT
		}
		return ns.lookupHost(e, d.fd, known)
	}
	r, errno := lookupResult{fd: -1}, syscall.ENOENT
	if upper {
		r, errno = ns.copied.lookup(e, d.fd, known)
	}
	switch {
	case errno != syscall.ENOENT || r.obj != nil: // with an object it is a whiteout
	case d.lower != nil && lower:
		r, errno = ns.lookupHost(e, d.lower.fd, known)
	}
	return r, errno
}

// lookupHost is lookupEntry for the directory fd of the host.
// In a watched directory, whose entries the kernel believes for long, the result is open as
// well: the kernel opens files without asking, and the name may be another object's by the
// time of their first use.
func (ns *names) lookupHost(e *entry, fd int, known *node) (lookupResult, syscall.Errno) {
	obj := e.scratch
	if obj == nil {
		obj = new(backing.Object)
	}
	if !e.dir.watched.Load() {
		obj, errno := ns.ExamineInto(obj, backing.At{FD: fd, Name: e.name})
		if errno == 0 && ns.git != nil && e.name == gitName && backing.IsWhiteout(obj) {
			errno = syscall.ENOENT
		}
		return lookupResult{obj: obj, fd: -1}, errno
	}
	if obj := ns.ifOpen(known, backing.At{FD: fd, Name: e.name}); obj != nil {
		return lookupResult{obj: obj, fd: -1}, 0
	}
	path, errno := backing.OpenBeneath(fd, e.name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		if errno == syscall.EXDEV {
			errno = syscall.EACCES
		}
		return lookupResult{fd: -1}, errno
	}
	obj, errno = ns.ExamineInto(obj, backing.At{FD: path})
	if errno == 0 && ns.git != nil && e.name == gitName && backing.IsWhiteout(obj) {
		errno = syscall.ENOENT
	}
	if errno != 0 {
		unix.Close(path)
		return lookupResult{fd: -1}, errno
	}
	return lookupResult{obj: obj, fd: path}, 0
}

// ifOpen returns the object at a if it is that of n and n is open, else nil. n may be nil.
func (ns *names) ifOpen(n *node, a backing.At) *backing.Object {
	if n == nil {
		return nil
	}
	h := ns.fds.anyOf(n)
	if h == nil {
		return nil
	}
	defer h.release()
	obj, errno := ns.Stat(a)
	if errno != 0 || obj.ID != n.ident() {
		return nil
	}
	ns.TryAccess(a, obj)
	return obj
}

// enter gives the kernel a node for r, found at e, and fills in the reply. It owns r.fd
// afterwards.
func (t *tree) enter(e *entry, r lookupResult, out *fuse.EntryOut) *node {
	obj := r.obj
	n, old := t.table.enter(e.dir, e.name, obj, func(n *node) {
		n.apart.Store(t.levels.apart(e.dir.getState(), e.name))
		l, in := t.levels.of(e, obj.IsDir()), t.levels.inside(e.dir.getState(), e.name, obj.IsDir())
		if t.copied != nil {
			n.layers = t.copied.newLayers(e, &r)
			t.lower.noteMoved(n, e.dir, e.name)
			l, in = t.levels.judge(n, e.dir, e.dir.getState(), e.name)
		}
		n.setLevel(l, in)
	})
	n.validatedAt.Store(t.clock())
	t.pinOrphan(old)
	t.kernel.pruneIfFull()
	if r.fd >= 0 {
		h := t.fds.add(n, usePath, r.fd)
		if n.isDir() && !n.watched.Load() && !n.inUpper() && !n.apart.Load() {
			t.watch.add(n, h.fd)
			// It may have changed before the watch began.
			if again, errno := t.Examine(backing.At{FD: h.fd}); errno == 0 {
				obj = again
			}
		}
		h.release()
	}
	if n.borrows() {
		t.lower.lend(n, obj)
	}
	t.attrs.fillEntry(e.dir, n, obj, out)
	return n
}
