// Package buildcontext unpacks what clients send to build images of.
package buildcontext

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"wolffia/runtime"
)

// maxContext is the largest context of a build, in bytes; maxFiles how many files it has at most.
const (
	maxContext = 8 << 30
	maxFiles   = 1_000_000
)

// Unpack unpacks an archive of a build's context (tar, which may be compressed by gzip) in a
// directory, and nothing outside of it. Both are hostile. It is safe for concurrent use.
func Unpack(dir string, r io.Reader) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	buffered := bufio.NewReader(&io.LimitedReader{R: r, N: maxContext})
	r = buffered
	if magic, _ := buffered.Peek(2); string(magic) == "\x1f\x8b" {
		if r, err = gzip.NewReader(buffered); err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "the build's context: %w", err)
		}
	}
	archive, size := tar.NewReader(r), int64(0)
	for n := 0; ; n++ {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			if size += max(0, head.Size); n == maxFiles || size > maxContext {
				err = errors.New("it is too large")
			} else {
				err = unpackOne(root, head, archive)
			}
		}
		if err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "the build's context: %w", err)
		}
	}
}

func unpackOne(root *os.Root, h *tar.Header, r io.Reader) error {
	name := filepath.Clean(h.Name)
	mode := h.FileInfo().Mode().Perm()
	if name == "." {
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
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
