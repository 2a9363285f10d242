package fusefs

import (
	"strconv"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/internal/gitguard"
	"wolffia/perm"
)

// newName does what all operations that make a name have in common. The gate
// decides by the name alone, so that its answer tells nothing about what is
// there. do makes the entry in dir, which is open as fd, and fills in out.
func (t *tree) newName(o op, in *fuse.InHeader, name string, isDir bool, do func(dir *node, fd int) syscall.Errno) fuse.Status {
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
	if gitguard.Essential(name) { // no two at once, each of which is harmless
		t.renameMu.Lock()
		defer t.renameMu.Unlock()
	} else {
		t.renameMu.RLock()
		defer t.renameMu.RUnlock()
	}
	h, errno := t.acquireDir(dir)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	if t.completes(dir, h.fd, name) {
		return fuse.Status(t.deny(o, in, dir, name, perm.Checked, syscall.EACCES, becomesGit))
	}
	errno = do(dir, h.fd)
	if errno == syscall.EEXIST {
		errno = t.taken(o, in, dir, h.fd, name)
	}
	return fuse.Status(errno)
}

// make makes an object, or another name of one, called name in the directory open
// as fd, if the quota has room for it.
func (t *tree) make(fd int, name string, create func() error) syscall.Errno {
	if errno := t.quota.take(objectCost); errno != 0 {
		if _, absent := t.stat(fdName{fd, name}); absent == 0 {
			return syscall.EEXIST
		}
		return errno
	}
	errno := errnoOf(create())
	if errno != 0 {
		t.quota.give(objectCost)
	}
	return errno
}

// taken returns the errno for a name that turned out to exist: what is there
// may be of another kind, and hidden.
func (t *tree) taken(o op, in *fuse.InHeader, dir *node, fd int, name string) syscall.Errno {
	obj, errno := t.stat(fdName{fd, name})
	if errno != 0 {
		return syscall.EEXIST
	}
	if t.rules.Child(dir.getState(), name, obj.isDir()) == perm.None {
		t.denied(o, in, dir, name, perm.None, syscall.EACCES)
		return syscall.EACCES
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
		t.count(opMknod)
		if dir := t.table.get(in.NodeId); dir != nil {
			t.denied(opMknod, &in.InHeader, dir, name, perm.Write, syscall.EPERM)
		}
		return fuse.EPERM
	}
	mode := in.Mode & 0o7777 &^ setID
	return t.newName(opMknod, &in.InHeader, name, false, func(dir *node, fd int) syscall.Errno {
		if errno := t.make(fd, name, func() error { return unix.Mknodat(fd, name, typ|mode, 0) }); errno != 0 {
			return errno
		}
		t.settleMode(fd, name, mode)
		errno := t.find(&in.InHeader, dir, fd, name, out)
		t.made(dir, fd, name)
		return errno
	})
}

// Mkdir makes a directory.
func (t *tree) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	mode := in.Mode & 0o7777 &^ setID
	return t.newName(opMkdir, &in.InHeader, name, true, func(dir *node, fd int) syscall.Errno {
		if errno := t.make(fd, name, func() error { return unix.Mkdirat(fd, name, mode) }); errno != 0 {
			return errno
		}
		t.settleMode(fd, name, mode)
		errno := t.find(&in.InHeader, dir, fd, name, out)
		t.made(dir, fd, name)
		return errno
	})
}

// Symlink makes a symbolic link. Nothing here ever follows it.
func (t *tree) Symlink(_ <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return t.newName(opSymlink, in, name, false, func(dir *node, fd int) syscall.Errno {
		if errno := t.make(fd, name, func() error { return unix.Symlinkat(target, fd, name) }); errno != 0 {
			return errno
		}
		return t.find(in, dir, fd, name, out)
	})
}

// Link gives a file another name. It asks for write at both, or what is
// read-only could be written by its new name.
func (t *tree) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	src := t.table.get(in.Oldnodeid)
	if src == nil {
		return fuse.Status(syscall.ESTALE)
	}
	if errno := t.allow(opLinkFrom, &in.InHeader, src); errno != 0 {
		return fuse.Status(errno)
	}
	if src.isDir() {
		return fuse.EPERM
	}
	return t.newName(opLink, &in.InHeader, name, false, func(dir *node, fd int) syscall.Errno {
		h, errno := t.acquireLocked(src, usePath)
		if errno != 0 {
			return errno
		}
		defer h.release()
		errno = t.make(fd, name, func() error {
			if errno := t.linkFD(h.fd, fd, name); errno != 0 {
				return errno
			}
			return nil
		})
		if errno != 0 {
			return errno
		}
		t.table.alias(src)
		return t.find(&in.InHeader, dir, fd, name, out)
	})
}

