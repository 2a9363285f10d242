package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// A renaming is one rename: both ends, and what is there.
type renaming struct {
	in       *fuse.InHeader
	from, to *node
	a, b     string // the names in from and to
	src, dst *object
	swap     bool
}

// Rename moves or exchanges names. Both ends must be writable for what comes
// to lie there, and a directory moves only if the rules say the same of all
// that is or may come to be inside it.
func (t *tree) Rename(_ <-chan struct{}, in *fuse.RenameIn, a, b string) fuse.Status {
	t.count(opRename)
	if in.Flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0 {
		return fuse.EINVAL // RENAME_WHITEOUT would make a device
	}
	r := renaming{in: &in.InHeader, a: a, b: b, swap: in.Flags&unix.RENAME_EXCHANGE != 0}
	var errno syscall.Errno
	if r.from, errno = t.dir(in.NodeId); errno != 0 {
		return fuse.Status(errno)
	}
	if r.to, errno = t.dir(in.Newdir); errno != 0 {
		return fuse.Status(errno)
	}
	if !plainName(a) || !plainName(b) {
		return fuse.EINVAL
	}
	t.renameMu.Lock()
	defer t.renameMu.Unlock()
	return fuse.Status(t.rename(&r, in.Flags))
}

// rename does r. t.renameMu is held for writing.
func (t *tree) rename(r *renaming, flags uint32) syscall.Errno {
	from, errno := t.acquireDir(r.from)
	if errno != 0 {
		return errno
	}
	defer from.release()
	to, errno := t.acquireDir(r.to)
	if errno != 0 {
		return errno
	}
	defer to.release()

	// Nothing is looked at before the gate allowed a look.
	if t.hidden(r.from, r.a) || t.hidden(r.to, r.b) {
		return t.refuseNames(r)
	}
	if r.src, errno = t.stat(fdName{from.fd, r.a}); errno != 0 {
		return errno
	}
	if r.dst, errno = t.stat(fdName{to.fd, r.b}); errno != 0 && errno != syscall.ENOENT {
		return errno
	}
	replaced, errno := t.allowRename(r, from.fd, to.fd)
	if errno != 0 {
		return errno
	}
	if replaced != nil {
		return t.put(r, replaced, from.fd, to.fd)
	}
	victim := t.openVictim(r.to, r.b)
	if r.dst == nil && t.rules.Child(r.to.getState(), r.b, r.src.isDir()) == perm.Checked {
		flags |= unix.RENAME_NOREPLACE // not what somebody outside has made just now: it could be git's lock
	}
	if err := unix.Renameat2(from.fd, r.a, to.fd, r.b, uint(flags)); err != nil {
		return errnoOf(err)
	}
	if r.dst != nil && r.dst.ident == r.src.ident {
		// Two names of one file: rename does nothing to them. The kernel does what it
		// always does to what it knows by them.
		t.table.move(r.from, r.a, r.to, r.b, true)
		t.applyRules(r.to, r.b)
		t.applyRules(r.from, r.a)
		return 0
	}
	if !r.swap {
		t.quota.removed(victim, r.dst)
	}
	t.table.move(r.from, r.a, r.to, r.b, r.swap)
	t.applyRules(r.to, r.b)
	t.created.drop(r.dst)
	if t.rules.Child(r.to.getState(), r.b, r.src.isDir()) == perm.Write && !r.src.isDir() {
		t.created.drop(r.src) // index.lock is the index now
	}
	if r.swap {
		t.applyRules(r.from, r.a)
	} else {
		t.pinOrphan(victim)
	}
	return 0
}

// refuseNames refuses r because one of the names is hidden whatever it is.
func (t *tree) refuseNames(r *renaming) syscall.Errno {
	if _, errno := t.allowName(opRename, r.in, r.from, r.a, false); errno != 0 {
		return errno
	}
	_, errno := t.allowName(opRename, r.in, r.to, r.b, false)
	return errno
}

// allowRename asks the gate about each name with each object that is there
// before or after, compares what holds inside directories, and has what git
// acts upon checked. It returns what takes the place of the rename, nil if nothing
// does. The directories are open as from and to.
func (t *tree) allowRename(r *renaming, from, to int) (*replacement, syscall.Errno) {
	type end struct {
		dir  *node
		name string
		obj  *object
	}
	ends := []end{{r.from, r.a, r.src}, {r.to, r.b, r.src}}
	if r.dst != nil {
		ends = append(ends, end{r.to, r.b, r.dst})
		if r.swap {
			ends = append(ends, end{r.from, r.a, r.dst})
		}
	}
	checked := -1 // of ends
	for i, e := range ends {
		l, errno := t.allowName(opRename, r.in, e.dir, e.name, e.obj.isDir())
		if errno != 0 {
			return nil, errno
		}
		if l == perm.Checked {
			checked = i
		}
	}
	moved := r.src.isDir() || r.swap && r.dst != nil && r.dst.isDir()
	refuse := func(dir *node, name, why string) (*replacement, syscall.Errno) {
		return nil, t.deny(opRename, r.in, dir, name, perm.Checked, syscall.EACCES, why)
	}
	switch {
	case t.stays(r.from, r.a, r.src):
		return refuse(r.from, r.a, madeOutside)
	case r.dst != nil && (r.swap || r.dst.isDir()) && t.stays(r.to, r.b, r.dst):
		return refuse(r.to, r.b, madeOutside)
	case r.dst == nil && t.completes(r.to, to, r.b):
		return refuse(r.to, r.b, becomesGit)
	case checked < 0 && moved && t.rules.Enter(r.from.getState(), r.a) != t.rules.Enter(r.to.getState(), r.b):
		return nil, syscall.EXDEV // mv then copies, name by name
	case checked < 0:
		return nil, 0
	}
	replaced, err := t.allowChecked(r, from, to)
	if err != nil {
		if errno, ok := err.(syscall.Errno); ok && errno != syscall.EACCES {
			return nil, errno
		}
		return refuse(ends[checked].dir, ends[checked].name, err.Error())
	}
	return replaced, 0
}

// applyRules gives the node at (dir, name) what the rules say of its new name.
// What is below a directory needs none: its state stays the same.
func (t *tree) applyRules(dir *node, name string) {
	if n := t.table.child(dir, name); n != nil {
		s := dir.getState()
		n.setLevel(t.rules.Child(s, name, n.isDir()), t.inside(s, name, n.isDir()))
		n.validatedAt.Store(t.clock())
	}
}
