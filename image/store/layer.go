package store

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/runtime"
)

// Whiteouts: names in a layer that delete files of the layers below it (OCI image
// specification, layer.md).
const (
	whiteout     = ".wh."
	whiteoutMeta = ".wh..wh." // aufs's own, but for opaque
	opaque       = ".wh..wh..opq"
)

// An unpacker applies the layers of one image, in order, to a tree.
type unpacker struct {
	tree *tree
	lim  Limits
	buf  []byte

	size    int64 // bytes in files so far
	files   int   // names so far, with implied directories
	skipped int   // device nodes so far

	facts map[string]fact // by the names in the current layer
	names int             // bytes in facts

	owners map[string]owner // what the tree does not have, by name
	owned  int              // bytes in names of owners so far
}

// A fact is what is known of a name in the current layer.
type fact uint8

const (
	// the layer has it, or a name below it: no whiteout in the layer deletes it
	made fact = 1 << iota
	// nothing of the layers below is left below it, and so it stays: no whiteout looks again
	clean
)

func newUnpacker(t *tree, lim Limits) *unpacker {
	return &unpacker{tree: t, lim: lim, buf: make([]byte, 256<<10), owners: map[string]owner{}}
}

// invalid returns an error of class ErrInvalid, for a layer's content.
func invalid(format string, args ...any) error {
	return runtime.Errorf(runtime.ErrInvalid, format, args...)
}

// layer applies one layer. It reads r to the end of the tar archive.
func (u *unpacker) layer(r io.Reader) error {
	u.facts, u.names = map[string]fact{}, 0
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

// tarError gives an error of the tar reader its class.
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
	if err := u.count(); err != nil {
		return err
	}
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if name == "." { // the root, whose mode is fixed
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
	if err := u.create(parent, base, name, h, content); err != nil {
		return err
	}
	o, ok := u.ownedOf(h)
	if !ok {
		delete(u.owners, name)
		return nil
	}
	return u.own(parent, base, name, o)
}

// ownedOf returns what a header has that Owned keeps, if it has a file. A hard link has what its
// target has.
func (u *unpacker) ownedOf(h *tar.Header) (Owned, bool) {
	switch h.Typeflag {
	case tar.TypeLink:
		to, err := inside(h.Linkname)
		o, ok := u.owners[to]
		return o.Owned, err == nil && ok
	case tar.TypeChar, tar.TypeBlock:
		return Owned{}, false
	}
	o := Owned{UID: uint32(h.Uid), GID: uint32(h.Gid), Mode: uint32(h.Mode) & 0o7777}
	if caps := h.PAXRecords[capability]; caps != "" && len(caps) <= maxCaps && h.Typeflag != tar.TypeSymlink {
		o.Caps = []byte(caps)
	}
	return o, true
}

// create makes what an entry describes.
func (u *unpacker) create(parent int, base, name string, h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return u.tree.dir(parent, base, name, mode(h))
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.file(parent, base, name, h, content)
	case tar.TypeSymlink:
		if t := h.Linkname; t == "" || len(t) >= unix.PathMax || strings.IndexByte(t, 0) >= 0 {
			return invalid("symbolic link to %.100q", t)
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
		// A sandbox has devices of its own; making others needs root.
		u.skipped++
		return u.tree.remove(parent, base, name)
	}
	return invalid("unknown type %q", h.Typeflag)
}

// mode returns the part of an entry's mode that is kept. Set-id bits mean nothing to the
// one user of a sandbox, and do harm on the host.
func mode(h *tar.Header) uint32 { return uint32(h.Mode) & 0o1777 }

// count adds a name.
func (u *unpacker) count() error {
	if u.files++; u.files > u.lim.Files {
		return tooLarge("more than %d files", u.lim.Files)
	}
	return nil
}

func tooLarge(format string, args ...any) error {
	return invalid("the image is too large: "+format, args...)
}

// inside returns an entry's name relative to the root, without leading slash and without
// . and empty parts. A name with .. parts is an error.
func inside(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || strings.IndexByte(part, 0) >= 0 {
			return "", invalid("the name leads out of the image")
		}
	}
	if len(name) >= unix.PathMax {
		return "", invalid("the name is too long")
	}
	return path.Clean("./" + name), nil
}

// note marks name, and all directories on the way, as made.
func (u *unpacker) note(name string) error {
	for name != "." && u.facts[name]&made == 0 {
		if err := u.mark(name, made); err != nil {
			return err
		}
		name = path.Dir(name)
	}
	return nil
}

// mark adds a fact.
func (u *unpacker) mark(name string, is fact) error {
	was, ok := u.facts[name]
	if !ok {
		if u.names += len(name); u.names > maxNames {
			return tooLarge("the names in a layer take more than %d bytes", maxNames)
		}
	}
	u.facts[name] = was | is
	return nil
}

// enter returns a descriptor of a directory, valid until the next one. It makes missing
// directories, and replaces other files of lower layers in their place, as a layer
// mounted over them would. Such a file of this layer itself is an error.
func (u *unpacker) enter(dir string) (int, error) {
	fd, err := u.tree.open(dir)
	if !absent(err) {
		return fd, err
	}
	at, err := u.tree.openAside(".")
	if err != nil {
		return -1, err
	}
	end := 0 // of the name of at, in dir
	for part := range strings.SplitSeq(dir, "/") {
		end += len(part)
		next, err := u.descend(at, part, dir[:end])
		_ = unix.Close(at)
		if err != nil {
			return -1, err
		}
		at, end = next, end+1
	}
	u.tree.keep(dir, at)
	return at, nil
}

