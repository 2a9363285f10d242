package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
	"wolffia/internal/git/gitguard"
	"wolffia/internal/sys/beneath"
	"wolffia/perm"
)

// newName is the common part of all operations that make a name. The gate decides by the name
// alone, so its answer does not tell whether the name exists. do makes the entry, an object of the
// type backing.Type, whose directory is open as d, and fills in the reply.
func (t *tree) newName(o gate.Op, in *fuse.InHeader, name string, typ uint32, do func(e *entry, d *openDir) syscall.Errno) fuse.Status {
	e, errno := t.entry(in.NodeId, name)
	if errno == 0 {
		errno = t.gate.askName(o, in, &e, typ == unix.S_IFDIR)
	}
	if errno == 0 {
		errno = t.gate.allowName(o, in, &e, typ == unix.S_IFDIR)
	}
	if errno != 0 {
		return fuse.Status(errno)
	}
	t.git.ownGit(e.dir, name, true)
	// Two names at once could complete a git directory, or lift one whiteout; and only one may
	// make an upper half.
	if gitguard.Essential(name) || t.git != nil && name == gitName || t.copied != nil && !e.dir.inUpper() {
		t.renameMu.Lock()
		defer t.renameMu.Unlock()
	} else {
		t.renameMu.RLock()
		defer t.renameMu.RUnlock()
	}
	d, errno := t.acquireEntry(&e, true)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer func() { d.release() }() // as do leaves it
	release, errno := t.guard.claim(&e, d)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer release()
	if reason := t.guard.refuses(&e, d, typ); reason != "" {
		return fuse.Status(t.gate.deny(o, in, e.dir, name, perm.Write, syscall.EACCES, reason))
	}
	if t.copied != nil {
		e.dir.layers.mu.Lock()
		defer e.dir.layers.mu.Unlock()
	}
	if o == gate.OpMkdir && t.git.isRemovedDir(d.fd, e.dir, name) {
		t.git.recreate(&e, d)
	}
	back := t.git.lift(&e, d)
	errno = do(&e, &d)
	if errno != 0 {
		back()
	}
	if errno == syscall.EEXIST {
		errno = t.taken(o, in, &e, d)
	} else if errno == 0 {
		t.git.changedGit(&e)
	}
	return fuse.Status(errno)
}

// make makes name in d if the quota has room, by calling create with a directory and a name. In a
// copied tree d has an upper half afterwards.
func (t *tree) make(d *openDir, name string, isDir bool, create func(dir int, name string) syscall.Errno) syscall.Errno {
	if errno := t.Quota.Reserve(backing.ObjectCost); errno != 0 {
		if _, _, absent := t.statEntry(*d, name); absent == 0 {
			return syscall.EEXIST
		}
		return errno
	}
	var errno syscall.Errno
	if t.copied == nil {
		errno = create(d.fd, name)
	} else {
		errno = t.copied.makeUpper(d, name, isDir, create)
	}
	if errno != 0 {
		t.Quota.Release(backing.ObjectCost)
	}
	return errno
}

// taken returns the errno for e, which turned out to exist: EACCES if it is hidden.
func (t *tree) taken(o gate.Op, in *fuse.InHeader, e *entry, d openDir) syscall.Errno {
	obj, _, errno := t.statEntry(d, e.name)
	if errno == 0 && t.levels.of(e, obj.IsDir()) == perm.None {
		return t.gate.deny(o, in, e.dir, e.name, perm.None, syscall.EACCES, "")
	}
	return syscall.EEXIST
}

// Mknod makes a file, FIFO or socket. Devices are refused.
func (t *tree) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	typ := in.Mode & unix.S_IFMT
	switch typ {
	case 0:
		typ = unix.S_IFREG
	case unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK:
	default:
		if dir := t.table.get(in.NodeId); dir != nil {
			t.gate.deny(gate.OpMknod, &in.InHeader, dir, name, perm.Write, syscall.EPERM, "")
		}
		return fuse.EPERM
	}
	return t.makeWithMode(gate.OpMknod, &in.InHeader, name, in.Mode, out, func(dir int, name string, mode uint32) error {
		return unix.Mknodat(dir, name, typ|mode, 0)
	})
}

