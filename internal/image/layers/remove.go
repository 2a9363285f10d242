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
	parent, err := open(dir, path.Dir(name))
	if parent == nil {
		return err
	}
	defer parent.Close()
	return rmtree.Remove(parent, path.Base(name))
}

// RemoveEmptyParents removes the parents of a name from the layer at dir that are empty and in none
// of the layers below: a sandbox has made them for a mount. It follows no link.
func RemoveEmptyParents(dir string, below []string, name string) error {
	for name = path.Dir(name); name != "."; name = path.Dir(name) {
		for _, lower := range below {
			f, err := open(lower, name)
			if f != nil {
				_ = f.Close()
			}
			if f != nil || err != nil {
				return err
			}
		}
		parent, err := open(dir, path.Dir(name))
		if err != nil {
			return err
		}
		if parent != nil {
			err = unix.Unlinkat(int(parent.Fd()), path.Base(name), unix.AT_REMOVEDIR)
			_ = parent.Close()
		}
		if err != nil && !errors.Is(err, unix.ENOENT) { // it is not empty, or not a directory
			return nil
		}
	}
	return nil
}

// open opens a directory of the layer at dir. It is nil if the layer has none of that name.
func open(dir, name string) (*os.File, error) {
	root, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	fd, err := beneath.Open(int(root.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
