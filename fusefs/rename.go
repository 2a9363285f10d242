package fusefs

import (
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
	"wolffia/perm"
)

// A renaming is one rename: both names, and the objects there.
type renaming struct {
	in       *fuse.InHeader
	from, to entry
	src, dst *backing.Object // dst is nil if to does not exist
	swap     bool

	srcAt, dstAt   backing.At // where they are
	srcOwn, dstOwn bool       // in the upper layer of a copied tree

	copyFirst []*node // nodes that must be copied to the upper layer before
	askFirst  *asked  // what a person must be asked about before
	asked     []asked // what one was asked about

	crosses bool                                  // it moves a directory to other rules, which needs t.alone
	dirs    map[backing.Identity]backing.Identity // the directories that were made for it: see transplant
}

// asked is an end of a rename that the gate refuses, and a question may allow.
type asked struct {
	dir   *node
	name  string
	isDir bool
}

// Rename moves or exchanges names. Both must be writable for the object that comes to lie there,
// and a directory moves only if the rules give the same levels to all that is or may come to be
// inside it; else its files move to a new one: see transplant. In a direct tree that counts for an
// exchange of files too, in whose place directories can be by then.
func (t *tree) Rename(_ <-chan struct{}, in *fuse.RenameIn, a, b string) fuse.Status {
	if in.Flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0 {
		return fuse.EINVAL // RENAME_WHITEOUT would make a device
	}
	r := renaming{in: &in.InHeader, swap: in.Flags&unix.RENAME_EXCHANGE != 0}
	const attempts = 8 // the host may replace the copied object, and each end may be asked about
	for range attempts {
		var errno syscall.Errno // the levels of both names are asked for anew: see splitRules
		if r.from, errno = t.entry(in.NodeId, a); errno != 0 {
			return fuse.Status(errno)
		}
		if r.to, errno = t.entry(in.Newdir, b); errno != 0 {
			return fuse.Status(errno)
		}
		t.git.ownGit(r.from.dir, a, true)
		t.git.ownGit(r.to.dir, b, true)
		rename := func() {
			t.renameMu.Lock()
			errno = t.rename(&r, in.Flags)
			t.renameMu.Unlock()
		}
		alone := r.crosses
		if alone {
			t.alone(rename)
		} else {
			rename()
		}
		if q := r.askFirst; q != nil {
			r.askFirst, r.crosses, r.asked = nil, false, append(r.asked, *q)
			e := newEntry(q.dir, q.name)
			if errno := t.gate.askName(gate.OpRename, r.in, &e, q.isDir); errno != 0 {
				return fuse.Status(errno)
			}
			continue
		}
		if len(r.copyFirst) == 0 && (alone || !r.crosses) {
			return fuse.Status(errno)
		}
		for _, n := range r.copyFirst {
			if errno := t.contents.needCopy(gate.OpRename, r.in, n); errno != 0 {
				return fuse.Status(errno)
			}
		}
		r.copyFirst = nil
	}
	return fuse.Status(syscall.EBUSY)
}

// movesDir reports whether r moves a directory.
func (r *renaming) movesDir() bool { return r.src.IsDir() || r.swap && r.dst != nil && r.dst.IsDir() }

// rename does r, or sets r.copyFirst. The caller holds t.renameMu for writing.
func (t *tree) rename(r *renaming, flags uint32) syscall.Errno {
	from, errno := t.acquireEntry(&r.from, false)
	if errno != 0 {
		return errno
	}
	defer func() { from.release() }() // as the rename leaves it
	to, errno := t.acquireEntry(&r.to, true)
	if errno != 0 {
		return errno
	}
	defer func() { to.release() }()

	// A hidden name is refused before it is looked at.
	if t.levels.hidden(&r.from) || t.levels.hidden(&r.to) {
		if errno := t.gate.allowName(gate.OpRename, r.in, &r.from, false); errno != 0 {
			return errno
		}
		return t.gate.allowName(gate.OpRename, r.in, &r.to, false)
	}
	release, errno := t.guard.claim(&r.to, to)
	if errno != 0 {
		return errno
	}
	defer release()
	if errno = t.statEntries(r, from, to); errno != 0 {
		return errno
	}
	alone := r.crosses
	if errno = t.allowRename(r, to); errno != 0 || r.crosses && !alone {
		return errno
	}
	if errno = t.checkMoving(r); errno != 0 {
		return errno
	}
	mirrored, errno := t.git.mirrors(r)
	if errno != 0 {
		return errno
	}
	left, drop, errno := t.git.leaves(&r.from, from)
	if errno != 0 {
		return errno
	}
	defer drop()
	back := t.git.lift(&r.to, to)
	victim := t.openVictim(&r.to)
	// Of two names of one file rename(2) changes nothing. The kernel renames its nodes anyway.
	same := r.dst != nil && r.dst.ID == r.src.ID
	switch {
	case t.copied != nil:
		errno = t.copied.rename(r, &from, &to, flags)
	case r.crosses:
		errno = t.transplant(r, from, to)
	default:
		errno = t.renameHost(r, from, to, flags)
	}
	if errno != 0 || r.copyFirst != nil {
		back()
		return errno
	}
	t.git.moveStored(mirrored)
	if !r.swap && !same {
		left()
	}
	if !r.swap && !same && (t.copied == nil || r.dstOwn) {
		t.Quota.Removed(victim.file(), r.dst)
	}
	if victim != nil && !victim.isDir() && t.copied != nil && !r.dstOwn && !r.swap && r.to.dir.merges() {
		victim.layers.setLowerPath(lowerPathOf(r.to.dir, r.to.name))
	}
	t.table.move(r.from.dir, r.from.name, r.to.dir, r.to.name, r.swap || same)
	t.applyRules(&r.to)
	if n := t.table.child(r.to.dir, r.to.name); n != nil && r.dirs != nil {
		t.adoptDirs(n, r.dirs)
	}
	t.git.changedGit(&r.to)
	t.git.changedGit(&r.from)
	if r.swap || same {
		t.applyRules(&r.from)
	} else {
		t.pinOrphan(victim)
	}
	return 0
}

