package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotRegular is wrapped by the error for a file that is not regular.
	ErrNotRegular = errors.New("not a regular file")

	// ErrShort is wrapped by the error for content that ends early.
	ErrShort = errors.New("the content is incomplete")
)

// Get writes the content of the regular file at path to w. Symbolic links are
// followed. A missing file is [fs.ErrNotExist], one that is not regular
// ErrNotRegular, one of more than maxBytes ErrTooLarge.
func Get(w io.Writer, path string, maxBytes int64) error {
	f, size, err := OpenRegular(path)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return fmt.Errorf("read %q: %w", path, err)
	}
	defer f.Close()
	n := int64(0)
	if size <= maxBytes { // files of /proc have size 0, whatever they hold
		n, err = copyPlain(w, io.LimitReader(f, maxBytes+1))
	}
	switch {
	case max(n, size) > maxBytes:
		return fmt.Errorf("read %q: %w: more than %d bytes", path, ErrTooLarge, maxBytes)
	case err != nil:
		return fmt.Errorf("read %q: %w", path, err)
	}
	return nil
}

// OpenRegular opens a regular file for reading, and returns its size in bytes. It follows
// symbolic links, and does not open a FIFO or a device: that can block, or have an effect. The
// caller closes the file.
func OpenRegular(path string) (f *os.File, size int64, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !st.Mode().IsRegular() {
		return nil, 0, ErrNotRegular
	}
	if f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0); err != nil {
		return nil, 0, err
	}
	if st, err = f.Stat(); err == nil && !st.Mode().IsRegular() { // it was replaced
		err = ErrNotRegular
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, st.Size(), nil
}

// Put makes the size bytes of r the content of the file at path, whose missing
// parents it creates. It writes another file beside it and renames that: a link is
// replaced, not followed, and a regular file's permissions are kept. Where no file
// can be created beside it, Put writes the file in place, and puts its old content
// back if it fails. What is neither a regular file nor a link is ErrNotRegular; so is
// a link where nothing can be created. If r ends early, the error is ErrShort and
// nothing is changed.
func Put(r io.Reader, path string, size int64) error {
	return PutFrom(func(w io.Writer) error { return exactly(w, r, size) }, path)
}

// PutFrom is Put of what fill writes. If fill fails, nothing is changed.
func PutFrom(fill func(io.Writer) error, path string) error {
	if err := put(fill, path); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	return nil
}

func put(fill func(io.Writer) error, path string) error {
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return err
	}
	old, err := os.Lstat(path)
	exists := err == nil
	if exists && !old.Mode().IsRegular() && old.Mode().Type() != fs.ModeSymlink { // a process may wait at it
		return ErrNotRegular
	}
	temp := filepath.Join(parent, tempName())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		var content bytes.Buffer
		if err := fill(&content); err != nil {
			return err
		}
		return putInPlace(path, content.Bytes())
	}
	if exists && old.Mode().IsRegular() {
		err = f.Chmod(old.Mode() & permission)
	}
	if err == nil {
		err = fill(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// putInPlace makes content that of the file at path.
func putInPlace(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if errors.Is(err, unix.ELOOP) {
		return ErrNotRegular
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return errors.Join(ErrNotRegular, err)
	}
	old := bytes.NewBuffer(make([]byte, 0, st.Size()+bytes.MinRead))
	if _, err := old.ReadFrom(f); err != nil {
		return err
	}
	if err = overwrite(f, bytes.NewReader(content)); err == nil {
		return nil
	}
	if missing {
		return errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, overwrite(f, bytes.NewReader(old.Bytes())))
}

// overwrite makes the content of a file that of from, which it reads from its
// beginning.
func overwrite(f *os.File, from io.ReadSeeker) error {
	for _, s := range []io.Seeker{from, f} {
		if _, err := s.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	n, err := copyPlain(f, from)
	if err != nil {
		return err
	}
	return f.Truncate(n)
}

// exactly copies size bytes, after which r must end.
func exactly(w io.Writer, r io.Reader, size int64) error {
	n, err := copyPlain(w, io.LimitReader(r, size+1))
	switch {
	case err != nil:
		return err
	case n != size:
		return fmt.Errorf("%w: %d bytes of %d", ErrShort, n, size)
	}
	return nil
}

// copyPlain copies by Read and Write alone: no system call that copies between
// files, which file systems of all kinds do in their own ways.
func copyPlain(w io.Writer, r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, bufferSize))
}
