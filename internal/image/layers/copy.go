package layers

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
)

// Stats are what a layer has.
type Stats struct {
	Size  int64 // bytes in files
	Files int
	// Several says that a file belongs to another user or group than 0.
	Several bool
}

// Of returns the Stats of the layer at dir.
func Of(dir string) (s Stats, err error) {
	err = walk(dir, nil, func(f *file) error {
		s.Files++
		if f.kind() == unix.S_IFREG {
			s.Size += f.st.Size
		}
		s.Several = s.Several || f.st.Uid != 0 || f.st.Gid != 0
		return nil
	})
	return s, err
}

// Copy copies the layer at from to the directory to, which it makes. Files share their blocks
// where the file system can (ioctl_ficlonerange(2)). ids are those that owners have at from; nil
// if they are the image's. A file of another owner becomes root's.
func Copy(from, to string, ids *store.IDs, skip func(name string) bool) error {
	c := &copier{from: from, to: to, ids: ids, links: map[inode]string{}}
	root := &file{path: from}
	if err := unix.Lstat(from, &root.st); err != nil {
		return &os.PathError{Op: "lstat", Path: from, Err: err}
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	c.dirs = append(c.dirs, root)
	if err := walk(from, func(f *file) bool { return skip != nil && skip(f.name) }, c.add); err != nil {
		return err
	}
	for i := len(c.dirs) - 1; i >= 0; i-- { // times last: a name that is made changes them
		if err := c.finish(c.dirs[i]); err != nil {
			return err
		}
	}
	return nil
}

// A copier copies a layer.
type copier struct {
	from, to string
	ids      *store.IDs
	links    map[inode]string
	dirs     []*file
}

func (c *copier) at(f *file) string { return filepath.Join(c.to, f.name) }

// add copies one file; a directory without its owner and mode.
func (c *copier) add(f *file) error {
	if f.st.Nlink > 1 && f.kind() != unix.S_IFDIR {
		is := inode{f.st.Dev, f.st.Ino}
		if first, ok := c.links[is]; ok {
			return os.Link(filepath.Join(c.to, first), c.at(f))
		}
		c.links[is] = f.name
	}
	var err error
	switch f.kind() {
	case unix.S_IFDIR:
		c.dirs = append(c.dirs, f)
		return os.Mkdir(c.at(f), 0o700)
	case unix.S_IFLNK:
		var target string
		if target, err = os.Readlink(f.path); err == nil {
			err = os.Symlink(target, c.at(f))
		}
	case unix.S_IFIFO:
		err = unix.Mkfifo(c.at(f), 0o600)
	case unix.S_IFREG:
		err = copyContent(f, c.at(f))
	default:
		if f.isWhiteout() {
			err = unix.Mknod(c.at(f), unix.S_IFCHR, 0)
		}
		return err
	}
	if err != nil {
		return err
	}
	return c.finish(f)
}

// finish gives a copy what its file has beside its content.
func (c *copier) finish(f *file) error {
	to := c.at(f)
	uid, gid := c.ids.Inside(f.st.Uid, f.st.Gid)
	err := os.Lchown(to, uid, gid)
	if err == nil && f.kind() != unix.S_IFLNK { // after chown(2), which drops set-id bits and capabilities
		err = unix.Chmod(to, f.st.Mode&0o7777)
	}
	if caps := f.capabilities(); err == nil && caps != nil {
		err = unix.Lsetxattr(to, capsXattr, caps, 0)
	}
	if err == nil && f.isOpaque() {
		err = unix.Lsetxattr(to, opaqueXattr, []byte("y"), 0)
	}
	if err != nil {
		return err
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, f.st.Mtim}
	return unix.UtimesNanoAt(unix.AT_FDCWD, to, times, unix.AT_SYMLINK_NOFOLLOW)
}

// copyContent makes a regular file with the content of another one.
func copyContent(f *file, to string) (err error) {
	in, err := f.open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		return nil
	}
	_, err = io.Copy(out, in) // copy_file_range(2)
	return err
}
