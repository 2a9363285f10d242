package recipe

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/rmtree"
)

// unpack unpacks a file into the destination, if it is an archive. It reports whether it is one.
// Devices are left out.
func (s *Sources) unpack(t *target, src *source, name string, st *unix.Stat_t) (bool, error) {
	f, err := src.open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	c := newContent(f)
	r, err := plain(c)
	if err != nil || !isTar(r) {
		return false, err
	}
	dir, err := t.dir(s.of.Dest)
	if err != nil {
		return true, err
	}
	defer dir.Close()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			sum, err := c.sum()
			if err != nil {
				return true, err
			}
			return true, src.fact(s.out, name, st, sum)
		}
		if err != nil {
			return true, invalid("%.300q: %w", name, err)
		}
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			if s.skipped++; s.skipped == 1 {
				s.first = h.Name
			}
			continue
		}
		if err := t.entryOf(dir, h, tr, s.of.Chown != ""); err != nil {
			return true, invalid("%.300q: %.300q: %w", name, h.Name, err)
		}
	}
}

// plain returns what is compressed in a file, or what is in it.
func plain(f io.Reader) (*bufio.Reader, error) {
	r := bufio.NewReader(f)
	head, _ := r.Peek(6)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r)
		if err != nil {
			return r, nil
		}
		return bufio.NewReader(z), nil
	case bytes.HasPrefix(head, []byte("BZh")):
		return bufio.NewReader(bzip2.NewReader(r)), nil
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return nil, invalid("an archive compressed by xz cannot be unpacked: compress it with gzip, or unpack it in a RUN")
	}
	return r, nil
}

// isTar reports whether what follows is a tar archive.
func isTar(r *bufio.Reader) bool {
	const block = 512
	head, err := r.Peek(block)
	return err == nil && string(head[257:262]) == "ustar"
}

// entryOf makes a file of an archive below dir. No name leads out of it, over links neither.
func (t *target) entryOf(dir *os.File, h *tar.Header, content io.Reader, chown bool) error {
	name := path.Clean("/" + h.Name)[1:]
	if h.Typeflag == tar.TypeXGlobalHeader || name == "" {
		return nil
	}
	for part := range strings.SplitSeq(h.Name, "/") {
		if part == ".." {
			return errors.New("the name leads out of the archive")
		}
	}
	parent, err := t.make(dir, path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	fd, base := int(parent.Fd()), path.Base(name)
	uid, gid := h.Uid, h.Gid
	if chown {
		uid, gid = t.uid, t.gid
	}
	mode := uint32(h.Mode) & 0o7777
	if h.Typeflag != tar.TypeDir {
		var st unix.Stat_t
		if unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			if err := rmtree.Remove(parent, base); err != nil {
				return fmt.Errorf("replace: %w", err)
			}
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := unix.Mkdirat(fd, base, 0o700); err != nil && err != unix.EEXIST {
			return err
		}
		sub, err := below(parent, base) // not a link
		if err != nil {
			return err
		}
		_ = sub.Close()
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		err = writeFile(parent, base, content, uid, gid, mode)
	case tar.TypeSymlink:
		err = symlink(parent, base, h.Linkname, uid, gid)
	case tar.TypeLink:
		to := path.Clean("/" + h.Linkname)[1:]
		from, err := below(dir, path.Dir(to))
		if err != nil {
			return err
		}
		defer from.Close()
		if err := clearWay(parent, base); err != nil {
			return err
		}
		return unix.Linkat(int(from.Fd()), path.Base(to), fd, base, 0)
	case tar.TypeFifo:
		if err := clearWay(parent, base); err != nil {
			return err
		}
		err = unix.Mknodat(fd, base, unix.S_IFIFO, 0)
	default:
		err = errors.New("it is of a kind that no image has")
	}
	if err == nil && (h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeFifo) {
		err = own(fd, base, uid, gid, mode)
	}
	if err == nil {
		err = setTime(fd, base, unix.NsecToTimespec(h.ModTime.UnixNano()))
	}
	return err
}

// make returns a directory below dir, with the missing ones on the way made, over no link.
func (t *target) make(dir *os.File, name string) (*os.File, error) {
	if f, err := below(dir, name); err == nil || name == "." {
		return f, err
	}
	parent, err := t.make(dir, path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := t.mkdir(int(parent.Fd()), path.Base(name), 0o755); err != nil && err != unix.EEXIST {
		return nil, err
	}
	return below(parent, path.Base(name))
}