// statEntries fills in the objects of r, whose directories are open as from and to.
func (t *tree) statEntries(r *renaming, from, to openDir) (errno syscall.Errno) {
	if r.src, r.srcAt, errno = t.statEntry(from, r.from.name); errno != 0 {
		return errno
	}
	if r.dst, r.dstAt, errno = t.statEntry(to, r.to.name); errno != 0 && errno != syscall.ENOENT {
		return errno
	}
	r.srcOwn = from.upper && r.srcAt.FD == from.fd
	r.dstOwn = r.dst != nil && to.upper && r.dstAt.FD == to.fd
	if errno = t.gate.judgeDir(gate.OpRename, r.in, &r.from, from, r.srcAt, r.src); errno == 0 && r.dst != nil {
		errno = t.gate.judgeDir(gate.OpRename, r.in, &r.to, to, r.dstAt, r.dst)
	}
	return errno
}

// allowRename asks the gate about each name with each object that exists before or after, and
// compares the levels inside directories. The directory of r.to is open as to.
func (t *tree) allowRename(r *renaming, to openDir) syscall.Errno {
	type end struct {
		*entry
		obj *backing.Object
	}
	ends := []end{{&r.from, r.src}, {&r.to, r.src}}
	if r.dst != nil {
		ends = append(ends, end{&r.to, r.dst})
		if r.swap {
			ends = append(ends, end{&r.from, r.dst})
		}
	}
	for _, e := range ends {
		q := asked{e.dir, e.name, e.obj.IsDir()}
		if _, asks := t.gate.nameDenial(gate.OpRename, r.in, e.entry, q.isDir); asks && !slices.Contains(r.asked, q) {
			r.askFirst = &q
			return syscall.EACCES
		}
		if errno := t.gate.allowName(gate.OpRename, r.in, e.entry, e.obj.IsDir()); errno != 0 {
			return errno
		}
	}
	if reason := t.guard.refuses(&r.to, to, r.src.Type()); reason != "" {
		return t.gate.deny(gate.OpRename, r.in, r.to.dir, r.to.name, perm.Write, syscall.EACCES, reason)
	}
	if errno := t.guard.allowFile(&t.gate, gate.OpRename, r.in, &r.to, r.src); errno != 0 {
		return errno
	}
	if reason := ""; r.swap && r.dst != nil {
		if errno := t.guard.allowFile(&t.gate, gate.OpRename, r.in, &r.from, r.dst); errno != 0 {
			return errno
		}
		switch {
		case t.guard.stalls(&r.from, r.dst.Type()):
			reason = stallsGit
		case t.levels.leads(r.from.dir.getState(), r.from.name, r.dst.Type()):
			reason = leadsAway
		}
		if reason != "" {
			return t.gate.deny(gate.OpRename, r.in, r.from.dir, r.from.name, perm.Write, syscall.EACCES, reason)
		}
	}
	r.crosses = (r.movesDir() || r.swap && t.copied == nil) && !t.alike(r)
	if r.crosses && !t.canTransplant(r) {
		return t.refuseMove(r)
	}
	return 0
}

// canTransplant reports whether transplant may be able to do r: the sandbox has no git directory
// below, and no other one than the host's directory moves.
func (ns *names) canTransplant(r *renaming) bool {
	a, b := ns.insideBoth(r)
	if ns.copied != nil || r.swap || r.dst != nil || a.path < 0 || a.renamed() || b.path < 0 || b.renamed() {
		return false
	}
	if !ns.git.mirrored() {
		return true
	}
	at, errno := ns.git.storePath(r.from.dir, r.from.name)
	return errno == 0 && !ns.git.mirrorAt(at)
}

// refuseMove returns EXDEV, after which mv(1) copies, name by name, and reports that. Between a
// private git directory and the working tree no rule is the reason.
func (t *tree) refuseMove(r *renaming) syscall.Errno {
	if r.from.dir.getState().path < 0 || r.to.dir.getState().path < 0 {
		return syscall.EXDEV
	}
	do := "use mv, which copies, then git add"
	if r.swap {
		do = "rename one after the other"
	}
	from := t.table.path(r.from.dir, r.from.name)
	reason := "other rules hold inside " + from + ", and it cannot change its rules as a whole: " + do
	return t.gate.deny(gate.OpRename, r.in, r.to.dir, r.to.name, perm.Write, syscall.EXDEV, reason)
}

// applyRules gives the node at e, if the kernel has one, the level of its new name. Nodes
// below a directory keep theirs: the state inside it is the same as before.
func (t *tree) applyRules(e *entry) {
	n := t.table.child(e.dir, e.name)
	if n == nil {
		return
	}
	l, in := t.levels.of(e, n.isDir()), t.levels.inside(e.dir.getState(), e.name, n.isDir())
	if t.copied != nil {
		l, in = t.levels.judge(n, e.dir, e.dir.getState(), e.name)
		t.table.mu.Lock()
		t.lower.noteMoved(n, e.dir, e.name)
		t.table.mu.Unlock()
	}
	n.apart.Store(t.levels.apart(e.dir.getState(), e.name))
	n.setLevel(l, in)
	n.validatedAt.Store(t.clock())
}