// linkFD makes name, in the directory open as dir, another name of what the
// O_PATH descriptor fd refers to.
func (t *tree) linkFD(fd, dir int, name string) syscall.Errno {
	return errnoOf(unix.Linkat(t.proc, strconv.Itoa(fd), dir, name, unix.AT_SYMLINK_FOLLOW))
}

// Readlink tells where a symbolic link points.
func (t *tree) Readlink(_ <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	t.count(opReadlink)
	n := t.table.get(in.NodeId)
	if n == nil {
		return nil, fuse.Status(syscall.ESTALE)
	}
	if errno := t.allow(opReadlink, in, n); errno != 0 {
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
	buf := make([]byte, unix.PathMax)
	size, err := unix.Readlinkat(h.fd, "", buf)
	if err != nil {
		return nil, fuse.Status(errnoOf(err))
	}
	return buf[:size], fuse.OK
}

// Create makes a file and opens it, or opens the one that is there if the
// caller does not insist on making it.
func (t *tree) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH
	return t.newName(opCreate, &in.InHeader, name, false, func(dir *node, fd int) syscall.Errno {
		mode := in.Mode & 0o7777 &^ setID
		file := -1
		errno := t.make(fd, name, func() (err error) {
			file, err = openNew(fd, name, mode)
			return err
		})
		if errno == syscall.EEXIST && in.Flags&unix.O_EXCL == 0 {
			return t.openExisting(in, dir, fd, name, out)
		}
		if errno != 0 {
			return errno
		}
		if mode&t.umask != 0 {
			errno = errnoOf(unix.Fchmod(file, mode))
		}
		var obj *object
		if errno == 0 {
			obj, errno = t.examine(fdName{fd: file})
		}
		if errno != 0 {
			unix.Close(file)
			return errno
		}
		l := t.rules.Child(dir.getState(), name, false)
		if l == perm.Checked {
			t.created.add(fdName{fd: file}, obj)
		}
		n := t.enter(dir, name, lookupResult{obj, -1}, l, &out.EntryOut)
		h := t.fds.add(n, useWrite, file)
		defer h.release()
		if mode&0o600 != 0o600 {
			t.fds.prefer(n, useWrite)
		}
		return 0
	})
}

// openNew makes a file and opens it.
func openNew(dir int, name string, mode uint32) (int, error) {
	fd, errno := openBeneath(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode)
	if errno != 0 {
		return -1, errno
	}
	return fd, nil
}

// openExisting opens a file that the kernel believes to make, and for which
// it therefore checks nothing.
func (t *tree) openExisting(in *fuse.CreateIn, dir *node, fd int, name string, out *fuse.CreateOut) syscall.Errno {
	l := t.rules.Child(dir.getState(), name, false)
	if obj, errno := t.examine(fdName{fd, name}); errno != 0 || obj.typ() != unix.S_IFREG {
		return syscall.EEXIST // not to be opened in passing
	} else if in.Flags&unix.O_TRUNC != 0 && obj.Nlink > 1 {
		return syscall.ESTALE // the kernel looks again, and asks for both
	} else if want := wanted(in.Flags); t.mode(obj, l, 0)>>6&want != want {
		return syscall.EACCES
	}
	if errno := t.find(&in.InHeader, dir, fd, name, &out.EntryOut); errno != 0 {
		return errno
	}
	n := t.table.get(out.NodeId)
	if in.Flags&unix.O_TRUNC != 0 {
		if l == perm.Checked && !t.maySet(n, &change{truncates: true}) {
			t.Forget(n.id, 1)
			return t.deny(opSetattr, &in.InHeader, n, "", l, syscall.EACCES, "")
		}
		h, errno := t.acquireLocked(n, useWrite)
		if errno == 0 {
			errno = t.resize(h, 0)
			h.release()
		}
		if errno != 0 {
			t.Forget(n.id, 1)
			return errno
		}
		out.Size, out.Blocks = 0, 0
	}
	return 0
}

// wanted returns the rwx bits that a file opened with flags must have.
func wanted(flags uint32) uint32 {
	switch flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		if flags&unix.O_TRUNC == 0 {
			return 0o4
		}
		return 0o6
	case unix.O_WRONLY:
		return 0o2
	}
	return 0o6
}

// settleMode gives a new entry the mode that was asked for, if the server's
// own umask took something from it. The kernel applied the caller's.
func (t *tree) settleMode(dir int, name string, mode uint32) {
	if mode&t.umask == 0 {
		return
	}
	fd, errno := openBeneath(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return // it is gone, or something else is: the caller finds out
	}
	defer unix.Close(fd)
	t.chmodFD(fd, mode)
}
