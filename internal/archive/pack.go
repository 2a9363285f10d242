package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Pack writes the file, directory tree or symbolic link at path to w. The top
// entry has the base name of path, so that "." has the name of the directory it
// is; "/" has none and is an error. A file below the top that is neither regular
// nor a directory nor a symbolic link, such as a FIFO, is left out: skipped names
// the first ones, or is empty. The top must be of these kinds; the error else wraps
// ErrKind. What vanishes meanwhile is left out; a file that shrinks is an error.
// After an error w holds an incomplete stream, which Unpack refuses.
func Pack(w io.Writer, path string) (skipped string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	top := filepath.Base(abs)
	if top == "/" {
		return "", fmt.Errorf("read %q: it has no name", path)
	}
	dir, err := os.OpenFile(filepath.Dir(abs), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		defer dir.Close()
		p := packer{w: tar.NewWriter(w), buf: make([]byte, bufferSize)}
		if err = p.pack(int(dir.Fd()), top, top, 1); err == nil {
			err = p.w.Close()
		}
		skipped = p.skipped()
	}
	if err != nil {
		return "", fmt.Errorf("read %q: %w", path, err)
	}
	return skipped, nil
}

// A packer writes one stream.
type packer struct {
	w       *tar.Writer
	buf     []byte
	headers int // written

	others []string // the first files of kinds that no stream has
	more   int      // how many there are beside them
}

// maxOthers is how many of the files that are left out have their names in a message.
const maxOthers = 3

// skip leaves a file out.
func (p *packer) skip(path string) {
	if len(p.others) == maxOthers {
		p.more++
		return
	}
	p.others = append(p.others, fmt.Sprintf("%.300q", path))
}

// skipped says what was left out; empty: nothing.
func (p *packer) skipped() string {
	if len(p.others) == 0 {
		return ""
	}
	text := strings.Join(p.others, ", ")
	if p.more > 0 {
		text += fmt.Sprintf(" and %d more", p.more)
	}
	return fmt.Sprintf("left out: %s: %v", text, ErrKind)
}

// pack writes name in dir, and what is below it, as path.
func (p *packer) pack(dir int, name, path string, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("%.100q...: deeper than %d", path, MaxDepth)
	}
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	h := &tar.Header{
		Format:  tar.FormatPAX,
		Name:    path,
		Mode:    int64(st.Mode & permission),
		ModTime: time.Unix(st.Mtim.Unix()),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.file(dir, name, h)
	case unix.S_IFDIR:
		return p.tree(dir, name, h, depth)
	case unix.S_IFLNK:
		return p.link(dir, name, h)
	}
	if depth > 1 {
		p.skip(path)
		return nil
	}
	return fmt.Errorf("%q: %w", path, ErrKind)
}

// open opens what was of the kind before, and is still: it may change at any
// time. Nothing blocks on a FIFO that took its place.
func (p *packer) open(dir int, name string, h *tar.Header, kind uint32) (f *os.File, size int64, err error) {
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("%q: %w", h.Name, err)
	}
	_ = unix.SetNonblock(fd, false) // or os asks the file system to poll it
	f = os.NewFile(uintptr(fd), h.Name)
	var st unix.Stat_t
	err = again(func() error { return unix.Fstat(fd, &st) })
	if err == nil && st.Mode&unix.S_IFMT != kind {
		err = errors.New("changed while it was read")
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, fmt.Errorf("%q: %w", h.Name, err)
	}
	return f, st.Size, nil
}

// file writes a regular file.
func (p *packer) file(dir int, name string, h *tar.Header) error {
	f, size, err := p.open(dir, name, h, unix.S_IFREG)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, size
	if err := p.header(h); err != nil {
		return err
	}
	// Only Write and Read, so that the buffer is used.
	n, err := io.CopyBuffer(struct{ io.Writer }{p.w}, struct{ io.Reader }{io.LimitReader(f, size)}, p.buf)
	if err == nil && n < size {
		err = fmt.Errorf("%d bytes became %d while it was read", size, n)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", h.Name, err)
	}
	return nil
}

// tree writes a directory and what is below it.
func (p *packer) tree(dir int, name string, h *tar.Header, depth int) error {
	f, _, err := p.open(dir, name, h, unix.S_IFDIR)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("%q: %w", h.Name, err)
	}
	slices.Sort(names) // see the package comment
	path := h.Name
	h.Typeflag, h.Name = tar.TypeDir, path+"/"
	if err := p.header(h); err != nil {
		return err
	}
	fd := int(f.Fd())
	for _, n := range names {
		before := p.headers
		err := p.pack(fd, n, path+"/"+n, depth+1)
		if err != nil && (p.headers != before || !errors.Is(err, unix.ENOENT)) {
			return err
		}
	}
	return nil
}

// link writes a symbolic link.
func (p *packer) link(dir int, name string, h *tar.Header) error {
	buf := make([]byte, unix.PathMax)
	var n int
	err := again(func() (err error) {
		n, err = unix.Readlinkat(dir, name, buf)
		return err
	})
	if err != nil {
		return fmt.Errorf("%q: %w", h.Name, err)
	}
	h.Typeflag, h.Linkname = tar.TypeSymlink, string(buf[:n])
	return p.header(h)
}

// header writes the header of an entry.
func (p *packer) header(h *tar.Header) error {
	p.headers++
	if err := p.w.WriteHeader(h); err != nil {
		return fmt.Errorf("%q: %w", h.Name, err)
	}
	return nil
}
