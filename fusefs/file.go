package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
)

// openRead returns a handle for reading the node called id, if the gate allows o. The caller
// releases it.
func (t *tree) openRead(o gate.Op, in *fuse.InHeader, id uint64) (*handle, syscall.Errno) {
	n, errno := t.gate.allowed(o, in, id)
	if errno != 0 {
		return nil, errno
	}
	if n.isDir() {
		return nil, syscall.EISDIR
	}
	return t.acquire(n, useRead)
}

// Read reads from a file, which the kernel has opened without asking. It is not called as long as
// the device answers each READ (answerRead).
func (t *tree) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	h, errno := t.openRead(gate.OpRead, &in.InHeader, in.NodeId)
	if errno != 0 {
		return nil, fuse.Status(errno)
	}
	defer h.release()
	n, errno := readFull(h.fd, buf[:min(len(buf), int(in.Size))], int64(in.Offset))
	return fuse.ReadResultData(buf[:n]), fuse.Status(errno)
}

// readFull reads from fd at off until buf is full or the file ends: the kernel takes a short
// answer for the end.
func readFull(fd int, buf []byte, off int64) (done int, errno syscall.Errno) {
	for done < len(buf) {
		n, err := unix.Pread(fd, buf[done:], off+int64(done))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, backing.Errno(err)
		}
		if n == 0 {
			break
		}
		done += n
	}
	return done, 0
}

// Write writes to a file. With O_APPEND it writes at the true end of the file; the offset
// from the kernel may be outdated.
func (t *tree) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	h, errno := t.contents.openWrite(gate.OpWrite, &in.InHeader, in.NodeId)
	if errno != 0 {
		return 0, fuse.Status(errno)
	}
	defer h.release()
	off, flags := int64(in.Offset), 0
	if in.Flags&unix.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0 {
		off, flags = backing.AtEnd, unix.RWF_APPEND
	}
	end := endOf(h.fd, off) + int64(len(data))
	if errno := t.guard.allowSize(&t.gate, gate.OpWrite, &in.InHeader, h.node, end); errno != 0 {
		return 0, fuse.Status(errno)
	}
	grown, errno := t.Quota.Grow(h.node.ident(), h.fd, off, int64(len(data)))
	if errno != 0 {
		return 0, fuse.Status(errno)
	}
	defer grown()
	done := 0
	for done < len(data) {
		n, err := pwrite(h.fd, data[done:], int64(in.Offset)+int64(done), flags)
		if err == syscall.EINTR {
			continue
		}
		if err != nil && done == 0 {
			return 0, fuse.Status(backing.Errno(err))
		}
		if err != nil || n == 0 {
			break // a short write: the next one returns the error
		}
		done += n
	}
	t.writeback.wrote(h.fd, int64(in.Offset), int64(in.Offset)+int64(done))
	t.git.changedFile(h.node)
	return uint32(done), fuse.OK
}

// endOf returns off, or of backing.AtEnd the size of the file.
func endOf(fd int, off int64) int64 {
	var st unix.Stat_t
	if off != backing.AtEnd || unix.Fstat(fd, &st) != nil {
		return off
	}
	return st.Size
}

// pwrite is pwritev2(2) of data; without flags it allocates nothing.
func pwrite(fd int, data []byte, off int64, flags int) (int, error) {
	if flags == 0 {
		return unix.Pwrite(fd, data, off)
	}
	return unix.Pwritev2(fd, [][]byte{data}, off, flags)
}

// Fsync writes a file to the disk.
func (t *tree) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	h, errno := t.openRead(gate.OpFsync, &in.InHeader, in.NodeId)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	if in.FsyncFlags&1 != 0 {
		return fuse.Status(t.sync(h.fd, unix.Fdatasync))
	}
	return fuse.Status(t.sync(h.fd, unix.Fsync))
}

// Fallocate allocates or releases room of a file.
func (t *tree) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	h, errno := t.contents.openWrite(gate.OpFallocate, &in.InHeader, in.NodeId)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	size := int64(in.Length)
	if in.Mode&(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_COLLAPSE_RANGE) != 0 {
		size = 0
	}
	if errno := t.guard.allowSize(&t.gate, gate.OpFallocate, &in.InHeader, h.node, int64(in.Offset)+size); errno != 0 {
		return fuse.Status(errno)
	}
	grown, errno := t.Quota.Grow(h.node.ident(), h.fd, int64(in.Offset), size)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer grown()
	return fuse.Status(backing.Retry(func() error {
		return unix.Fallocate(h.fd, in.Mode, int64(in.Offset), int64(in.Length))
	}))
}

// Lseek finds data and holes. Nothing else uses the descriptor's own offset.
func (t *tree) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	h, errno := t.openRead(gate.OpLseek, &in.InHeader, in.NodeId)
	if errno != 0 {
		return fuse.Status(errno)
	}
	defer h.release()
	if in.Whence != unix.SEEK_DATA && in.Whence != unix.SEEK_HOLE {
		return fuse.EINVAL // the kernel does the others itself
	}
	n, err := unix.Seek(h.fd, int64(in.Offset), int(in.Whence))
	if err != nil {
		return fuse.Status(backing.Errno(err))
	}
	out.Offset = uint64(n)
	return fuse.OK
}

// maxCopy bounds one copy; the reply has 32 bits for its length.
const maxCopy = 1 << 30

// CopyFileRange copies between two files without reading the data.
func (t *tree) CopyFileRange(_ <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	if _, errno := t.gate.allowed(gate.OpCopyFrom, &in.InHeader, in.NodeId); errno != 0 {
		return 0, fuse.Status(errno)
	}
	to, errno := t.contents.openWrite(gate.OpCopyTo, &in.InHeader, in.NodeIdOut)
	if errno != 0 {
		return 0, fuse.Status(errno)
	}
	defer to.release()
	from, errno := t.openRead(gate.OpCopyFrom, &in.InHeader, in.NodeId) // by the rules after that: see splitRules
	if errno != 0 {
		return 0, fuse.Status(errno)
	}
	defer from.release()
	offIn, offOut, size := int64(in.OffIn), int64(in.OffOut), int64(min(in.Len, maxCopy))
	if t.Quota != nil || offOut+size > maxGitRead {
		if end, err := unix.Seek(from.fd, 0, unix.SEEK_END); err == nil {
			size = max(0, min(size, end-offIn))
		}
	}
	if errno := t.guard.allowSize(&t.gate, gate.OpCopyTo, &in.InHeader, to.node, offOut+size); errno != 0 {
		return 0, fuse.Status(errno)
	}
	grown, errno := t.Quota.Grow(to.node.ident(), to.fd, offOut, size)
	if errno != 0 {
		return 0, fuse.Status(errno)
	}
	defer grown()
	n := 0
	errno = backing.Retry(func() (err error) {
		n, err = unix.CopyFileRange(from.fd, &offIn, to.fd, &offOut, int(size), 0)
		return err
	})
	return uint32(max(n, 0)), fuse.Status(errno)
}
