package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A dir is a directory that is being filled.
type dir struct {
	fd   int
	last string // the name of its latest entry

	// For complete, if Unpack has created the directory.
	parent  *dir
	name    string
	mode    uint32
	modTime time.Time
}

// dir makes the directory name in d, or enters the one that exists.
func (d *dir) dir(name string, h *tar.Header) (*dir, error) {
	err := again(func() error { return unix.Mkdirat(d.fd, name, 0o700) })
	if errors.Is(err, unix.EEXIST) && d.kind(name) == unix.S_IFLNK {
		if err = d.remove(name); err == nil {
			err = again(func() error { return unix.Mkdirat(d.fd, name, 0o700) })
		}
	}
	existed := errors.Is(err, unix.EEXIST)
	if err != nil && !existed {
		return nil, err
	}
	// Another process may have replaced it with a link. With O_PATH no kernel follows
	// the link; gVisor without our patch does with O_DIRECTORY alone.
	place, err := openat(d.fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil || existed {
		return &dir{fd: place}, err
	}
	fd, err := openat(place, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err := errors.Join(err, unix.Close(place)); err != nil {
		return nil, err
	}
	return &dir{fd: fd, parent: d, name: name, mode: uint32(h.Mode & permission), modTime: h.ModTime}, nil
}

// complete gives a new directory its attributes, and closes it.
func (d *dir) complete() error {
	var err error
	if d.parent != nil {
		err = again(func() error { return unix.Fchmod(d.fd, d.mode) })
		d.parent.touch(d.name, d.modTime)
	}
	return errors.Join(err, unix.Close(d.fd))
}

// kind returns the type (S_IFMT) of name in d; 0 if it cannot be read.
func (d *dir) kind(name string) uint32 {
	var st unix.Stat_t
	_ = again(func() error { return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st.Mode & unix.S_IFMT
}

// touch sets the modification time of name, as far as the file system can.
func (d *dir) touch(name string, t time.Time) {
	times := []unix.Timespec{{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}, {Sec: t.Unix(), Nsec: int64(t.Nanosecond())}}
	_ = again(func() error { return unix.UtimesNanoAt(d.fd, name, times, unix.AT_SYMLINK_NOFOLLOW) })
}

// link makes a symbolic link.
func (d *dir) link(name string, h *tar.Header) error {
	return d.replace(name, func(name string, flags int) error {
		if flags&unix.O_EXCL == 0 {
			if err := d.remove(name); err != nil {
				return err
			}
		}
		if err := again(func() error { return unix.Symlinkat(h.Linkname, d.fd, name) }); err != nil {
			return asRefusal(err)
		}
		d.touch(name, h.ModTime)
		return nil
	})
}

// replace calls create with a temporary name and O_CREAT|O_EXCL, under which create must leave
// nothing if it fails, and renames the result to name. A directory at name is an error; so is
// anything else but a regular file or a link: a process may wait at it.
//
// Rules can allow name and nothing beside it. If create returns a refusal of the temporary name,
// replace calls it with name itself, without O_CREAT if a regular file is there: the error is then that of
// the file that the caller has named.
func (d *dir) replace(name string, create func(name string, flags int) error) error {
	kind := d.kind(name)
	switch kind {
	case 0, unix.S_IFREG, unix.S_IFLNK:
	case unix.S_IFDIR:
		return unix.EISDIR
	default:
		return fmt.Errorf("in its place is %w", ErrKind)
	}
	temp := tempName()
	err := create(temp, unix.O_CREAT|unix.O_EXCL)
	if _, refused := errors.AsType[refusal](err); refused {
		switch kind {
		case unix.S_IFREG:
			return create(name, 0)
		case unix.S_IFLNK:
			if err := d.remove(name); err != nil {
				return err
			}
		}
		return create(name, unix.O_CREAT|unix.O_EXCL)
	}
	if err != nil {
		return err
	}
	if err := again(func() error { return unix.Renameat(d.fd, temp, d.fd, name) }); err != nil {
		return errors.Join(err, d.remove(temp))
	}
	return nil
}

// A refusal is the error of a name that may not be created, before anything was read.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// asRefusal returns err, as a refusal if permission is what lacks.
func asRefusal(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return refusal{err}
	}
	return err
}

// remove deletes a file or link.
func (d *dir) remove(name string) error {
	return again(func() error { return unix.Unlinkat(d.fd, name, 0) })
}

// file writes a regular file.
func (u *unpacker) file(d *dir, name string, h *tar.Header) error {
	if h.Size < 0 {
		return fmt.Errorf("%w: size %d", ErrInvalid, h.Size)
	}
	if u.maxBytes > 0 && h.Size > u.maxBytes-u.bytes {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, u.maxBytes)
	}
	u.bytes += h.Size
	return d.replace(name, func(name string, flags int) error {
		fd, err := openat(d.fd, name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|flags, 0o600)
		if err != nil {
			return asRefusal(err)
		}
		f := os.NewFile(uintptr(fd), name)
		isNew := flags&unix.O_EXCL != 0
		if !isNew { // it keeps its permissions, as those of cp do
			err = truncate(f)
		}
		if err == nil {
			// Only Write and Read, so that the buffer is used: no holes, no tricks.
			_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{u.r}, u.buf)
			err = streamError(err)
		}
		if err == nil && isNew {
			err = again(func() error { return unix.Fchmod(fd, uint32(h.Mode&permission)) })
		}
		err = errors.Join(err, f.Close())
		switch {
		case err == nil:
			d.touch(name, h.ModTime)
		case isNew:
			err = errors.Join(err, d.remove(name))
		}
		return err
	})
}

// truncate empties a file, which must be regular.
func truncate(f *os.File) error {
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() { // it was replaced
		err = ErrKind
	}
	if err != nil {
		return err
	}
	return f.Truncate(0)
}
