package fusefs

import (
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/gate"
)

// An Offline tree is one that no kernel has mounted: its methods make the requests that a kernel
// would make, and get the answers that a program of the sandbox would. Paths are of names from the
// root, which is "". Errors are errnos. One goroutine at a time calls its methods, and nothing else
// may change the upper layer until Close.
type Offline struct {
	t    *tree
	dirs map[string]uint64 // nodes of directories
	buf  []byte            // of buffer; nil until it is used
}

// OpenOffline returns the tree of opts. The caller calls Close.
func OpenOffline(opts *Options) (*Offline, error) {
	o := *opts
	o.NoWatch = true
	t, err := newTree(&o)
	if err != nil {
		return nil, err
	}
	return &Offline{t: t, dirs: map[string]uint64{"": rootID}}, nil
}

// Close ends the use of the tree.
func (o *Offline) Close() {
	o.t.git.stop()
	o.t.watch.close()
	o.t.close()
}

// do makes a request.
func (o *Offline) do(op gate.Op, f func() fuse.Status) error {
	if changing[op] {
		o.t.changeMu.RLock()
		defer o.t.changeMu.RUnlock()
	}
	o.t.levels.rulesMu.RLock()
	defer o.t.levels.rulesMu.RUnlock()
	if status := f(); !status.Ok() {
		return syscall.Errno(status)
	}
	return nil
}

func (o *Offline) header(id uint64) fuse.InHeader {
	owner := o.t.attrs.owner
	return fuse.InHeader{NodeId: id, Caller: fuse.Caller{Owner: fuse.Owner{Uid: owner.UID, Gid: owner.GID}}}
}

// lookup returns the node at a path, and its attributes. With forget the node is not used any more.
func (o *Offline) lookup(path string, forget bool) (uint64, *fuse.Attr, error) {
	dir, name, err := o.place(path)
	if err != nil {
		return 0, nil, err
	}
	var out fuse.EntryOut
	in := o.header(dir)
	err = o.do(gate.OpLookup, func() fuse.Status { return o.t.Lookup(nil, &in, name, &out) })
	if err == nil && out.NodeId == 0 {
		err = syscall.ENOENT
	}
	if err != nil {
		return 0, nil, err
	}
	if forget {
		o.t.Forget(out.NodeId, 1)
	}
	return out.NodeId, &out.Attr, nil
}

// place returns the directory that has a path's last name, and that name.
func (o *Offline) place(path string) (dir uint64, name string, err error) {
	i := strings.LastIndexByte(path, '/')
	at := path[:max(i, 0)]
	if dir, ok := o.dirs[at]; ok {
		return dir, path[i+1:], nil
	}
	dir, a, err := o.lookup(at, false)
	if err == nil && a.Mode&unix.S_IFMT != unix.S_IFDIR {
		o.t.Forget(dir, 1)
		err = syscall.ENOTDIR
	}
	if err != nil {
		return 0, "", err
	}
	o.dirs[at] = dir
	return dir, path[i+1:], nil
}

// with calls f with the node at a path.
func (o *Offline) with(path string, f func(id uint64) error) error {
	id, _, err := o.lookup(path, false)
	if err != nil {
		return err
	}
	defer o.t.Forget(id, 1)
	return f(id)
}

// A Shown is what a tree shows at a path. The zero Shown is nothing.
type Shown struct {
	Type, Mode   uint32 // S_IFREG and so on (stat(2)); permissions, 0777
	Ino          uint64
	Size         int64 // of a regular file
	Mtime, Ctime int64 // nanoseconds since 1970
}

// Same reports whether two looks at a path saw the same object, with the same content. Of a directory
// only the mode counts.
func (s Shown) Same(o Shown) bool {
	if s.Type == unix.S_IFDIR && o.Type == unix.S_IFDIR {
		return s.Mode == o.Mode
	}
	s.Ctime, o.Ctime = 0, 0
	return s == o
}

// Stat returns what the tree shows at a path.
func (o *Offline) Stat(path string) (Shown, error) {
	_, a, err := o.lookup(path, true)
	if err != nil {
		return Shown{}, err
	}
	s := Shown{
		Type: a.Mode & unix.S_IFMT, Mode: a.Mode & 0o777, Ino: a.Ino,
		Mtime: int64(a.Mtime)*1e9 + int64(a.Mtimensec), Ctime: int64(a.Ctime)*1e9 + int64(a.Ctimensec),
	}
	if s.Type == unix.S_IFREG {
		s.Size = int64(a.Size)
	}
	return s, nil
}

// Names returns the names in a directory, in no order.
func (o *Offline) Names(path string) (names []string, err error) {
	dir, _, err := o.place(strings.TrimPrefix(path+"/x", "/"))
	if err != nil {
		return nil, err
	}
	in := fuse.ReadIn{InHeader: o.header(dir)}
	err = o.do(gate.OpReaddir, func() fuse.Status {
		return o.t.list(gate.OpReaddir, &in, func(_ *entry, _ openDir, d fuse.DirEntry) bool {
			if d.Name != "." && d.Name != ".." {
				names = append(names, d.Name)
			}
			return true
		})
	})
	return names, err
}

// Read calls f with the content of the regular file at a path.
func (o *Offline) Read(path string, f func(io.ReaderAt) error) error {
	return o.with(path, func(id uint64) error {
		var h *handle
		in := o.header(id)
		err := o.do(gate.OpRead, func() fuse.Status {
			var errno syscall.Errno
			h, errno = o.t.openRead(gate.OpRead, &in, id)
			return fuse.Status(errno)
		})
		if err != nil {
			return err
		}
		defer h.release()
		return f(preader(h.fd))
	})
}

