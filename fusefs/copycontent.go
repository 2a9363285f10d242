package fusefs

import (
	"bytes"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// copyContent copies size bytes, as a clone where the file system can. Holes stay holes. It calls step
// with each part of the copy, of at most copyStep bytes, and stops at its error.
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
				return errnoOf(err)
			}
			if off, err = copySpan(to, from, off, min(end, size), step); err != nil {
				return errnoOf(err)
			}
		}
	}
	return errnoOf(unix.Ftruncate(to, size))
}

// copySpan copies the bytes from off to end, and returns the offset where it stopped.
func copySpan(to, from int, off, end int64, step func(off, size int64) error) (int64, error) {
	for off < end {
		in, out := off, off
		n, err := unix.CopyFileRange(from, &in, to, &out, int(min(end-off, copyStep)), 0)
		switch err {
		case unix.EXDEV, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOSYS: // between two file systems
			n, err = copyBytes(to, from, off, min(end-off, copyStep))
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

// copyBytes copies up to size bytes at off by reading and writing. It returns how many it has copied, 0
// at the end of the file.
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
			return errnoOf(err)
		}
	}
	return 0
}