// Mkdir makes a directory.
func (t *tree) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return t.makeWithMode(gate.OpMkdir, &in.InHeader, name, in.Mode, out, unix.Mkdirat)
}

// makeWithMode makes a name with the permission bits of mode, which has the type of a FIFO. It
// calls create with the directory and the name to use.
func (t *tree) makeWithMode(o gate.Op, in *fuse.InHeader, name string, mode uint32, out *fuse.EntryOut, create func(dir int, name string, mode uint32) error) fuse.Status {
	typ := mode & unix.S_IFMT
	if o == gate.OpMkdir {
		typ = unix.S_IFDIR
	}
	mode &= 0o7777 &^ backing.SetIDBits
	return t.newName(o, in, name, typ, func(e *entry, d *openDir) syscall.Errno {
		made := mode
		if t.copied != nil && o == gate.OpMkdir {
			made |= 0o700 // it is moved from the work directory
		}
		errno := t.make(d, name, o == gate.OpMkdir, func(dir int, name string) syscall.Errno {
			return backing.Errno(create(dir, name, made))
		})
		if errno == syscall.EEXIST && e.recreated {
			errno = 0
		}
		if errno != 0 {
			return errno
		}
		if mode&t.Umask != 0 || made != mode || e.recreated {
			t.RestoreMode(d.fd, name, mode)
		}
		_, errno = t.find(in, e, *d, nil, out)
		return errno
	})
}

// Symlink makes a symbolic link, which the server never follows.
func (t *tree) Symlink(_ <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return t.newName(gate.OpSymlink, in, name, unix.S_IFLNK, func(e *entry, d *openDir) syscall.Errno {
		errno := t.make(d, name, false, func(dir int, name string) syscall.Errno {
			return backing.Errno(unix.Symlinkat(target, dir, name))
		})
		if errno == 0 {
			_, errno = t.find(in, e, *d, nil, out)
		}
		return errno
	})
}

// Link gives a file another name. It needs Write for both names: a read-only file could
// otherwise be written by its new one.
func (t *tree) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	if n := t.table.get(in.Oldnodeid); n != nil {
		if parent, _ := t.table.place(n); parent != nil && parent.getState().path == inHosts {
			return fuse.Status(syscall.EXDEV) // as git-lfs tries, which copies then
		}
	}
	src, errno := t.gate.allowed(gate.OpLinkFrom, &in.InHeader, in.Oldnodeid)
	if errno != 0 {
		return fuse.Status(errno)
	}
	if src.isDir() {
		return fuse.EPERM
	}
	if errno := t.contents.needCopy(gate.OpLinkFrom, &in.InHeader, src); errno != 0 {
		return fuse.Status(errno)
	}
	return t.newName(gate.OpLink, &in.InHeader, name, src.typ, func(e *entry, d *openDir) syscall.Errno {
		if src.apart.Load() != t.levels.apart(e.dir.getState(), name) {
			return syscall.EXDEV // private and host's objects are different files
		}
		h, errno := t.acquireLocked(src, usePath)
		if errno != 0 {
			return errno
		}
		defer h.release()
		if t.guard.isRead(e.dir, name) {
			var o *backing.Object
			if o, errno = t.Stat(backing.At{FD: h.fd}); errno == 0 {
				errno = t.guard.allowFile(&t.gate, gate.OpLink, &in.InHeader, e, o)
			}
			if errno != 0 {
				return errno
			}
		}
		errno = t.make(d, name, false, func(dir int, name string) syscall.Errno { return t.LinkFD(h.fd, dir, name) })
		if errno == 0 {
			if !src.apart.Load() {
				t.links.Add(1)
			}
			t.table.alias(src)
			var n *node
			if n, errno = t.find(&in.InHeader, e, *d, nil, out); errno == 0 && n.layers != nil {
				out.Ino = src.layers.ino.Load()
				out.Attr.Ino = out.Ino
				n.layers.ino.Store(out.Ino)
			}
		}
		return errno
	})
}

