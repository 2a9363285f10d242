package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/perm"
)

// The object that the rules judged may be another one by the time of the rename: another sandbox
// over the codebase can exchange two names that its rules treat alike, and so put a directory in
// the place of a file. So no tree server moves a directory between places that the rules treat
// differently, whenever that happens: a server of the same rules would continue to use it by the
// rules of its former place. A directory can get another one in the other place: see transplant.

// alike reports whether the rules treat the two names of r alike, for any object. In a copied
// tree, whose upper layer only this server changes, only the rules inside a directory count.
func (t *tree) alike(r *renaming) bool {
	a, b, lv := &r.from, &r.to, &t.levels
	return lv.inside(a.dir.getState(), a.name, true).path == lv.inside(b.dir.getState(), b.name, true).path &&
		(t.copied != nil || lv.of(a, false) == lv.of(b, false) && lv.of(a, true) == lv.of(b, true))
}

// renameHost does r, which is allowed, in a direct tree, whose directories are open as from and
// to. The caller holds t.renameMu for writing.
func (t *tree) renameHost(r *renaming, from, to openDir, flags uint32) syscall.Errno {
	mayBecomeDir := t.levels.of(&r.from, true) == perm.Write // another sandbox could have one there
	switch {
	case r.swap || r.src.IsDir() || !mayBecomeDir || t.alike(r):
		return backing.Errno(unix.Renameat2(from.fd, r.from.name, to.fd, r.to.name, uint(flags)))
	case r.dst != nil && flags&unix.RENAME_NOREPLACE != 0:
		return syscall.EEXIST
	case r.dst != nil && r.dst.ID == r.src.ID:
		return 0 // as rename(2)
	}
	// Under a name of the server's own, which no sandbox can use, it stays the same object.
	tmp := backing.TempName()
	if err := unix.Renameat(from.fd, r.from.name, from.fd, tmp); err != nil {
		return backing.Errno(err)
	}
	o, errno := t.Stat(backing.At{FD: from.fd, Name: tmp})
	if errno == 0 && o.ID != r.src.ID {
		errno = syscall.ESTALE // the kernel looks the name up, and asks again
	}
	if errno == 0 {
		errno = backing.Errno(unix.Renameat2(from.fd, tmp, to.fd, r.to.name, uint(flags)))
	}
	if errno == 0 {
		_ = unix.Unlinkat(from.fd, tmp, 0) // it is still there if r.to has just become a name of the same file
		return 0
	}
	t.giveBack(backing.At{FD: from.fd, Name: tmp}, from.fd, &r.from)
	return errno
}

// giveBack gives what is at tmp its name e back, of the directory fd.
func (ns *names) giveBack(tmp backing.At, fd int, e *entry) {
	err := unix.Renameat2(tmp.FD, tmp.Name, fd, e.name, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL { // the file system knows no flags
		err = unix.Renameat(tmp.FD, tmp.Name, fd, e.name)
	}
	if err != nil {
		ns.Logger.Error("give a file its name back", "name", ns.table.path(e.dir, e.name), "is", tmp.Name, "error", err)
	}
}
