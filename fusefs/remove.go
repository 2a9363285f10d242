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
	if errno == 0 {
		errno = t.allowName(o, in, &e, isDir)
	}
	if errno != 0 {
		return errno
	}
	t.ownGit(e.dir, name, true)
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
	mirror, hidden := "", false
	if t.mirrored() && isDir && e.dir.getState().path >= 0 && name != gitName {
		if mirror, errno = t.storePath(e.dir, name); errno != 0 {
			return errno
		}
		var has bool
		if has, hidden = t.storeHas(mirror); has {
			return syscall.ENOTEMPTY
		}
	}
	left, drop, errno := t.leaves(&e, d)
	if errno != 0 {
		return errno
	}
	defer drop()
	victim := t.openVictim(&e)
	errno = t.unlink(&d, name, obj, victim)
	switch {
	case errno == syscall.ENOTEMPTY && mirror != "":
		errno = t.leave(&e, d, mirror, hidden)
	case errno == 0 && mirror != "":
		t.dropStored(mirror)
	}
	if errno != 0 {
		return errno
	}
	left()
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