// Readlink returns the target of a symbolic link.
func (t *tree) Readlink(_ <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	n, errno := t.gate.allowed(gate.OpReadlink, in, in.NodeId)
	if errno != 0 {
		return nil, fuse.Status(errno)
	}
	if n.typ != unix.S_IFLNK {
		return nil, fuse.EINVAL
	}
	h, errno := t.acquire(n, usePath)
	if errno != 0 {
		return nil, fuse.Status(errno)
	}
	defer h.release()
	target, err := beneath.Readlink(h.fd, "")
	if err != nil {
		return nil, fuse.Status(backing.Errno(err))
	}
	return []byte(target), fuse.OK
}

// Create makes a file and opens it. Without O_EXCL it opens a file that exists.
func (t *tree) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH
	return t.newName(gate.OpCreate, &in.InHeader, name, unix.S_IFREG, func(e *entry, d *openDir) syscall.Errno {
		mode := in.Mode & 0o7777 &^ backing.SetIDBits
		file := -1
		errno := t.make(d, name, false, func(dir int, name string) (errno syscall.Errno) {
			file, errno = backing.OpenBeneath(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode)
			return errno
		})
		if errno == syscall.EEXIST && in.Flags&unix.O_EXCL == 0 {
			return t.openExisting(in, e, *d, out)
		}
		if errno != 0 {
			lookupResult{fd: file}.close()
			return errno
		}
		if mode&t.Umask != 0 {
			errno = backing.Errno(unix.Fchmod(file, mode))
		}
		var obj *backing.Object
		if errno == 0 {
			obj, errno = t.Examine(backing.At{FD: file})
		}
		if errno != 0 {
			unix.Close(file)
			return errno
		}
		n := t.enter(e, lookupResult{obj: obj, fd: -1, upper: d.upper}, &out.EntryOut)
		h := t.fds.add(n, useWrite, file)
		defer h.release()
		if mode&0o600 != 0o600 {
			t.fds.prefer(n)
		}
		return 0
	})
}

// openExisting opens a file that the kernel expects to be created, so that the kernel has
// not checked its mode.
func (t *tree) openExisting(in *fuse.CreateIn, e *entry, d openDir, out *fuse.CreateOut) syscall.Errno {
	l := t.gate.asks.level(&in.InHeader, func() string { return t.table.path(e.dir, e.name) }, t.levels.of(e, false))
	a, errno := t.locate(d, e.name)
	if errno != 0 {
		return errno
	}
	hosts := t.copied != nil && !(d.upper && a.FD == d.fd)
	if obj, errno := t.Examine(a); errno != 0 || obj.Type() != unix.S_IFREG {
		return syscall.EEXIST // the kernel opens an object that is not a regular file without asking
	} else if in.Flags&unix.O_TRUNC != 0 && (obj.Nlink > 1 || hosts) {
		return syscall.ESTALE // the kernel looks it up again, and asks for open and truncate apart
	} else if want := wanted(in.Flags); t.attrs.mode(obj, l, states{})>>6&want != want {
		return syscall.EACCES
	}
	n, errno := t.find(&in.InHeader, e, d, t.table.child(e.dir, e.name), &out.EntryOut)
	if errno != 0 || in.Flags&unix.O_TRUNC == 0 {
		return errno
	}
	if n.borrows() {
		t.Forget(n.id, 1)
		return syscall.ESTALE // as above
	}
	if h, got := t.acquireLocked(n, useWrite); got != 0 {
		errno = got
	} else {
		errno = t.contents.resize(h, 0)
		h.release()
	}
	if errno != 0 {
		t.Forget(n.id, 1)
		return errno
	}
	t.git.changedFile(n)
	out.Size, out.Blocks = 0, 0
	return 0
}

// wanted returns the rwx bits that a file opened with flags must have.
func wanted(flags uint32) uint32 {
	want := [...]uint32{unix.O_RDONLY: 0o4, unix.O_WRONLY: 0o2, unix.O_RDWR: 0o6, unix.O_ACCMODE: 0o6}[flags&unix.O_ACCMODE]
	if flags&unix.O_TRUNC != 0 {
		want |= 0o2
	}
	return want
}
