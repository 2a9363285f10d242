package backing

import (
	"bytes"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// copyContent copies size bytes, as a clone where the file system can. Holes stay holes. It calls
// step with each part of the copy, of at most CopyStep bytes, and stops at its error.
func copyContent(to, from int, size int64, step func(off, size int64) error) syscall.Errno {
	if unix.IoctlFileClone(to, from) != nil {
		for off := int64(0); off < size; {
			data, err := unix.Seek(from, off, unix.SEEK_DATA)
			if err == unix.ENXIO {
				break // the rest is a hole
			}
			end := size
			if err == nil {
				off = data
				end, err = unix.Seek(from, off, unix.SEEK_HOLE)
			}
			if err != nil && err != unix.EINVAL {
				return Errno(err)
			}
			if off, err = copySpan(to, from, off, min(end, size), step); err != nil {
				return Errno(err)
			}
		}
	}
	return Errno(unix.Ftruncate(to, size))
}

// copySpan copies the bytes from off to end, and returns the offset where it stopped.
func copySpan(to, from int, off, end int64, step func(off, size int64) error) (int64, error) {
	for off < end {
		in, out := off, off
		n, err := unix.CopyFileRange(from, &in, to, &out, int(min(end-off, CopyStep)), 0)
		switch err {
		case unix.EXDEV, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOSYS: // between two file systems
			n, err = copyBytes(to, from, off, min(end-off, CopyStep))
		}
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return off, err
		}
		if n == 0 {
			return end, nil // the file was truncated meanwhile
		}
		if err := step(off, int64(n)); err != nil {
			return off, err
		}
		off += int64(n)
	}
	return off, nil
}

// copyBytes copies up to size bytes at off by reading and writing. It returns how many it has
// copied, 0 at the end of the file.
func copyBytes(to, from int, off, size int64) (int, error) {
	buf := make([]byte, min(size, 1<<20))
	done := 0
	for int64(done) < size {
		n, err := unix.Pread(from, buf[:min(size-int64(done), int64(len(buf)))], off+int64(done))
		if err != nil || n == 0 {
			return done, err
		}
		for part := buf[:n]; len(part) > 0; {
			m, err := unix.Pwrite(to, part, off+int64(done))
			if err != nil {
				return done, err
			}
			part, done = part[m:], done+m
		}
	}
	return done, nil
}

// accessList is the attribute with a file's POSIX ACL. A copy without it would have other
// permissions.
const accessList = "system.posix_acl_access"

// copyAttributes copies the extended attributes of the O_PATH descriptor from that this
// process may copy. It fails only for an ACL.
func copyAttributes(to, from int) syscall.Errno {
	path := "/proc/self/fd/" + strconv.Itoa(from)
	names := make([]byte, 1<<16) // XATTR_LIST_MAX
	n, err := unix.Listxattr(path, names)
	if err != nil {
		return 0 // a file system without extended attributes
	}
	value := make([]byte, 1<<16) // XATTR_SIZE_MAX
	for name := range bytes.SplitSeq(names[:n], []byte{0}) {
		if len(name) == 0 || string(name) == "security.capability" {
			continue // a write removes them
		}
		size, err := unix.Getxattr(path, string(name), value)
		if err == nil {
			err = unix.Fsetxattr(to, string(name), value[:size], 0)
		}
		if err != nil && string(name) == accessList {
			return Errno(err)
		}
	}
	return 0
}

// CopyStep is how many bytes of a file are copied at a time, and copyLimit how long a copy may
// take: the kernel gives the tree up if a request takes minutes.
const (
	CopyStep  = 64 << 20
	copyLimit = time.Minute
)

// CopyFile copies the first keep bytes and the attributes of the regular file o, open as from, to
// the empty file to, and has them on the disk: the name must not become durable before the
// content.
func (b *FS) CopyFile(to, from int, o *Object, keep int64) syscall.Errno {
	if errno := b.fillContent(to, from, min(int64(o.Size), keep)); errno != 0 {
		return errno
	}
	if err := unix.Fchmod(to, b.OwnMode(o)); err != nil {
		return Errno(err)
	}
	if errno := b.SetTimes(to, o); errno != 0 {
		return errno
	}
	return Errno(unix.Fdatasync(to))
}

// fillContent copies the first size bytes of the file of the O_PATH descriptor from to the empty
// file to. EFBIG: it takes longer than copyLimit.
func (b *FS) fillContent(to, from int, size int64) syscall.Errno {
	if size <= 0 {
		return 0
	}
	src, errno := b.OpenProc(from, unix.O_RDONLY)
	if errno != 0 {
		return errno
	}
	defer unix.Close(src)
	end := time.Now().Add(b.copyLimit)
	return copyContent(to, src, size, func(off, n int64) error {
		if size > CopyStep { // the disk writes during the copy, so that a flush at the end is short
			_ = unix.SyncFileRange(to, off, n, unix.SYNC_FILE_RANGE_WRITE)
		}
		if time.Now().After(end) {
			return syscall.EFBIG
		}
		return nil
	})
}

// Fill copies the file of the O_PATH descriptor from to the empty file to: the first keep
// bytes, owner, mode, times and extended attributes. st is from's.
func (b *FS) Fill(to, from int, st *unix.Stat_t, keep int64) syscall.Errno {
	if errno := b.fillContent(to, from, min(st.Size, keep)); errno != 0 {
		return errno
	}
	if errno := copyAttributes(to, from); errno != 0 {
		return errno
	}
	var got unix.Stat_t
	if err := unix.Fstat(to, &got); err != nil {
		return Errno(err)
	}
	if got.Uid != st.Uid || got.Gid != st.Gid {
		if err := unix.Fchown(to, int(st.Uid), int(st.Gid)); err != nil {
			return Errno(err)
		}
	}
	if err := unix.Fchmod(to, st.Mode&0o7777&^SetIDBits); err != nil {
		return Errno(err)
	}
	return Errno(unix.UtimesNanoAt(b.Proc, strconv.Itoa(to), []unix.Timespec{st.Atim, st.Mtim}, 0))
}
