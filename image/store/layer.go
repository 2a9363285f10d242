package store

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// Whiteouts: names in a layer that stand for what is deleted of the layers
// below it (OCI image specification, layer.md).
const (
	whiteout     = ".wh."
	whiteoutMeta = ".wh..wh." // aufs's own, but for
	opaque       = ".wh..wh..opq"
)

// An unpacker applies the layers of one image, in order, to a tree.
type unpacker struct {
	tree *tree
	lim  Limits
	buf  []byte

	size    int64 // bytes in files so far
	files   int   // names so far, those included that were only implied
	skipped int   // device nodes

	// made has what the current layer has brought, with all directories on the
	// way: a whiteout deletes the rest only.
	made  map[string]struct{}
	names int // bytes in made
}

func newUnpacker(t *tree, lim Limits) *unpacker {
	return &unpacker{tree: t, lim: lim, buf: make([]byte, 256<<10)}
}

// invalid is an error about a layer's content.
func invalid(format string, args ...any) error {
	return runtime.Errorf(runtime.ErrInvalid, format, args...)
}

// layer applies one layer. It reads r up to the end of the tar archive in it.
func (u *unpacker) layer(r io.Reader) error {
	u.made, u.names = map[string]struct{}{}, 0
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return tarError(err)
		}
		if err := u.entry(h, tr); err != nil {
			return fmt.Errorf("%.300q: %w", h.Name, err)
		}
	}
}

// tarError classes what the tar reader says.
func tarError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return runtime.WithClass(runtime.ErrInvalid, err)
	}
	return err
}

// entry applies one entry.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // comments, of git archive
	}
	if err := u.count(1); err != nil {
		return err
	}
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if name == "." { // the root itself, which has modes of its own
		if h.Typeflag != tar.TypeDir {
			return invalid("the root must be a directory")
		}
		return nil
	}
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	if strings.HasPrefix(base, whiteout) {
		return u.whiteout(dir, base)
	}
	parent, err := u.enter(dir)
	if err != nil {
		return err
	}
	if err := u.note(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.tree.dir(parent, base, name, mode(h))
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.file(parent, base, name, h, content)
	case tar.TypeSymlink:
		if t := h.Linkname; t == "" || len(t) >= unix.PathMax || strings.IndexByte(t, 0) >= 0 {
			return invalid("it is a symbolic link to %.100q", t)
		}
		return u.replace(parent, base, name, func() error { return unix.Symlinkat(h.Linkname, parent, base) })
	case tar.TypeLink:
		return u.hardLink(parent, base, name, h.Linkname)
	case tar.TypeFifo:
		return u.replace(parent, base, name, func() error {
			if err := unix.Mknodat(parent, base, unix.S_IFIFO, 0); err != nil {
				return err
			}
			return unix.Fchmodat(parent, base, mode(h), 0) // whatever the umask
		})
	case tar.TypeChar, tar.TypeBlock:
		// A sandbox has devices of its own, and nobody else may make any.
		u.skipped++
		return u.tree.remove(parent, base, name)
	}
	return invalid("it is of the unknown type %q", h.Typeflag)
}

// mode is what is kept of an entry's mode. Set-id bits mean nothing where there
// is one user, and harm on the host.
func mode(h *tar.Header) uint32 { return uint32(h.Mode) & 0o1777 }

// count adds names to those there are.
func (u *unpacker) count(n int) error {
	if u.files += n; u.files > u.lim.Files {
		return tooLarge("it has more than %d files", u.lim.Files)
	}
	return nil
}

func tooLarge(format string, args ...any) error {
	return invalid("the image is too large: "+format, args...)
}

// inside is an entry's name relative to the root, without . and empty parts.
// One that begins with a slash means the same without; one that has .. parts
// means no good.
func inside(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || strings.IndexByte(part, 0) >= 0 {
			return "", invalid("its name leads out of the image")
		}
	}
	if len(name) >= unix.PathMax {
		return "", invalid("its name is too long")
	}
	return path.Clean("./" + name), nil
}

// note records that the layer has brought name, and is in all directories on
// the way.
func (u *unpacker) note(name string) error {
	for name != "." {
		if _, ok := u.made[name]; ok {
			return nil
		}
		u.made[name] = struct{}{}
		if u.names += len(name); u.names > maxNames {
			return tooLarge("the names in a layer take more than %d bytes", maxNames)
		}
		name = path.Dir(name)
	}
	return nil
}