// descend is enter for one directory in another one; name is its whole name. The caller
// closes the descriptor.
func (u *unpacker) descend(parent int, base, name string) (int, error) {
	kind, err := kindOf(parent, base)
	switch {
	case err != nil:
		return -1, err
	case kind == unix.S_IFDIR:
		return u.tree.openIn(parent, base)
	case kind != 0 && u.facts[name]&made != 0:
		return -1, invalid("%.300q on the way is not a directory but a link or file of the same layer", name)
	}
	if err := u.count(); err != nil {
		return -1, err
	}
	if err := u.tree.dir(parent, base, name, 0o755); err != nil {
		return -1, err
	}
	return u.tree.openIn(parent, base)
}

// replace deletes base in parent, if it exists, and calls make.
func (u *unpacker) replace(parent int, base, name string, make func() error) error {
	if err := u.tree.remove(parent, base, name); err != nil {
		return err
	}
	return make()
}

// hardLink links to an existing file anywhere in the tree, without following links.
func (u *unpacker) hardLink(parent int, base, name, target string) error {
	to, err := inside(target)
	if err != nil || to == "." {
		return invalid("hard link to %.300q, which is not in the image", target)
	}
	if to == name {
		return invalid("hard link to itself")
	}
	dir, toBase := path.Split(to)
	return u.replace(parent, base, name, func() error {
		from, err := u.tree.openAside(path.Clean(dir))
		if err == nil {
			defer unix.Close(from)
			err = unix.Linkat(from, toBase, parent, base, 0)
		}
		if err != nil {
			return invalid("hard link to %.300q: %w", target, err)
		}
		return nil
	})
}

// file makes a regular file. Blocks of zeros become holes.
func (u *unpacker) file(parent int, base, name string, h *tar.Header, content io.Reader) error {
	if h.Size < 0 || h.Size > u.lim.Size-u.size {
		return tooLarge("the files have more than %d bytes", u.lim.Size)
	}
	u.size += h.Size
	return u.replace(parent, base, name, func() (err error) {
		f, err := beneath.Create(parent, base, 0o600)
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
		// The owner, a sandbox's only user, can always read it.
		if err := f.Chmod(fs.FileMode(h.Mode)&0o777 | 0o400); err != nil {
			return err
		}
		return setTime(f, h.ModTime)
	})
}

// zeros reports whether b, which is not empty, has only zero bytes.
func zeros(b []byte) bool {
	return b[0] == 0 && bytes.Equal(b[:len(b)-1], b[1:])
}

// whiteout applies the whiteout base in dir: it deletes a name of the layers below, or
// their content of dir.
func (u *unpacker) whiteout(dir, base string) error {
	victim := path.Join(dir, strings.TrimPrefix(base, whiteout))
	switch {
	case base == opaque:
		victim = dir
	case strings.HasPrefix(base, whiteoutMeta):
		return nil
	case base == whiteout || base == whiteout+"." || base == whiteout+"..":
		return invalid("whiteout without a name")
	}
	return u.deleteLower(victim, base == opaque)
}

// deleteLower deletes name and all below it, but for what the current layer has. With keep
// it does not delete name itself, but its content.
func (u *unpacker) deleteLower(name string, keep bool) error {
	known := u.facts[name]
	if known&made == 0 && !keep {
		dir, base := path.Split(name)
		parent, err := u.tree.open(path.Clean(dir))
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return u.tree.remove(parent, base, name)
	}
	if known&clean != 0 {
		return nil
	}
	at, err := u.tree.openAside(name)
	switch {
	case err == nil:
		err = u.purge(at, name)
	case absent(err):
		err = nil // or it is a file of this layer
	}
	if err != nil {
		return err
	}
	return u.mark(name, clean)
}

// purge deletes what is below the directory name, but for what the current layer has. Each
// directory is listed once, however many whiteouts a layer has. It closes the descriptor at.
func (u *unpacker) purge(at int, name string) error {
	defer func() { _ = unix.Close(at) }()
	move := func(fd int, err error) error {
		if err == nil {
			_ = unix.Close(at)
			at = fd
		}
		return err
	}
	type level struct {
		name string
		left []string // names in it
	}
	left, err := u.tree.list(at)
	levels := []level{{name, left}}
	for err == nil {
		l := &levels[len(levels)-1]
		if len(l.left) == 0 {
			if levels = levels[:len(levels)-1]; len(levels) == 0 {
				return nil
			}
			err = move(u.tree.openAbove(at)) // depth costs no descriptors
			continue
		}
		base := l.left[len(l.left)-1]
		l.left = l.left[:len(l.left)-1]
		name := path.Join(l.name, base)
		known := u.facts[name]
		if known&made == 0 {
			err = u.tree.remove(at, base, name)
			continue
		}
		u.facts[name] = known | clean
		if known&clean != 0 {
			continue
		}
		switch err = move(u.tree.openIn(at, base)); {
		case err == nil:
			left, err = u.tree.list(at)
			levels = append(levels, level{name, left})
		case absent(err):
			err = nil // a file of this layer
		}
	}
	return err
}

// absent reports whether err means that a directory does not exist.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
