package gitscan

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/beneath"
)

// A File is what is known of a file of the scanned tree. Times are in
// nanoseconds since 1970.
type File struct {
	Link         bool   // a symbolic link: Content is its target
	Content      []byte // nil if it is longer than was asked for
	Ctime, Mtime int64
	Inode        uint64
	Size         int64
}

// Read reads the file or symbolic link called name, a path relative to root,
// without following a link. Content of more than limit bytes is left out.
// Anything but a file or a link is an error.
func Read(root *os.File, name string, limit int64) (*File, error) {
	f, err := openAt(root, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	file := &File{Ctime: st.Ctim.Nano(), Mtime: st.Mtim.Nano(), Inode: st.Ino, Size: st.Size}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		file.Link = true
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(f.Fd()), "", target)
		if err != nil {
			return nil, &os.PathError{Op: "readlink", Path: name, Err: err}
		}
		file.Content = target[:n]
		return file, nil
	case unix.S_IFREG:
	default:
		return nil, &os.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	if st.Size > limit {
		return file, nil
	}
	r, err := reopen(f)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) <= limit {
		file.Content = content
	}
	return file, nil
}

// reopen opens what f, of O_PATH, stands for, to read.
func reopen(f *os.File) (*os.File, error) {
	r, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(f.Fd()))) // the same inode
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Name(), err)
	}
	return r, nil
}

// openRegularAt opens the regular file called name below root.
func openRegularAt(root *os.File, name string) (*os.File, error) {
	f, err := openAt(root, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	return reopen(f)
}

// openAt opens what is called name below root, without leaving the mount or
// following a link on the way; the last name is up to flags.
func openAt(root *os.File, name string, flags int) (*os.File, error) {
	fd, err := beneath.Open(int(root.Fd()), name, flags, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
