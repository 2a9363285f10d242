package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"wolffia/perm"
)

// Lookup finds the entry called name of a directory. A hidden entry gives the
// same answer as one that does not exist.
func (t *tree) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	t.count(opLookup)
	dir, errno := t.dir(in.NodeId)
	if errno != 0 {
		return fuse.Status(errno)
	}
	if !plainName(name) {
		return fuse.EINVAL
	}
	if t.hidden(dir, name) {
		t.denied(opLookup, in, dir, name, perm.None, syscall.ENOENT)
		return t.absent(out)
	}
	t.names.RLock()
	defer t.names.RUnlock()
	h, errno := t.acquireDir(dir)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	known := t.table.child(dir, name)
	errno = t.find(in, dir, h.fd, name, out)
	if errno == syscall.ENOENT {
		if t.table.vanish(dir, name, known) {
			t.orphan(known)
		}
		return t.absent(out)
	}
	return fuse.Status(errno)
}

// hidden reports whether name is hidden in dir whatever it is.
func (t *tree) hidden(dir *node, name string) bool {
	s := dir.getState()
	return t.rules.Child(s, name, false) == perm.None && t.rules.Child(s, name, true) == perm.None
}

// absent says that there is no such name, and for how long that holds.
func (t *tree) absent(out *fuse.EntryOut) fuse.Status {
	*out = fuse.EntryOut{}
	out.SetEntryTimeout(t.timeout)
	return fuse.OK
}

// find looks the entry called name of dir up, which is open as fd, and gives
// the kernel a node for it. t.names is held.
func (t *tree) find(in *fuse.InHeader, dir *node, fd int, name string, out *fuse.EntryOut) syscall.Errno {
	obj, errno := t.examine(at{fd, name})
	if errno != 0 {
		return errno
	}
	if errno := t.allowName(opLookup, in, dir, name, obj.isDir()); errno != 0 {
		return errno
	}
	if obj.isMount() {
		return syscall.EACCES // another file system is another matter
	}
	t.enter(dir, name, obj, out)
	return 0
}

// enter gives the kernel a node for obj, found as the entry called name of
// dir, and fills in the reply.
func (t *tree) enter(dir *node, name string, obj *object, out *fuse.EntryOut) *node {
	n, old := t.table.enter(dir, name, obj, func(n *node) {
		s := dir.getState()
		n.setVerdict(t.rules.Child(s, name, obj.isDir()), t.inside(s, name, obj.isDir()))
	})
	n.seen.Store(t.clock())
	t.orphan(old)
	t.fillEntry(n, obj, out)
	return n
}

// inside returns the state inside the entry called name in a directory of
// state s.
func (t *tree) inside(s perm.State, name string, isDir bool) perm.State {
	if !isDir {
		return s // never asked for
	}
	return t.rules.Enter(s, name)
}

// orphan keeps what is open of a node that lost its name, since nothing leads
// to it any more. n may be nil.
func (t *tree) orphan(n *node) {
	if n != nil {
		t.fds.pin(n, usePath)
	}
}
