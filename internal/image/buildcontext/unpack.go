// Package buildcontext unpacks what clients send to build images of.
package buildcontext

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// A Budget is how many bytes of the disk the contexts of a build may still take. It is safe for
// concurrent use.
type Budget struct{ left atomic.Int64 }

// NewBudget returns the budget of a build: 8 GiB.
func NewBudget() *Budget {
	b := new(Budget)
	b.left.Store(maxContext)
	return b
}

const (
	maxContext = 8 << 30
	perFile    = 8 << 10 // bytes of each file or directory, whatever its size: so many are bounded
)

var errLarge = errors.New("it is too large: a build has 8 GiB, or a million files")

// A share is what one archive has taken of a budget.
type share struct {
	*Budget
	taken int64
}

func (s *share) take(n int64) error {
	if n < 0 {
		return errLarge
	}
	s.taken += n
	if s.left.Add(-n) < 0 {
		return errLarge
	}
	return nil
}

// Unpack unpacks an archive of a build's context (tar, which may be compressed by gzip) in a
// directory, and nothing outside of it, within a budget. Both are hostile. It is safe for concurrent
// use. After an error, [runtime.ErrInvalid], or [runtime.ErrUnavailable] of a disk that is full, the
// caller removes what was unpacked: it counts no more.
func Unpack(dir string, r io.Reader, of *Budget) (err error) {
	within := &share{Budget: of}
	defer func() {
		if err != nil {
			of.left.Add(within.taken)
		}
	}()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	buffered := bufio.NewReader(r)
	r = buffered
	if magic, _ := buffered.Peek(2); string(magic) == "\x1f\x8b" {
		if r, err = gzip.NewReader(buffered); err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "the build's context: %w", err)
		}
	}
	plain := &io.LimitedReader{R: r, N: 2 * maxContext} // of files and of their headers
	for archive := tar.NewReader(plain); ; {
		head, err := archive.Next()
		switch {
		case plain.N == 0:
			err = errLarge
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			err = unpackOne(root, head, archive, within)
		}
		switch {
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
			return runtime.Errorf(runtime.ErrUnavailable, "the build's context: %w", err)
		case err != nil:
			return runtime.Errorf(runtime.ErrInvalid, "the build's context: %w", err)
		}
	}
}

func unpackOne(root *os.Root, h *tar.Header, r io.Reader, within *share) error {
	name := filepath.Clean(h.Name)
	mode := h.FileInfo().Mode().Perm()
	if name == "." {
		return nil
	}
	if len(name) >= unix.PathMax {
		return fmt.Errorf("%.100q: a name has %d bytes at most", name, unix.PathMax-1)
	}
	if err := within.take(h.Size); err != nil {
		return err
	}
	if err := within.take(perFile); err != nil {
		return err
	}
	dir := filepath.Dir(name)
	if _, err := root.Lstat(dir); err != nil {
		if err := within.take(perFile * int64(1+strings.Count(dir, "/"))); err != nil {
			return err
		}
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, mode|0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode|0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r) //nolint:gosec // the reader is limited
		err = errors.Join(err, f.Close())
		if err == nil {
			err = root.Chmod(name, mode|0o400)
		}
		if err == nil {
			err = root.Chtimes(name, h.ModTime, h.ModTime)
		}
		return err
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(filepath.Clean(h.Linkname), name)
	case tar.TypeXGlobalHeader:
		return nil
	}
	return errors.New(h.Name + ": it is not a file, directory or link")
}
