package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
)

// Unlink removes a name that is not a directory's.
func (t *tree) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return fuse.Status(t.remove(gate.OpUnlink, in, name))
}

// Rmdir removes an empty directory. A directory with only hidden entries is not empty.
func (t *tree) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return fuse.Status(t.remove(gate.OpRmdir, in, name))
}

func (t *tree) remove(o gate.Op, in *fuse.InHeader, name string) syscall.Errno {
	isDir := o == gate.OpRmdir
	e, errno := t.entry(in.NodeId, name)
	if errno == 0 {
		errno = t.gate.askName(o, in, &e, isDir)
	}
	if errno == 0 {
		errno = t.gate.allowName(o, in, &e, isDir)
	}
	if errno != 0 {
		return errno
	}
	t.git.ownGit(e.dir, name, true)
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
	if errno := t.gate.judgeDir(o, in, &e, d, a, obj); errno != 0 {
		return errno
	}
	if obj.IsDir() != isDir { // hidden as the other kind, perhaps
		if errno := t.gate.allowName(o, in, &e, obj.IsDir()); errno != 0 {
			return errno
		}
	}
	switch {
	case isDir && !obj.IsDir():
		return syscall.ENOTDIR
	case !isDir && obj.IsDir():
		return syscall.EISDIR
	}
	mirror, hidden := "", false
	if t.git.mirrored() && isDir && e.dir.getState().path >= 0 && name != gitName {
		if mirror, errno = t.git.storePath(e.dir, name); errno != 0 {
			return errno
		}
		var has bool
		if has, hidden = t.git.storeHas(mirror); has {
			return syscall.ENOTEMPTY
		}
	}
	left, drop, errno := t.git.leaves(&e, d)
	if errno != 0 {
		return errno
	}
	defer drop()
	victim := t.openVictim(&e)
	errno = t.unlink(&d, name, obj, victim)
	switch {
	case errno == syscall.ENOTEMPTY && mirror != "":
		errno = t.git.markRemoved(&e, d, mirror, hidden)
	case errno == 0 && mirror != "":
		t.git.dropStored(mirror)
	}
	if errno != 0 {
		return errno
	}
	left()
	t.git.changedGit(&e)
	if t.table.vanish(e.dir, name, victim) {
		t.pinOrphan(victim)
	}
	return 0
}

// unlink removes the object o, which is at the entry called name of d and whose node is victim, or
// nil. The caller holds t.renameMu for writing.
func (t *tree) unlink(d *openDir, name string, o *backing.Object, victim *node) syscall.Errno {
	if t.copied != nil {
		return t.copied.unlink(d, name, o, victim)
	}
	flags := 0
	if o.IsDir() {
		flags = unix.AT_REMOVEDIR
	}
	if err := unix.Unlinkat(d.fd, name, flags); err != nil {
		return backing.Errno(err)
	}
	t.Quota.Removed(victim.file(), o)
	return 0
}