// A preader reads from a descriptor.
type preader int

// ReadAt implements [io.ReaderAt].
func (fd preader) ReadAt(b []byte, off int64) (int, error) {
	n, errno := readFull(int(fd), b, off)
	switch {
	case errno != 0:
		return n, errno
	case n < len(b):
		return n, io.EOF
	}
	return n, nil
}

// Readlink returns the target of a symbolic link.
func (o *Offline) Readlink(path string) (target string, err error) {
	err = o.with(path, func(id uint64) error {
		in := o.header(id)
		return o.do(gate.OpReadlink, func() fuse.Status {
			b, status := o.t.Readlink(nil, &in)
			target = string(b)
			return status
		})
	})
	return target, err
}

// Mkdir makes a directory.
func (o *Offline) Mkdir(path string, mode uint32) error {
	return o.make(gate.OpMkdir, path, func(in fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
		return o.t.Mkdir(nil, &fuse.MkdirIn{InHeader: in, Mode: mode}, name, out)
	})
}

// Symlink makes a symbolic link.
func (o *Offline) Symlink(path, target string) error {
	return o.make(gate.OpSymlink, path, func(in fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
		return o.t.Symlink(nil, &in, target, name, out)
	})
}

// Create makes an empty regular file.
func (o *Offline) Create(path string, mode uint32) error {
	return o.make(gate.OpCreate, path, func(in fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
		var made fuse.CreateOut
		ask := fuse.CreateIn{InHeader: in, Flags: unix.O_RDWR | unix.O_CREAT | unix.O_EXCL, Mode: mode}
		status := o.t.Create(nil, &ask, name, &made)
		*out = made.EntryOut
		return status
	})
}

func (o *Offline) make(op gate.Op, path string, f func(fuse.InHeader, string, *fuse.EntryOut) fuse.Status) error {
	dir, name, err := o.place(path)
	if err != nil {
		return err
	}
	var out fuse.EntryOut
	err = o.do(op, func() fuse.Status { return f(o.header(dir), name, &out) })
	if err == nil {
		o.t.Forget(out.NodeId, 1)
	}
	return err
}

// Remove removes what is at a path: an empty directory, or with isDir not set what is none.
func (o *Offline) Remove(path string, isDir bool) error {
	dir, name, err := o.place(path)
	if err != nil {
		return err
	}
	in := o.header(dir)
	if !isDir {
		return o.do(gate.OpUnlink, func() fuse.Status { return o.t.Unlink(nil, &in, name) })
	}
	err = o.do(gate.OpRmdir, func() fuse.Status { return o.t.Rmdir(nil, &in, name) })
	if id, ok := o.dirs[path]; ok && err == nil {
		delete(o.dirs, path)
		o.t.Forget(id, 1)
	}
	return err
}

// Write replaces the content of the regular file at a path, and then its permissions and the time of
// its last change.
func (o *Offline) Write(path string, content io.Reader, mode uint32, mtime time.Time) error {
	return o.with(path, func(id uint64) error {
		if err := o.setAttr(id, fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE}); err != nil {
			return err
		}
		to := struct{ io.Writer }{&offlineFile{o, id, 0}} // only Write and Read, so that the buffer is used
		if _, err := io.CopyBuffer(to, struct{ io.Reader }{content}, o.buffer()); err != nil {
			return err
		}
		return o.setAttr(id, withTime(fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: mode}, mtime))
	})
}

func (o *Offline) buffer() []byte {
	if o.buf == nil {
		o.buf = make([]byte, 256<<10)
	}
	return o.buf
}

// An offlineFile writes to a node, from its beginning on.
type offlineFile struct {
	o   *Offline
	id  uint64
	off uint64
}

// Write implements [io.Writer].
func (f *offlineFile) Write(b []byte) (n int, err error) {
	for n < len(b) {
		in := fuse.WriteIn{InHeader: f.o.header(f.id), Offset: f.off, Size: uint32(len(b) - n)}
		var done uint32
		err := f.o.do(gate.OpWrite, func() (status fuse.Status) {
			done, status = f.o.t.Write(nil, &in, b[n:])
			return status
		})
		if err == nil && done == 0 {
			err = syscall.EIO
		}
		if err != nil {
			return n, err
		}
		f.off, n = f.off+uint64(done), n+int(done)
	}
	return n, nil
}

func withTime(c fuse.SetAttrInCommon, mtime time.Time) fuse.SetAttrInCommon {
	c.Valid |= fuse.FATTR_MTIME
	c.Mtime, c.Mtimensec = uint64(mtime.Unix()), uint32(mtime.Nanosecond())
	return c
}

// Chmod sets the permissions of what is at a path.
func (o *Offline) Chmod(path string, mode uint32) error {
	return o.with(path, func(id uint64) error {
		return o.setAttr(id, fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: mode})
	})
}

// Chtime sets the time of the last change of what is at a path.
func (o *Offline) Chtime(path string, mtime time.Time) error {
	return o.with(path, func(id uint64) error {
		return o.setAttr(id, withTime(fuse.SetAttrInCommon{}, mtime))
	})
}

func (o *Offline) setAttr(id uint64, c fuse.SetAttrInCommon) error {
	c.InHeader = o.header(id)
	var out fuse.AttrOut
	in := fuse.SetAttrIn{SetAttrInCommon: c}
	return o.do(gate.OpSetattr, func() fuse.Status { return o.t.SetAttr(nil, &in, &out) })
}
