package fusefs

import (
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
	"wolffia/perm"
)

// ReadDir lists a directory from the offset in in.
func (t *tree) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return t.list(gate.OpReaddir, in, func(_ *entry, _ openDir, d fuse.DirEntry) bool {
		return out.AddDirEntry(d)
	})
}

// ReadDirPlus lists a directory and looks each entry up, which saves the kernel a request
// for each.
func (t *tree) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	scratch := new(backing.Object)
	return t.list(gate.OpReaddirplus, in, func(e *entry, dir openDir, d fuse.DirEntry) bool {
		known := t.table.child(e.dir, e.name)
		if t.kernel.knows(known, e.dir) || e.name == "." || e.name == ".." {
			// Without attributes: the kernel knows the entry, or looks it up later.
			return out.AddDirLookupEntry(d) != nil
		}
		e.scratch = scratch
		r, errno := t.lookupEntry(e, dir, known)
		switch {
		case errno == syscall.ENOENT:
			return true
		case errno != 0 || r.obj.IsMount(): // a lookup returns why
			r.close()
			return out.AddDirLookupEntry(d) != nil
		case t.levels.of(e, r.obj.IsDir()) == perm.None: // not the kind that the directory said
			r.close()
			return true
		}
		d.Mode = r.obj.Type()
		reply := out.AddDirLookupEntry(d)
		if reply == nil {
			r.close()
			return false
		}
		t.enter(e, r, reply)
		return true
	})
}

// list calls add with each visible entry of a directory until add returns false. There is no
// handle that could keep a position: the offset is the backing file system's own, which is
// valid for each descriptor of the directory.
func (t *tree) list(o gate.Op, in *fuse.ReadIn, add func(*entry, openDir, fuse.DirEntry) bool) fuse.Status {
	if dir, errno := t.dir(in.NodeId); errno == 0 && in.Offset == 0 {
		t.git.ownGit(dir, gitName, false)
	}
	dir, errno := t.gate.allowedDir(o, &in.InHeader)
	if errno != 0 {
		return fuse.Status(errno)
	}
	listing, end := t.table.listing(dir, in.Offset)
	if in.Offset != 0 && in.Offset == end {
		return fuse.OK // the last request of each listing
	}
	t.renameMu.RLock()
	defer t.renameMu.RUnlock()
	h, errno := t.acquireDir(dir)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	if t.copied != nil {
		return fuse.Status(t.copied.list(dir, h, in.Offset, add))
	}
	offset := in.Offset
	switch {
	case offset == gitOffset:
		offset = 0
	case offset == 0 && t.levels.owns(dir.getState(), gitName):
		if !t.git.listOwn(dir, h, add) {
			return fuse.OK
		}
	}
	fd, errno := t.OpenList(h.fd)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer unix.Close(fd)
	if offset != 0 {
		if _, err := unix.Seek(fd, int64(offset), unix.SEEK_SET); err != nil {
			return fuse.Status(backing.Errno(err))
		}
	}
	last, errno := t.entries(dir, fd, offset, add)
	if last != 0 {
		t.table.listed(dir, listing, last)
	}
	return fuse.Status(errno)
}

// entries is list for the directory open as fd, positioned at offset. If it reaches the end it
// returns the end's offset, else 0.
func (t *tree) entries(dir *node, fd int, offset uint64, add func(*entry, openDir, fuse.DirEntry) bool) (end uint64, errno syscall.Errno) {
	buf := make([]byte, 16<<10)
	var e entry // allocated once for all calls of add
	d := openDir{handle: &handle{fd: fd}}
	for {
		n, err := unix.Getdents(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, backing.Errno(err)
		}
		if n == 0 {
			return offset, 0
		}
		for rest := buf[:n]; len(rest) > 0; {
			var v fuse.DirEntry
			rest = rest[v.Parse(rest):]
			e = newEntry(dir, v.Name)
			if t.visible(&e, fd, &v) && !add(&e, d, v) {
				return 0, 0
			}
			offset = v.Off
		}
	}
}

// visible reports whether the entry e must be listed, and completes d.
func (t *tree) visible(e *entry, fd int, d *fuse.DirEntry) bool {
	switch e.name {
	case "..":
		if e.dir.id == rootID {
			d.Ino = e.dir.ident().Ino // not that of the directory above the tree
		}
		return true
	case ".":
		return true
	}
	own := strings.HasPrefix(e.name, backing.OwnPrefix) || t.levels.owns(e.dir.getState(), e.name)
	if own || t.git.isRemovedDir(fd, e.dir, e.name) {
		return false // the sandbox's own .git was the first
	}
	if t.git != nil && e.dir.ident().Dev != t.git.device {
		d.Ino |= apartBit // as privateGit.number
	}
	if d.Mode&unix.S_IFMT == 0 { // a file system without types in its listings
		obj, errno := t.Stat(backing.At{FD: fd, Name: e.name})
		if errno != 0 {
			return false
		}
		d.Mode = obj.Type()
	}
	return t.levels.of(e, d.Mode&unix.S_IFMT == unix.S_IFDIR) != perm.None
}

// FsyncDir writes a directory to the disk.
func (t *tree) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	dir, errno := t.gate.allowedDir(gate.OpFsyncdir, &in.InHeader)
	if errno != 0 {
		return fuse.Status(errno)
	}
	if t.copied != nil && !dir.inUpper() {
		return fuse.OK // it has nothing of the sandbox's
	}
	h, errno := t.acquire(dir, usePath)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	fd, errno := t.OpenList(h.fd)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer unix.Close(fd)
	return fuse.Status(t.sync(fd, unix.Fsync))
}
