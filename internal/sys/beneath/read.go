package beneath

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OpenFile opens the regular file at path below dir for reading, as Open does. What is not a regular
// file is EINVAL; it does not wait at a FIFO. The error is an *os.PathError. The caller closes the
// file.
func OpenFile(dir int, path string) (*os.File, error) {
	fd, err := Open(dir, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Base(path)), nil
}

// ReadFile returns the content of the regular file at path below dir. One of more than most bytes
// is EFBIG. The error is otherwise that of OpenFile, or of reading.
func ReadFile(dir int, path string, most int64) ([]byte, error) {
	f, err := OpenFile(dir, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if st, err := f.Stat(); err == nil {
		// what grows is copied, page by page
		b.Grow(int(min(max(st.Size(), 0), most)) + bytes.MinRead)
	}
	n, err := b.ReadFrom(io.LimitReader(f, most+1))
	if err == nil && n > most {
		return nil, &os.PathError{Op: "read", Path: path, Err: unix.EFBIG}
	}
	return b.Bytes(), err
}
