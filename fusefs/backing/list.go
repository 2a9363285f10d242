package backing

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// OpenList opens the directory of the O_PATH descriptor fd for listing. Its own name "." needs
// search permission, which listing does not; without it the way is through /proc, which costs
// three times as much.
func (b *FS) OpenList(fd int) (got int, errno syscall.Errno) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	errno = Retry(func() (err error) {
		got, err = unix.Openat(fd, ".", flags|unix.O_CLOEXEC, 0)
		return err
	})
	if errno == syscall.EACCES {
		return b.OpenProc(fd, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	return got, errno
}

// EachEntry calls f with each entry of the directory of the O_PATH descriptor fd, but "." and
// "..", until it fails.
func (b *FS) EachEntry(fd int, f func(*fuse.DirEntry) syscall.Errno) syscall.Errno {
	dir, errno := b.OpenList(fd)
	if errno != 0 {
		return errno
	}
	defer unix.Close(dir)
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Getdents(dir, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return Errno(err)
		}
		for rest := buf[:n]; len(rest) > 0; {
			var v fuse.DirEntry
			rest = rest[v.Parse(rest):]
			if v.Name == "." || v.Name == ".." {
				continue
			}
			if errno := f(&v); errno != 0 {
				return errno
			}
		}
	}
}

// EachName is EachEntry for the names, and the S_IFMT bits if the directory has them.
func (b *FS) EachName(fd int, f func(name string, typ uint32) syscall.Errno) syscall.Errno {
	return b.EachEntry(fd, func(v *fuse.DirEntry) syscall.Errno { return f(v.Name, v.Mode&unix.S_IFMT) })
}

// Whiteouts adds the names of the whiteouts in the upper directory fd to gone. ENOTEMPTY: it has
// another entry as well.
func (b *FS) Whiteouts(fd int, gone map[string]struct{}) syscall.Errno {
	return b.EachName(fd, func(e string, typ uint32) syscall.Errno {
		if typ != unix.S_IFCHR && typ != 0 {
			return syscall.ENOTEMPTY
		}
		if o, errno := b.Stat(At{fd, e}); errno != 0 || !IsWhiteout(o) {
			return syscall.ENOTEMPTY
		}
		gone[e] = struct{}{}
		return 0
	})
}
