package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

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
		return t.absent(dir, out)
	}
	t.renameMu.RLock()
	defer t.renameMu.RUnlock()
	h, errno := t.acquireDir(dir)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	known := t.table.child(dir, name)
	errno = t.find(in, dir, h.fd, name, out)
	if errno == syscall.ENOENT {
		if t.table.vanish(dir, name, known) {
			t.pinOrphan(known)
		}
		return t.absent(dir, out)
	}
	return fuse.Status(errno)
}

// hidden reports whether name is hidden in dir whatever it is.
func (t *tree) hidden(dir *node, name string) bool {
	s := dir.getState()
	return t.rules.Child(s, name, false) == perm.None && t.rules.Child(s, name, true) == perm.None
}

// absent says that there is no such name, and for how long that holds.
func (t *tree) absent(dir *node, out *fuse.EntryOut) fuse.Status {
	*out = fuse.EntryOut{}
	timeout := t.nameTimeout(dir)
	if dir.id == rootID && !t.dev.epochs {
		timeout = min(t.timeout, rootAbsence) // these are forgotten in no other way
		t.rootAbsent.Store(t.clock())
	}
	out.SetEntryTimeout(timeout)
	return fuse.OK
}

// find looks the entry called name of dir up, which is open as fd, and gives
// the kernel a node for it. t.renameMu is held.
func (t *tree) find(in *fuse.InHeader, dir *node, fd int, name string, out *fuse.EntryOut) syscall.Errno {
	m, errno := t.lookupEntry(dir, fd, name)
	if errno != 0 {
		return errno
	}
	l, errno := t.allowName(opLookup, in, dir, name, m.obj.isDir())
	if errno == 0 && m.obj.isMount() {
		errno = syscall.EACCES // another file system is another matter
	}
	if errno != 0 {
		m.drop()
		return errno
	}
	t.enter(dir, name, m, l, out)
	return 0
}

// A lookupResult is what was found at a name.
type lookupResult struct {
	obj *object
	fd  int // O_PATH, of the object; -1 if it was not opened
}

// drop closes what is not used.
func (m lookupResult) drop() {
	if m.fd >= 0 {
		unix.Close(m.fd)
	}
}

// lookupEntry looks at the entry called name of dir, which is open as fd. Where the
// kernel will believe it for long it is opened as well: the kernel opens files
// without asking, and when they are first used the name may be another's.
func (t *tree) lookupEntry(dir *node, fd int, name string) (lookupResult, syscall.Errno) {
	if !dir.watched.Load() {
		obj, errno := t.examine(fdName{fd, name})
		return lookupResult{obj, -1}, errno
	}
	if obj := t.cachedEntry(dir, fd, name); obj != nil {
		t.tryAccess(fdName{fd, name}, obj)
		return lookupResult{obj, -1}, 0
	}
	path, errno := openBeneath(fd, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		if errno == syscall.EXDEV {
			errno = syscall.EACCES
		}
		return lookupResult{fd: -1}, errno
	}
	obj, errno := t.examine(fdName{fd: path})
	if errno != 0 {
		unix.Close(path)
		return lookupResult{fd: -1}, errno
	}
	return lookupResult{obj, path}, 0
}

// cachedEntry returns what is at (dir, name) if that is known, open, and still there.
func (t *tree) cachedEntry(dir *node, fd int, name string) *object {
	n := t.table.child(dir, name)
	if n == nil {
		return nil
	}
	h := t.fds.anyOf(n)
	if h == nil {
		return nil
	}
	defer h.release()
	obj, errno := t.stat(fdName{fd, name})
	if errno != 0 || obj.ident != n.ident() {
		return nil
	}
	return obj
}

// enter gives the kernel a node for m of level l, found as the entry called
// name of dir, and fills in the reply. It takes what is open.
func (t *tree) enter(dir *node, name string, m lookupResult, l perm.Level, out *fuse.EntryOut) *node {
	obj := m.obj
	n, old := t.table.enter(dir, name, obj, func(n *node) {
		n.setLevel(l, t.inside(dir.getState(), name, obj.isDir()))
	})
	n.validatedAt.Store(t.clock())
	t.pinOrphan(old)
	t.pruneIfFull()
	if m.fd >= 0 {
		h := t.fds.add(n, usePath, m.fd)
		if n.isDir() && !n.watched.Load() {
			t.watch.add(n, h.fd)
			// It may have changed just before.
			if again, errno := t.examine(fdName{fd: h.fd}); errno == 0 {
				obj = again
			}
		}
		h.release()
	}
	t.fillEntry(dir, n, obj, out)
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

// pinOrphan keeps what is open of a node that lost its name, since nothing leads
// to it any more. n may be nil.
func (t *tree) pinOrphan(n *node) {
	if n != nil {
		t.fds.pin(n, usePath)
	}
}
