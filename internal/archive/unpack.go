package archive

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Options bound what Unpack takes. The zero value, and nil, mean the defaults.
type Options struct {
	// Name is the name of the tree in a destination that is a directory. Empty means
	// the name in the stream; the caller must trust its sender then, who could choose
	// any name.
	Name       string
	MaxBytes   int64 // in all regular files together; 0 means no limit
	MaxEntries int   // files, directories and links; 0 means DefaultMaxEntries
	// Umask are the permissions that new files and directories do not get, whatever the stream says, as of umask(2); 0
	// means that they get all. The umask of the process itself must leave the owner's bits: Unpack writes to what it makes.
	Umask uint32
}

// Unpack reads a stream of Pack from r, up to its end mark, and writes its tree
// as cp(1) does: into dst under its name if dst is an existing directory,
// else as dst, whose parent must exist. Symbolic links on the way to dst are
// followed. One at dst is replaced; if it leads to a directory that is an
// error, unless dst ends in a slash, which says to follow it. What the stream
// names below is never looked for through a link: directories that exist are
// merged, files and links replaced, anything else in the way is an error.
//
// New files and directories have exactly the permissions in the stream, but for those of Options.Umask; the
// target of a link is data and kept as it is. A file appears when it is
// complete, unless no other file can be made beside it: then it is written in place, and keeps its
// permissions. After an error that is so for all the files before; directories
// that were being filled are readable by the owner only.
func Unpack(r io.Reader, dst string, opts *Options) error {
	u := unpacker{buf: make([]byte, bufferSize), maxEntries: DefaultMaxEntries}
	if opts != nil {
		u.maxBytes, u.name, u.umask = opts.MaxBytes, opts.Name, opts.Umask
		if strings.Contains(u.name, "/") || u.name == "." || u.name == ".." {
			return fmt.Errorf("write to %q as %q: %w", dst, u.name, os.ErrInvalid)
		}
		if opts.MaxEntries > 0 {
			u.maxEntries = opts.MaxEntries
		}
	}
	if err := u.unpack(r, dst); err != nil {
		return fmt.Errorf("write to %q: %w", dst, err)
	}
	return nil
}

// An unpacker reads one stream.
type unpacker struct {
	r          *tar.Reader
	buf        []byte
	maxBytes   int64
	maxEntries int
	name       string // Options.Name
	umask      uint32

	bytes   int64
	entries int

	// dirs are the directories of the current entry, from the one that holds
	// the top entry.
	dirs []*dir
	as   string // the name that the top entry gets
}

func (u *unpacker) unpack(r io.Reader, dst string) error {
	end := &endReader{r: r}
	u.r = tar.NewReader(end)
	defer func() {
		for _, d := range u.dirs {
			_ = unix.Close(d.fd)
		}
	}()
	for {
		h, err := u.r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return streamError(err)
		}
		if err := u.entry(h, dst); err != nil {
			return err
		}
	}
	if end.reached || u.entries == 0 {
		return fmt.Errorf("%w: it is incomplete", ErrInvalid)
	}
	return u.leave(0)
}

// An endReader notes whether its reader has ended. A tar stream ends before
// that, with a mark; without it the tar reader sees no error, only no more.
type endReader struct {
	r       io.Reader
	reached bool
}

func (e *endReader) Read(b []byte) (int, error) {
	n, err := e.r.Read(b)
	if n == 0 && errors.Is(err, io.EOF) {
		e.reached = true
	}
	return n, err
}

// streamError classes an error of the tar reader: reading itself may fail too.
func streamError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return err
}