// enter returns a descriptor of a directory, which stays the tree's. What is
// not there is made; what is there and no directory is replaced, as it would be
// by a layer mounted over it. It is never followed: if this layer itself has
// brought it, that is an error.
func (u *unpacker) enter(dir string) (int, error) {
	fd, err := u.tree.open(dir)
	if err == nil || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		return fd, err
	}
	at := "."
	for part := range strings.SplitSeq(dir, "/") {
		parent, err := u.tree.open(at)
		if err != nil {
			return -1, err
		}
		at = path.Join(at, part)
		kind, err := kindOf(parent, part)
		switch {
		case err != nil:
			return -1, err
		case kind == unix.S_IFDIR:
			continue
		case kind != 0:
			if _, ok := u.made[at]; ok {
				return -1, invalid("%.300q, in which it lies, is no directory but a link or file of the same layer", at)
			}
		}
		if err := u.count(1); err != nil {
			return -1, err
		}
		if err := u.tree.dir(parent, part, at, 0o755); err != nil {
			return -1, err
		}
	}
	return u.tree.open(dir)
}

// replace deletes what has the name, and makes it anew.
func (u *unpacker) replace(parent int, base, name string, make func() error) error {
	if err := u.tree.remove(parent, base, name); err != nil {
		return err
	}
	return make()
}

// hardLink links to a file that is there already, wherever in the tree, without
// following links.
func (u *unpacker) hardLink(parent int, base, name, target string) error {
	to, err := inside(target)
	if err != nil || to == "." {
		return invalid("it is a hard link to %.300q, which is not in the image", target)
	}
	if to == name {
		return invalid("it is a hard link to itself")
	}
	dir, toBase := path.Split(to)
	return u.replace(parent, base, name, func() error {
		from, err := u.tree.openAside(path.Clean(dir))
		if err == nil {
			defer unix.Close(from)
			err = unix.Linkat(from, toBase, parent, base, 0)
		}
		if err != nil {
			return invalid("it is a hard link to %.300q: %w", target, err)
		}
		return nil
	})
}

// file makes a regular file. Blocks of zeros become holes.
func (u *unpacker) file(parent int, base, name string, h *tar.Header, content io.Reader) error {
	if h.Size < 0 || h.Size > u.lim.Size-u.size {
		return tooLarge("its files have more than %d bytes", u.lim.Size)
	}
	u.size += h.Size
	return u.replace(parent, base, name, func() (err error) {
		f, err := create(parent, base)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		var at int64
		for {
			n, err := io.ReadFull(content, u.buf)
			if n > 0 && !zeros(u.buf[:n]) {
				if _, err := f.WriteAt(u.buf[:n], at); err != nil {
					return err
				}
			}
			at += int64(n)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && at == h.Size {
				break
			}
			if err != nil {
				return tarError(err)
			}
		}
		if err := f.Truncate(at); err != nil {
			return err
		}
		if err := f.Chmod(fileMode(mode(h))); err != nil {
			return err
		}
		return setTime(f, h.ModTime)
	})
}

// zeros reports whether b has no other bytes.
func zeros(b []byte) bool {
	return b[0] == 0 && bytes.Equal(b[:len(b)-1], b[1:])
}

// whiteout deletes what the layers below have: a name, or all that is in dir.
func (u *unpacker) whiteout(dir, base string) error {
	victim := path.Join(dir, strings.TrimPrefix(base, whiteout))
	switch {
	case base == opaque:
		victim = dir
	case strings.HasPrefix(base, whiteoutMeta):
		return nil
	case base == whiteout || base == whiteout+"." || base == whiteout+"..":
		return invalid("it is a whiteout of nothing")
	}
	return u.deleteLower(victim, base == opaque)
}

// deleteLower deletes what is at and below name, but for what the current layer
// has brought. A directory that is kept, or made opaque, loses what is in it.
func (u *unpacker) deleteLower(name string, keep bool) error {
	left := []string{name} // directories are visited by name: depth costs no descriptors
	for len(left) > 0 {
		at := left[len(left)-1]
		left = left[:len(left)-1]
		_, brought := u.made[at]
		if !brought && !(keep && at == name) {
			dir, base := path.Split(at)
			parent, err := u.tree.open(path.Clean(dir))
			if absent(err) {
				continue
			}
			if err == nil {
				err = u.tree.remove(parent, base, at)
			}
			if err != nil {
				return err
			}
			continue
		}
		children, err := u.tree.list(at)
		if absent(err) {
			continue // or it is no directory: it is this layer's
		}
		if err != nil {
			return err
		}
		for _, c := range children {
			left = append(left, path.Join(at, c))
		}
	}
	return nil
}

// absent reports whether an error says that there is no such directory.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
