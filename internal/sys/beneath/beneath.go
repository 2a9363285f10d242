// Package beneath opens files below a directory that a hostile program may change meanwhile.
package beneath

import (
	"os"

	"golang.org/x/sys/unix"
)

// maxTries bounds the attempts when renames elsewhere on the host interfere (EAGAIN), which
// a hostile program could keep up. maxCrossings bounds those that end outside of the
// directory or in another mount (EXDEV): the kernel returns that as well if what it has just
// found is moved out of the directory meanwhile.
const (
	maxTries     = 100
	maxCrossings = 4
)

// Open opens path, relative to the directory dir, with openat2(2). It never leaves dir,
// follows no symbolic link and enters no other mount: those are ELOOP and EXDEV. flags are
// those of open(2), to which O_CLOEXEC is added; with O_PATH and O_NOFOLLOW the last name
// may be a symbolic link. mode is that of a file made with O_CREAT or O_TMPFILE, else 0. The
// error is an Errno.
func Open(dir int, path string, flags int, mode uint32) (int, error) {
	return open(dir, path, &unix.OpenHow{
		Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode),
		// and so no magic links
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
}

// OpenAcross is Open, but enters what is mounted on the way.
func OpenAcross(dir int, path string, flags int, mode uint32) (int, error) {
	return open(dir, path, &unix.OpenHow{
		Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
}

// OpenIn opens path as if the directory dir were the root directory: it follows symbolic links, and
// none leads out of dir. flags are as in Open. The error is an Errno.
func OpenIn(dir int, path string, flags int) (int, error) {
	return open(dir, path, &unix.OpenHow{
		Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// OpenPlain opens what is at an absolute path, over no symbolic link (ELOOP), but over mounts.
// flags are as in Open. The error is an *os.PathError. The caller closes the file.
func OpenPlain(path string, flags int) (*os.File, error) {
	fd, err := open(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func open(dir int, path string, how *unix.OpenHow) (int, error) {
	for tries := 1; ; tries++ {
		fd, err := unix.Openat2(dir, path, how)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && tries < maxTries:
		case err == unix.EXDEV && tries < maxCrossings:
		default:
			return fd, err
		}
	}
}
