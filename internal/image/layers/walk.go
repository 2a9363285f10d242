// Package layers packs layers of images: directories as overlayfs keeps the changes of an upper
// directory, with userxattr. It writes them as OCI layers, and copies them.
//
// It works on trees that no process changes meanwhile: of stopped sandboxes, of images. What is in
// them is hostile. It runs where the ids of their owners are those of the image: in a user
// namespace in which the user is root, and the subordinate ids are the others.
package layers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// Extended attributes of files in a layer.
const (
	opaqueXattr = "user.overlay.opaque" // "y": nothing below shows in the directory
	capsXattr   = "security.capability" // capabilities(7)
)

// A file is a file of a layer.
type file struct {
	name string // relative to the root, clean
	path string
	st   unix.Stat_t
}

func (f *file) kind() uint32 { return f.st.Mode & unix.S_IFMT }

// isWhiteout reports whether it hides a file of the layers below.
func (f *file) isWhiteout() bool { return f.kind() == unix.S_IFCHR && f.st.Rdev == 0 }

// isOpaque reports whether it is a directory that hides what the layers below have in it.
func (f *file) isOpaque() bool {
	return f.kind() == unix.S_IFDIR && string(xattr(f.path, opaqueXattr)) == "y"
}

// capabilities returns its file capabilities in the form that names no user namespace; nil for
// none.
func (f *file) capabilities() []byte {
	if f.kind() != unix.S_IFREG {
		return nil
	}
	return plainCaps(xattr(f.path, capsXattr))
}

// plainCaps returns VFS_CAP_REVISION_2 of a value of revision 3, which has the root user of a user
// namespace behind it.
func plainCaps(v []byte) []byte {
	const revision2, revision3 = 0x02, 0x03
	if len(v) == 24 && v[3] == revision3 {
		v = append([]byte{}, v[:20]...)
		v[3] = revision2
	}
	return v
}

// xattr returns an attribute of a file itself, or nil.
func xattr(path, name string) []byte {
	var buf [64]byte // longer than all that count
	n, err := unix.Lgetxattr(path, name, buf[:])
	if err != nil || n == 0 {
		return nil
	}
	return buf[:n]
}

// walk calls do with each file below dir, but not dir itself: a directory before its content, names
// in a directory sorted. What skip returns true for, with all below it, is left out; skip may be nil.
func walk(dir string, skip func(*file) bool, do func(*file) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, unix.ENAMETOOLONG) {
			return runtime.Errorf(runtime.ErrUnsupported, "the path %.100q... is longer than %d bytes: remove it", path, unix.PathMax)
		}
		if err != nil || path == dir {
			return err
		}
		f := &file{path: path, name: strings.TrimPrefix(path, dir+"/")}
		if err := unix.Lstat(path, &f.st); err != nil {
			return &os.PathError{Op: "lstat", Path: path, Err: err}
		}
		if f.kind() == unix.S_IFSOCK || skip != nil && skip(f) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err := do(f); err != nil {
			return fmt.Errorf("%.300q: %w", f.name, err)
		}
		return nil
	})
}

// open opens a regular file, and no other, for reading.
func (f *file) open() (*os.File, error) {
	return os.OpenFile(f.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}