func (u *unpacker) entry(h *tar.Header, dst string) error {
	if u.entries++; u.entries > u.maxEntries {
		return fmt.Errorf("%w: more than %d entries", ErrTooLarge, u.maxEntries)
	}
	parts, slash, err := split(h.Name)
	if err != nil {
		return err
	}
	if err := check(h, slash); err != nil {
		return err
	}
	h.Mode &^= int64(u.umask)
	if u.entries == 1 {
		if len(parts) != 1 {
			return fmt.Errorf("%w: %q comes first", ErrInvalid, h.Name)
		}
		if err := u.start(parts[0], dst, slash); err != nil {
			return err
		}
	} else if err := u.enter(parts, h.Name); err != nil {
		return err
	}
	d := u.dirs[len(u.dirs)-1]
	d.last = parts[len(parts)-1]
	name := d.last
	if len(u.dirs) == 1 {
		name = u.as
	}
	switch h.Typeflag {
	case tar.TypeDir:
		next, err := d.dir(name, h)
		if err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
		u.dirs = append(u.dirs, next)
		return nil
	case tar.TypeReg:
		err = u.file(d, name, h)
	case tar.TypeSymlink:
		err = d.link(name, h)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", h.Name, err)
	}
	return nil
}

// check refuses what Pack does not write.
func check(h *tar.Header, slash bool) error {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return fmt.Errorf("%w: %q is sparse", ErrInvalid, h.Name)
		}
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
	default:
		return fmt.Errorf("%w: %q is of type %q: %w", ErrInvalid, h.Name, h.Typeflag, ErrKind)
	}
	if slash != (h.Typeflag == tar.TypeDir) {
		return fmt.Errorf("%w: name %q of type %q", ErrInvalid, h.Name, h.Typeflag)
	}
	if t := h.Linkname; h.Typeflag == tar.TypeSymlink && (t == "" || len(t) >= unix.PathMax || strings.IndexByte(t, 0) >= 0) {
		return fmt.Errorf("%w: target %.100q of %q", ErrInvalid, t, h.Name)
	}
	return nil
}

// start finds out where the top entry goes and opens the directory.
func (u *unpacker) start(top, dst string, isDir bool) error {
	into, as, err := place(cmp.Or(u.name, top), dst, isDir)
	if err != nil {
		return err
	}
	var fd int
	err = again(func() (err error) {
		fd, err = unix.Open(into, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: into, Err: err}
	}
	u.as = as
	u.dirs = append(u.dirs, &dir{fd: fd})
	return nil
}

// place returns the directory that gets the top entry, and its name there: name, if
// dst is a directory.
func place(name, dst string, isDir bool) (into, as string, err error) {
	if dst == "" {
		return "", "", errors.New("no destination")
	}
	slash := strings.HasSuffix(dst, "/")
	info, err := os.Lstat(dst) // with a slash it follows a link, see path_resolution(7)
	switch {
	case err == nil && info.IsDir():
		return dst, name, nil
	case err == nil && info.Mode()&os.ModeSymlink != 0:
		if to, err := os.Stat(dst); err == nil && to.IsDir() {
			return "", "", errors.New("it is a symbolic link to a directory: end it with a slash to follow it")
		}
	case err == nil:
	case !errors.Is(err, os.ErrNotExist):
		return "", "", err
	case slash && !isDir:
		return "", "", fmt.Errorf("no such directory: %w", err)
	}
	clean := strings.TrimRight(dst, "/")
	return filepath.Dir(clean), filepath.Base(clean), nil
}

// enter makes the directory of an entry the current one. It is one of those the
// last entry was in, or that entry itself, and in it the names ascend.
func (u *unpacker) enter(parts []string, name string) error {
	if len(parts) < 2 || len(parts) > len(u.dirs) {
		return fmt.Errorf("%w: %q is out of order", ErrInvalid, name)
	}
	for i, p := range parts[:len(parts)-1] {
		if u.dirs[i].last != p {
			return fmt.Errorf("%w: %q is out of order", ErrInvalid, name)
		}
	}
	if err := u.leave(len(parts)); err != nil {
		return err
	}
	if d := u.dirs[len(u.dirs)-1]; parts[len(parts)-1] <= d.last {
		return fmt.Errorf("%w: %q is out of order or comes twice", ErrInvalid, name)
	}
	return nil
}

// leave completes the directories beyond the first n.
func (u *unpacker) leave(n int) error {
	for len(u.dirs) > n {
		d := u.dirs[len(u.dirs)-1]
		u.dirs = u.dirs[:len(u.dirs)-1]
		if err := d.complete(); err != nil {
			return err
		}
	}
	return nil
}
