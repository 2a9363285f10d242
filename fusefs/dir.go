package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// ReadDir lists a directory from the offset in in.
func (t *tree) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	t.count(opReaddir)
	return t.list(opReaddir, in, func(_ *node, _ int, e fuse.DirEntry, _ *object) bool {
		return out.AddDirEntry(e)
	})
}

// ReadDirPlus lists a directory and looks each entry up, which saves the
// kernel from asking for them one by one.
func (t *tree) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	t.count(opReaddirplus)
	return t.list(opReaddirplus, in, func(dir *node, fd int, e fuse.DirEntry, obj *object) bool {
		dots := e.Name == "." || e.Name == ".."
		if obj == nil && !dots {
			var errno syscall.Errno
			if obj, errno = t.look(at{fd, e.Name}); errno == syscall.ENOENT {
				return true
			}
			if obj != nil {
				// It may be something else than the directory said.
				if t.rules.Child(dir.getState(), e.Name, obj.isDir()) == perm.None {
					return true
				}
				e.Mode = obj.typ()
			}
		}
		entry := out.AddDirLookupEntry(e)
		if entry == nil {
			return false
		}
		// An entry without attributes is legal: the kernel looks it up later,
		// and is told then why there are none.
		if obj != nil && !dots && !obj.isMount() {
			t.enter(dir, e.Name, obj, entry)
		}
		return true
	})
}

// look is examine for an entry that was just listed: its errno is ENOENT or
// it says nothing.
func (t *tree) look(a at) (*object, syscall.Errno) {
	o, errno := t.examine(a)
	if errno != 0 {
		return nil, errno
	}
	return o, 0
}

// list calls add with each visible entry of a directory until it returns
// false. There is no handle that would remember a position: the offset is the
// backing file system's own, good for any descriptor of the directory.
func (t *tree) list(o op, in *fuse.ReadIn, add func(*node, int, fuse.DirEntry, *object) bool) fuse.Status {
	dir, errno := t.dir(in.NodeId)
	if errno != 0 {
		return fuse.Status(errno)
	}
	if errno := t.allow(o, &in.InHeader, dir); errno != 0 {
		return fuse.Status(errno)
	}
	t.names.RLock()
	defer t.names.RUnlock()
	h, errno := t.acquireDir(dir)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	fd, errno := openBeneath(h.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer unix.Close(fd)
	if in.Offset != 0 {
		if _, err := unix.Seek(fd, int64(in.Offset), unix.SEEK_SET); err != nil {
			return fuse.Status(errnoOf(err))
		}
	}
	return fuse.Status(t.entries(dir, fd, add))
}

// entries reads the directory open as fd on from where it stands.
func (t *tree) entries(dir *node, fd int, add func(*node, int, fuse.DirEntry, *object) bool) syscall.Errno {
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return errnoOf(err)
		}
		for rest := buf[:n]; len(rest) > 0; {
			var e fuse.DirEntry
			rest = rest[e.Parse(rest):]
			obj, show := t.show(dir, fd, &e)
			if show && !add(dir, fd, e, obj) {
				return 0
			}
		}
	}
}

// show reports whether the entry e of dir may be listed, and returns what e
// is if that took a look.
func (t *tree) show(dir *node, fd int, e *fuse.DirEntry) (*object, bool) {
	switch e.Name {
	case ".":
		return nil, true
	case "..":
		if dir.id == rootID {
			e.Ino = dir.ident.ino // what is above is nobody's business
		}
		return nil, true
	}
	var obj *object
	if e.Mode&unix.S_IFMT == 0 { // a file system that does not say
		var errno syscall.Errno
		if obj, errno = t.look(at{fd, e.Name}); errno != 0 {
			return nil, false
		}
		e.Mode = obj.typ()
	}
	isDir := e.Mode&unix.S_IFMT == unix.S_IFDIR
	return obj, t.rules.Child(dir.getState(), e.Name, isDir) != perm.None
}

// FsyncDir writes a directory to the disk.
func (t *tree) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	t.count(opFsyncdir)
	dir, errno := t.dir(in.NodeId)
	if errno != 0 {
		return fuse.Status(errno)
	}
	if errno := t.allow(opFsyncdir, &in.InHeader, dir); errno != 0 {
		return fuse.Status(errno)
	}
	h, errno := t.acquire(dir, usePath)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	fd, errno := openBeneath(h.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer unix.Close(fd)
	return fuse.Status(errnoOf(unix.Fsync(fd)))
}
