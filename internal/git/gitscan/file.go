package gitscan

import (
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// A File is a file or symbolic link of the scanned tree. Times are in nanoseconds since
// 1970.
type File struct {
	Link         bool   // a symbolic link: Content is its target
	Content      []byte // nil if it is longer than the limit
	Ctime, Mtime int64
	Inode        uint64
	Size         int64
}

// Read reads the regular file or symbolic link at name, a path relative to root, without following
// a link. It omits content of more than limit bytes. An object of another kind is an error.
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
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		file.Link = true
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(f.Fd()), "", target)
		if err != nil {
			return nil, &os.PathError{Op: "readlink", Path: name, Err: err}
		}
		file.Content = target[:n]
		return file, nil
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size > limit {
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

// BlobID returns the id of a blob with this content, in a repository whose ids have size
// bytes: 20 or 32. git add gives the same id without filters and conversions.
func BlobID(content []byte, size int) []byte {
	var h hash.Hash
	if size == sha256.Size {
		h = sha256.New()
	} else {
		h = sha1.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return h.Sum(nil)
}

// errNotRegular is the error for another object where a regular file was expected.
var errNotRegular = errors.New("not a regular file")

// reopen opens for reading the regular file that f, of O_PATH, refers to. Opening
// anything else could block, as a FIFO does, or have effects, as a device can.
func reopen(f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: f.Name(), Err: errNotRegular}
	}
	return os.Open("/proc/self/fd/" + strconv.Itoa(int(f.Fd()))) // the same inode
}

// openRegular opens a regular file for reading. It follows links, as git does.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return reopen(f)
}

// openAt opens the path name below root. It does not leave the mount or follow a link
// on the way; flags decide about a link at the end.
func openAt(root *os.File, name string, flags int) (*os.File, error) {
	fd, err := beneath.Open(int(root.Fd()), name, flags, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
