package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Unlink removes a name that is not a directory's.
func (t *tree) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return fuse.Status(t.remove(opUnlink, in, name))
}

// Rmdir removes an empty directory. A directory with only hidden entries is not empty.
func (t *tree) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return fuse.Status(t.remove(opRmdir, in, name))
}

func (t *tree) remove(o op, in *fuse.InHeader, name string) syscall.Errno {
	isDir := o == opRmdir
	e, errno := t.entry(in.NodeId, name)
	if errno == 0 && t.removesShown(&e, isDir) {
		return t.removeShown(&e, isDir)
	}
	if errno == 0 {
		errno = t.allowName(o, in, &e, isDir)
	}
	if errno != 0 {
		return errno
	}
	t.renameMu.Lock()
	defer t.renameMu.Unlock()
	d, errno := t.acquireEntry(&e, false)
	if errno != 0 {
		return errno
	}
	defer func() { d.release() }() // as unlink leaves it
	obj, a, errno := t.statEntry(d, name)
	if errno != 0 {
		return errno // an object that the host makes there from here on has not been judged
	}
	if errno := t.judgeDir(o, in, &e, d, a, obj); errno != 0 {
		return errno
	}
	if obj.isDir() != isDir { // hidden as the other kind, perhaps
		if errno := t.allowName(o, in, &e, obj.isDir()); errno != 0 {
			return errno
		}
	}
	switch {
	case isDir && !obj.isDir():
		return syscall.ENOTDIR
	case !isDir && obj.isDir():
		return syscall.EISDIR
	}
	mirrored := t.git != nil && isDir && e.dir.getState().path >= 0 && name != gitName
	if mirrored && t.storeHas(e.dir, name) {
		return syscall.ENOTEMPTY
	}
	victim := t.openVictim(&e)
	errno = t.unlink(&d, name, obj, victim)
	if mirrored && errno == syscall.ENOTEMPTY && t.leave(&e, d) {
		errno = 0
	} else if at, bad := t.storePath(e.dir, name); mirrored && errno == 0 && bad == 0 {
		t.dropStored(at)
	}
	if errno != 0 {
		return errno
	}
	t.left(&e)
	t.changedGit(&e)
	if t.table.vanish(e.dir, name, victim) {
		t.pinOrphan(victim)
	}
	return 0
}

// openVictim opens the node at e, which is about to lose its name, so that a process that
// has it open keeps it. It returns nil if there is no node. The caller holds t.renameMu.
func (t *tree) openVictim(e *entry) *node {
	n := t.table.child(e.dir, e.name)
	if n == nil {
		return nil
	}
	if h, errno := t.acquireLocked(n, usePath); errno == 0 {
		h.release()
	}
	t.holdContent(n)
	return n
}
