package fusefs

import (
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// ReadDir lists a directory from the offset in in.
func (t *tree) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	t.count(opReaddir)
	return t.list(opReaddir, in, func(_ *node, _ int, e fuse.DirEntry, _ perm.Level) bool {
		return out.AddDirEntry(e)
	})
}

// ReadDirPlus lists a directory and looks each entry up, which saves the
// kernel from asking for them one by one.
func (t *tree) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	t.count(opReaddirplus)
	return t.list(opReaddirplus, in, func(dir *node, fd int, e fuse.DirEntry, l perm.Level) bool {
		if e.Name == "." || e.Name == ".." || t.fresh(dir, e.Name) {
			// An entry without attributes is legal: the kernel knows it, or
			// looks it up later.
			return out.AddDirLookupEntry(e) != nil
		}
		m, errno := t.lookupEntry(dir, fd, e.Name)
		switch {
		case errno == syscall.ENOENT:
			return true
		case errno != 0 || m.obj.isMount(): // a lookup says why
			m.drop()
			return out.AddDirLookupEntry(e) != nil
		case m.obj.typ() != e.Mode&unix.S_IFMT: // not what the directory said
			e.Mode = m.obj.typ()
			if l = t.rules.Child(dir.getState(), e.Name, m.obj.isDir()); l == perm.None {
				m.drop()
				return true
			}
		}
		entry := out.AddDirLookupEntry(e)
		if entry == nil {
			m.drop()
			return false
		}
		t.enter(dir, e.Name, m, l, entry)
		return true
	})
}

// fresh reports whether the kernel knows the entry called name of dir and can
// go on believing it.
func (t *tree) fresh(dir *node, name string) bool {
	if !dir.watched.Load() {
		return false
	}
	n := t.table.child(dir, name)
	return n != nil && t.clock()-n.validatedAt.Load() < int64(watchedTimeout)/2
}

// list calls add with each visible entry of a directory until it returns
// false. There is no handle that would remember a position: the offset is the
// backing file system's own, good for any descriptor of the directory.
func (t *tree) list(o op, in *fuse.ReadIn, add func(*node, int, fuse.DirEntry, perm.Level) bool) fuse.Status {
	dir, errno := t.dir(in.NodeId)
	if errno != 0 {
		return fuse.Status(errno)
	}
	if errno := t.allow(o, &in.InHeader, dir); errno != 0 {
		return fuse.Status(errno)
	}
	listing, end := t.table.listing(dir, in.Offset)
	if in.Offset != 0 && in.Offset == end {
		return fuse.OK // every listing ends with this question
	}
	t.renameMu.RLock()
	defer t.renameMu.RUnlock()
	h, errno := t.acquireDir(dir)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	fd, errno := t.openProc(h.fd, unix.O_RDONLY|unix.O_DIRECTORY) // "." would need leave to search
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer unix.Close(fd)
	if in.Offset != 0 {
		if _, err := unix.Seek(fd, int64(in.Offset), unix.SEEK_SET); err != nil {
			return fuse.Status(errnoOf(err))
		}
	}
	last, errno := t.entries(dir, fd, in.Offset, add)
	if last != 0 {
		t.table.listed(dir, listing, last)
	}
	return fuse.Status(errno)
}

// entries reads the directory open as fd on from offset, where it stands. If
// it came to the end, it returns the offset of that.
func (t *tree) entries(dir *node, fd int, offset uint64, add func(*node, int, fuse.DirEntry, perm.Level) bool) (end uint64, errno syscall.Errno) {
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, errnoOf(err)
		}
		if n == 0 {
			return offset, 0
		}
		for rest := buf[:n]; len(rest) > 0; {
			var e fuse.DirEntry
			rest = rest[e.Parse(rest):]
			if l := t.show(dir, fd, &e); l != perm.None && !add(dir, fd, e, l) {
				return 0, 0
			}
			offset = e.Off
		}
	}
}

// show returns the level of the entry e of dir; None is not listed.
func (t *tree) show(dir *node, fd int, e *fuse.DirEntry) perm.Level {
	switch e.Name {
	case ".":
		return perm.View
	case "..":
		if dir.id == rootID {
			e.Ino = dir.ident().ino // what is above is nobody's business
		}
		return perm.View
	}
	if strings.HasPrefix(e.Name, ownPrefix) {
		return perm.None
	}
	if e.Mode&unix.S_IFMT == 0 { // a file system that does not say
		obj, errno := t.stat(fdName{fd, e.Name})
		if errno != 0 {
			return perm.None
		}
		e.Mode = obj.typ()
	}
	return t.rules.Child(dir.getState(), e.Name, e.Mode&unix.S_IFMT == unix.S_IFDIR)
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
	fd, errno := t.openProc(h.fd, unix.O_RDONLY|unix.O_DIRECTORY) // "." would need leave to search
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer unix.Close(fd)
	return fuse.Status(errnoOf(unix.Fsync(fd)))
}
