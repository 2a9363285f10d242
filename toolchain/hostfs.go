package toolchain

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A hostFS is a directory of the host whose Open is for directories only. It takes five system
// calls to list one where [os.DirFS] takes nine, and never waits for a named pipe.
type hostFS struct {
	fs.ReadLinkFS
	root string
}

// HostFS returns the host's root directory, for [Host.FS]. It is safe for concurrent use.
func HostFS() fs.FS { return hostFS{os.DirFS("/").(fs.ReadLinkFS), "/"} }

// Open opens a directory; anything else is an error.
func (h hostFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	for {
		fd, err := unix.Open(h.root+name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if err != unix.EINTR { // a system call's own error
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}
