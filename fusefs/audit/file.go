package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// MaxSize bounds each of a log's two files, in bytes.
const MaxSize = 8 << 20

// old returns the path of the older file of the log at path.
func old(path string) string { return path + ".1" }

// A file is the newer file of a log, for writing; the first write opens it. It is not safe for
// concurrent use.
type file struct {
	path string
	max  int64 // bytes

	f    *os.File // nil: not opened
	size int64
	torn bool // the file does not end with a newline
}

// write appends one line, which ends with a newline. After an error a part of the line may be in
// the log; the next write ends that line first.
func (w *file) write(text []byte) error {
	if w.f == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	if w.size > 0 && w.size+int64(len(text))+1 > w.max {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	if w.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := w.f.Write(text)
	w.size += int64(n)
	if n > 0 {
		w.torn = n < len(text)
	}
	return err
}

func (w *file) open() error {
	f, size, err := openLog(w.path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	w.f, w.size, w.torn = f, size, false
	if size > 0 {
		last := make([]byte, 1)
		_, err := f.ReadAt(last, size-1)
		w.torn = err != nil || last[0] != '\n' // the writer was killed, or the disk was full
	}
	return nil
}

// rotate makes the file the older one, replacing that, and opens a new one.
func (w *file) rotate() error {
	if err := os.Rename(w.path, old(w.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	return w.open()
}

func (w *file) close() error {
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}

// openLog opens one file of a log and returns its size. It refuses a file that another program
// may have put there: wolffia must not write through a link, nor wait for a FIFO.
func openLog(path string, flags int) (_ *os.File, size int64, err error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, 0, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil {
		switch {
		case st.Mode&unix.S_IFMT != unix.S_IFREG:
			err = errors.New("not a regular file: remove it")
		case st.Nlink > 1:
			err = errors.New("the file has several links: remove it")
		case st.Size > 2*MaxSize:
			err = fmt.Errorf("%d bytes are more than wolffia writes (%d): remove it", st.Size, MaxSize)
		}
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("audit log %s: %w", path, err), f.Close())
	}
	return f, st.Size, nil
}
