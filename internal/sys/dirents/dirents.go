// Package dirents reads the names in a directory with few system calls.
//
// Package os adds five to each directory, and memory for each name.
package dirents

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Open opens a directory for [Each], and nothing else. flags are more flags of open(2). The caller
// closes it.
func Open(path string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
		if err != unix.EINTR { // FUSE and NFS
			return fd, err
		}
	}
}

// Each calls f with each name in the directory fd, except "." and "..", and its type, a DT_
// constant. It ends with the first error, which may be one of f. name is valid until f returns. buf
// is space to read with.
func Each(fd int, buf []byte, f func(name []byte, typ uint8) error) error {
	for {
		n, err := unix.Getdents(fd, buf)
		switch {
		case err == unix.EINTR: // FUSE and NFS
			continue
		case err != nil:
			return err
		case n <= 0:
			return nil
		}
		for rest := buf[:n]; len(rest) > 0; {
			var name []byte
			var typ uint8
			if name, typ, rest = entry(rest); name == nil {
				return fmt.Errorf("directory entries: %w", unix.EIO)
			}
			if string(name) == "." || string(name) == ".." {
				continue
			}
			if typ == unix.DT_UNKNOWN {
				typ = statType(fd, string(name))
			}
			if err := f(name, typ); err != nil {
				return err
			}
		}
	}
}

// entry splits the first entry off a buffer of getdents64(2). name is nil if the entry
// is malformed.
func entry(b []byte) (name []byte, typ uint8, rest []byte) {
	const (
		reclen = int(unsafe.Offsetof(unix.Dirent{}.Reclen))
		kind   = int(unsafe.Offsetof(unix.Dirent{}.Type))
		start  = int(unsafe.Offsetof(unix.Dirent{}.Name))
	)
	if len(b) <= start {
		return nil, 0, nil
	}
	n := int(binary.NativeEndian.Uint16(b[reclen:]))
	if n <= start || n > len(b) {
		return nil, 0, nil
	}
	name = b[start:n]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	return name, b[kind], b[n:]
}

// statType returns the type of a name, for file systems whose directories do not have
// it.
func statType(dir int, name string) uint8 {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_UNKNOWN
	}
	return uint8(st.Mode & unix.S_IFMT >> 12) // DT_x is S_IFx >> 12, see readdir(3)
}
