package backing

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
)

// BorrowFile gives the empty file to the attributes of the host's file o at path, with a hole for
// its content, and has that on the disk: without the marks it would be a file of zeros.
func (b *FS) BorrowFile(to int, o *Object, path string) syscall.Errno {
	err := unix.Ftruncate(to, int64(o.Size))
	if err == nil {
		err = unix.Fsetxattr(to, cow.AttrLower, []byte(path), 0)
	}
	if err == nil {
		err = unix.Fsetxattr(to, cow.AttrData, []byte(cow.DataLower), 0)
	}
	if err == nil {
		err = unix.Fchmod(to, b.OwnMode(o))
	}
	if err != nil {
		return Errno(err)
	}
	if errno := b.SetTimes(to, o); errno != 0 {
		return errno
	}
	return Errno(unix.Fsync(to))
}

// BorrowMark reads the marks of the file at the path of /proc.
func BorrowMark(proc string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getxattr(proc, cow.AttrData, buf)
	switch {
	case errors.Is(err, unix.ENODATA):
		return "", nil
	case err != nil:
		return "", err
	case string(buf[:n]) != cow.DataLower:
		return "", syscall.EIO
	}
	if n, err = unix.Getxattr(proc, cow.AttrLower, buf); err != nil {
		return "", err
	}
	if path := string(buf[:n]); cow.ValidPath(path) {
		return path, nil
	}
	return "", syscall.EIO
}
