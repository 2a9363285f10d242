package fusefs

import (
	"strconv"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
)

// SetAttr changes mode, size and times. It accepts only the present owner, or with Options.Chown
// any, and changes none.
func (t *tree) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := t.table.get(in.NodeId)
	errno := syscall.ESTALE
	switch {
	case n == nil:
	case t.git.freshens(n, in) && t.copied != nil:
		errno = syscall.EROFS
	case t.git.freshens(n, in):
		errno = t.utimes(n, in)
	default:
		if errno = t.gate.askNode(gate.OpSetattr, &in.InHeader, n); errno != 0 {
			break
		}
		if errno = t.gate.allow(gate.OpSetattr, &in.InHeader, n); errno == 0 {
			errno = t.setAttr(n, in)
		}
	}
	if errno != 0 {
		return fuse.Status(errno)
	}
	o, errno := t.statNode(n)
	if errno != 0 {
		return fuse.Status(errno)
	}
	t.attrs.fillAttr(n, o, out)
	return fuse.OK
}

// setAttr does what in asks for.
func (t *tree) setAttr(n *node, in *fuse.SetAttrIn) syscall.Errno {
	mode, setsMode := in.GetMode()
	size, setsSize := in.GetSize()
	if uid, ok := in.GetUID(); ok && uid != t.attrs.owner.UID && !t.chowns {
		return syscall.EPERM
	}
	if gid, ok := in.GetGID(); ok && gid != t.attrs.owner.GID && !t.chowns {
		return syscall.EPERM
	}
	keep := int64(attributes)
	if setsSize {
		keep = int64(size)
	}
	lock, errno := t.contents.unshare(gate.OpSetattr, &in.InHeader, n, keep)
	if errno != 0 {
		return errno
	}
	if lock != nil {
		defer lock.RUnlock()
	}
	if setsMode {
		if errno := t.chmod(n, mode); errno != 0 {
			return errno
		}
	}
	if setsSize {
		if errno := t.guard.allowSize(&t.gate, gate.OpSetattr, &in.InHeader, n, int64(size)); errno != 0 {
			return errno
		}
		if errno := t.contents.truncate(n, int64(size)); errno != 0 {
			return errno
		}
		t.git.changedFile(n)
	}
	return t.utimes(n, in)
}

// chmod sets the mode of n. It opens a file for writing before the mode may forbid that, for
// a process that has the file open.
func (t *tree) chmod(n *node, mode uint32) syscall.Errno {
	if n.isRegular() && mode&0o600 != 0o600 {
		if w, errno := t.acquire(n, useWrite); errno == 0 {
			t.fds.prefer(n)
			w.release()
		}
	}
	h, errno := t.acquire(n, usePath)
	if errno != 0 {
		return errno
	}
	defer h.release()
	return t.ChmodFD(h.fd, mode)
}

// utimes sets the times that in asks for, if any.
func (t *tree) utimes(n *node, in *fuse.SetAttrIn) syscall.Errno {
	spec := func(at, now uint32, sec uint64, nsec uint32) unix.Timespec {
		switch {
		case in.Valid&now != 0:
			return unix.Timespec{Nsec: unix.UTIME_NOW}
		case in.Valid&at != 0:
			return unix.Timespec{Sec: int64(sec), Nsec: int64(nsec % uint32(time.Second))}
		}
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	times := []unix.Timespec{
		spec(fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec),
		spec(fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec),
	}
	if times[0].Nsec == unix.UTIME_OMIT && times[1].Nsec == unix.UTIME_OMIT {
		return 0
	}
	h, errno := t.acquire(n, usePath)
	if errno != 0 {
		return errno
	}
	defer h.release()
	return backing.Errno(unix.UtimesNanoAt(t.Proc, strconv.Itoa(h.fd), times, 0))
}
