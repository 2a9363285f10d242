package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// A renaming is one rename: both names, and the objects there.
type renaming struct {
	in       *fuse.InHeader
	from, to entry
	src, dst *object // dst is nil if to does not exist
	swap     bool
}

// Rename moves or exchanges names. Both must be writable for the object that comes to lie
// there, and a directory moves only if the rules give the same levels to all that is or may
// come to be inside it.
func (t *tree) Rename(_ <-chan struct{}, in *fuse.RenameIn, a, b string) fuse.Status {
	if in.Flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0 {
		return fuse.EINVAL // RENAME_WHITEOUT would make a device
	}
	r := renaming{in: &in.InHeader, swap: in.Flags&unix.RENAME_EXCHANGE != 0}
	var errno syscall.Errno
	if r.from, errno = t.entry(in.NodeId, a); errno != 0 {
		return fuse.Status(errno)
	}
	if r.to, errno = t.entry(in.Newdir, b); errno != 0 {
		return fuse.Status(errno)
	}
	t.renameMu.Lock()
	defer t.renameMu.Unlock()
	return fuse.Status(t.rename(&r, in.Flags))
}

// rename does r. The caller holds t.renameMu for writing.
func (t *tree) rename(r *renaming, flags uint32) syscall.Errno {
	from, errno := t.acquireDir(r.from.dir)
	if errno != 0 {
		return errno
	}
	defer from.release()
	to, errno := t.acquireDir(r.to.dir)
	if errno != 0 {
		return errno
	}
	defer to.release()

	// A hidden name is refused before it is looked at.
	if t.hidden(&r.from) || t.hidden(&r.to) {
		if errno := t.allowName(opRename, r.in, &r.from, false); errno != 0 {
			return errno
		}
		return t.allowName(opRename, r.in, &r.to, false)
	}
	if r.src, errno = t.stat(fdName{from.fd, r.from.name}); errno != 0 {
		return errno
	}
	if r.dst, errno = t.stat(fdName{to.fd, r.to.name}); errno != 0 && errno != syscall.ENOENT {
		return errno
	}
	replaced, errno := t.allowRename(r, from.fd, to.fd)
	if errno != 0 {
		return errno
	}
	if replaced != nil {
		return t.put(r, replaced, from.fd, to.fd)
	}
	victim := t.openVictim(&r.to)
	if r.dst == nil && t.level(&r.to, r.src.isDir()) == perm.Checked {
		flags |= unix.RENAME_NOREPLACE // a file that the host has just made could be git's lock
	}
	if err := unix.Renameat2(from.fd, r.from.name, to.fd, r.to.name, uint(flags)); err != nil {
		return errnoOf(err)
	}
	// Of two names of one file rename(2) changes nothing. The kernel renames its nodes anyway.
	same := r.dst != nil && r.dst.ident == r.src.ident
	if !r.swap && !same {
		t.quota.removed(victim, r.dst)
	}
	t.table.move(r.from.dir, r.from.name, r.to.dir, r.to.name, r.swap || same)
	t.applyRules(&r.to)
	if r.swap || same {
		t.applyRules(&r.from)
	} else {
		t.pinOrphan(victim)
	}
	if !same {
		t.created.remove(r.dst)
		if !r.src.isDir() && t.level(&r.to, false) == perm.Write {
			t.created.remove(r.src) // index.lock is the index now
		}
	}
	return 0
}

// allowRename asks the gate about each name with each object that is there before or after,
// compares what holds inside directories, and has checked files decided by allowChecked. It
// returns the replacement to do instead of the rename, nil to do the rename. The directories
// are open as from and to.
func (t *tree) allowRename(r *renaming, from, to int) (*replacement, syscall.Errno) {
	type end struct {
		*entry
		obj *object
	}
	ends := []end{{&r.from, r.src}, {&r.to, r.src}}
	if r.dst != nil {
		ends = append(ends, end{&r.to, r.dst})
		if r.swap {
			ends = append(ends, end{&r.from, r.dst})
		}
	}
	var checked *entry
	for _, e := range ends {
		if errno := t.allowName(opRename, r.in, e.entry, e.obj.isDir()); errno != 0 {
			return nil, errno
		}
		if t.level(e.entry, e.obj.isDir()) == perm.Checked {
			checked = e.entry
		}
	}
	refuse := func(e *entry, why string) (*replacement, syscall.Errno) {
		return nil, t.deny(opRename, r.in, e.dir, e.name, perm.Checked, syscall.EACCES, why)
	}
	movesDir := r.src.isDir() || r.swap && r.dst != nil && r.dst.isDir()
	switch {
	case t.mustStay(&r.from, r.src):
		return refuse(&r.from, createdOutside)
	case r.dst != nil && (r.swap || r.dst.isDir()) && t.mustStay(&r.to, r.dst):
		return refuse(&r.to, createdOutside)
	case r.dst == nil && t.completes(&r.to, to):
		return refuse(&r.to, becomesGit)
	case checked == nil && movesDir && t.inside(r.from.dir.getState(), r.from.name, true) != t.inside(r.to.dir.getState(), r.to.name, true):
		return nil, syscall.EXDEV // mv(1) then copies, name by name
	case checked == nil:
		return nil, 0
	}
	replaced, err := t.allowChecked(r, from, to)
	if err != nil {
		if errno, ok := err.(syscall.Errno); ok && errno != syscall.EACCES {
			return nil, errno
		}
		return refuse(checked, err.Error())
	}
	return replaced, 0
}

// applyRules gives the node at e, if the kernel has one, the level of its new name. Nodes
// below a directory keep theirs: the state inside it is the same as before.
func (t *tree) applyRules(e *entry) {
	if n := t.table.child(e.dir, e.name); n != nil {
		n.setLevel(t.level(e, n.isDir()), t.inside(e.dir.getState(), e.name, n.isDir()))
		n.validatedAt.Store(t.clock())
	}
}
