package layers

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/rmtree"
)

// Remove removes a name from the layer at dir, with all below it. It follows no link, and a name
// that does not exist is no error.
func Remove(dir, name string) error {
	root, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	fd, err := beneath.Open(int(root.Fd()), path.Dir(name), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	parent := os.NewFile(uintptr(fd), path.Dir(name))
	defer parent.Close()
	return rmtree.Remove(parent, path.Base(name))
}
