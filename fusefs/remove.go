package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// Unlink removes a name that is not a directory's.
func (t *tree) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return t.remove(opUnlink, in, name, false)
}

// Rmdir removes an empty directory. One that holds hidden entries only is not
// empty.
func (t *tree) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return t.remove(opRmdir, in, name, true)
}

func (t *tree) remove(o op, in *fuse.InHeader, name string, isDir bool) fuse.Status {
	t.count(o)
	dir, errno := t.dir(in.NodeId)
	if errno != 0 {
		return fuse.Status(errno)
	}
	if !plainName(name) {
		return fuse.EINVAL
	}
	if _, errno := t.allowName(o, in, dir, name, isDir); errno != 0 {
		return fuse.Status(errno)
	}
	t.renameMu.Lock()
	defer t.renameMu.Unlock()
	h, errno := t.acquireDir(dir)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	// What is there may be of the other kind, and that one be hidden.
	obj, errno := t.stat(fdName{h.fd, name})
	if errno != 0 {
		return fuse.Status(errno) // what somebody makes there from here on is not what was judged
	}
	if obj.isDir() != isDir {
		if _, errno := t.allowName(o, in, dir, name, obj.isDir()); errno != 0 {
			return fuse.Status(errno)
		}
	}
	checked := t.rules.Child(dir.getState(), name, obj.isDir()) == perm.Checked
	if checked && !t.created.has(fdName{h.fd, name}, obj) || t.essential(dir, name, obj) {
		return fuse.Status(t.deny(o, in, dir, name, perm.Checked, syscall.EACCES, madeOutside))
	}
	flags := 0
	if isDir {
		flags = unix.AT_REMOVEDIR
	}
	victim := t.openVictim(dir, name)
	if err := unix.Unlinkat(h.fd, name, flags); err != nil {
		return fuse.Status(errnoOf(err))
	}
	t.quota.removed(victim, obj)
	t.created.drop(obj)
	if t.table.vanish(dir, name, victim) {
		t.pinOrphan(victim)
	}
	return fuse.OK
}

// openVictim opens the node at (dir, name), which is about to lose its name, so
// that whoever has it open keeps it. It returns nil if there is none. t.renameMu
// is held.
func (t *tree) openVictim(dir *node, name string) *node {
	n := t.table.child(dir, name)
	if n == nil {
		return nil
	}
	if h, errno := t.acquireLocked(n, usePath); errno == 0 {
		h.release()
	}
	return n
}
