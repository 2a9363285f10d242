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
	return t.list(opReaddir, in, func(_ *node, _ int, e fuse.DirEntry) bool {
		return out.AddDirEntry(e)
	})
}

// ReadDirPlus lists a directory and looks each entry up, which saves the
// kernel from asking for them one by one.
func (t *tree) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	t.count(opReaddirplus)
	return t.list(opReaddirplus, in, func(dir *node, fd int, e fuse.DirEntry) bool {
		if e.Name == "." || e.Name == ".." {
			return out.AddDirLookupEntry(e) != nil
		}
		m, errno := t.meet(dir, fd, e.Name)
		switch {
		case errno == syscall.ENOENT:
			return true
		case errno == 0 && t.rules.Child(dir.getState(), e.Name, m.obj.isDir()) == perm.None:
			m.drop() // it is something else than the directory said
			return true
		case errno == 0:
			e.Mode = m.obj.typ()
		}
		// An entry without attributes is legal: the kernel looks it up later,
		// and is told then why there are none.
		entry := out.AddDirLookupEntry(e)
		if entry == nil || errno != 0 || m.obj.isMount() {
			m.drop()
			return entry != nil
		}
		t.enter(dir, e.Name, m, entry)
		return true
	})
}

// list calls add with each visible entry of a directory until it returns
// false. There is no handle that would remember a position: the offset is the
// backing file system's own, good for any descriptor of the directory.
func (t *tree) list(o op, in *fuse.ReadIn, add func(*node, int, fuse.DirEntry) bool) fuse.Status {
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
func (t *tree) entries(dir *node, fd int, add func(*node, int, fuse.DirEntry) bool) syscall.Errno {
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
			if t.show(dir, fd, &e) && !add(dir, fd, e) {
				return 0
			}
		}
	}
}

// show reports whether the entry e of dir may be listed.
func (t *tree) show(dir *node, fd int, e *fuse.DirEntry) bool {
	switch e.Name {
	case ".":
		return true
	case "..":
		if dir.id == rootID {
			e.Ino = dir.ident.ino // what is above is nobody's business
		}
		return true
	}
	if e.Mode&unix.S_IFMT == 0 { // a file system that does not say
		obj, errno := t.stat(at{fd, e.Name})
		if errno != 0 {
			return false
		}
		e.Mode = obj.typ()
	}
	isDir := e.Mode&unix.S_IFMT == unix.S_IFDIR
	return t.rules.Child(dir.getState(), e.Name, isDir) != perm.None
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
