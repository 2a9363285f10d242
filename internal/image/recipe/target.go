package recipe

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// A target is the root directory that files are put into.
type target struct {
	root *os.File
	uid  int // of what is made
	gid  int
	mode int // of what is copied; -1 keeps modes
}

// inRoot opens a path as if the target were the root directory: links lead nowhere else.
func (t *target) inRoot(name string, flags int) (int, error) {
	return beneath.OpenIn(int(t.root.Fd()), under(strings.TrimPrefix(name, "/")), flags)
}

// dir returns a directory, with the missing ones on the way made. The caller closes it.
func (t *target) dir(name string) (*os.File, error) {
	name = path.Clean("/" + name)
	fd, err := t.inRoot(name, unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), name), nil
	case err == unix.ENOTDIR:
		return nil, invalid("%s is not a directory in the image", name)
	case err != unix.ENOENT || name == "/":
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	parent, err := t.dir(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := t.mkdir(int(parent.Fd()), path.Base(name), 0o755); err != nil {
		return nil, &os.PathError{Op: "make", Path: name, Err: err}
	}
	return below(parent, path.Base(name))
}

// mkdir makes a directory of the target's owner.
func (t *target) mkdir(dir int, base string, mode uint32) error {
	if err := unix.Mkdirat(dir, base, 0o700); err != nil {
		return err
	}
	return own(dir, base, t.uid, t.gid, mode)
}

// own sets owner and mode of a file that is not a link.
func own(dir int, base string, uid, gid int, mode uint32) error {
	if err := unix.Fchownat(dir, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return unix.Fchmodat(dir, base, mode, 0)
}

// clearWay removes what is in the way of a file; a directory is an error.
func clearWay(dir *os.File, base string) error {
	err := unix.Unlinkat(int(dir.Fd()), base, 0)
	switch {
	case err == nil || err == unix.ENOENT:
		return nil
	case err == unix.EISDIR:
		return invalid("%q is a directory in the image, and a file in the source", base)
	}
	return err
}

// put copies a name of a source, and all below it, to base in dir. A directory is copied into an
// existing one. What was read is added to a digest.
func (t *target) put(s *source, name string, dir *os.File, base string, out facts) error {
	return s.walk(name, nil, func(n string, st *unix.Stat_t) error {
		rest := strings.TrimPrefix(strings.TrimPrefix(n, name), "/")
		at, last := path.Split(path.Join(base, rest))
		to, err := below(dir, strings.TrimSuffix(at, "/"))
		if err != nil {
			return err
		}
		defer to.Close()
		text, err := t.putOne(s, n, st, to, last)
		if err != nil {
			return err
		}
		return s.fact(out, n, st, text)
	})
}

// below opens a directory below another one, over no link.
func below(dir *os.File, name string) (*os.File, error) {
	fd, err := beneath.OpenAcross(int(dir.Fd()), under(name), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// modeOf returns the mode of a copy.
func (t *target) modeOf(st *unix.Stat_t) uint32 {
	if t.mode >= 0 {
		return uint32(t.mode)
	}
	return st.Mode & 0o7777
}

// putOne copies one file, or a directory without its content. text is that of its fact.
func (t *target) putOne(s *source, name string, st *unix.Stat_t, dir *os.File, base string) (text string, err error) {
	fd := int(dir.Fd())
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err := unix.Mkdirat(fd, base, 0o700); err == unix.EEXIST {
			var is unix.Stat_t
			if err := unix.Fstatat(fd, base, &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return "", err
			}
			if is.Mode&unix.S_IFMT != unix.S_IFDIR {
				return "", invalid("it is a directory in the source, and a file or a link in the image")
			}
		} else if err != nil {
			return "", err
		}
		err = own(fd, base, t.uid, t.gid, t.modeOf(st))
	case unix.S_IFLNK:
		if text, err = s.readlink(name); err == nil {
			err = symlink(dir, base, text, t.uid, t.gid)
		}
	case unix.S_IFREG:
		in, oerr := s.open(name)
		if oerr != nil {
			return "", oerr
		}
		defer in.Close()
		c := newContent(in)
		if err = writeFile(dir, base, c, t.uid, t.gid, t.modeOf(st)); err == nil {
			text, err = c.sum()
		}
	default:
		err = invalid("it is a socket, a FIFO or a device, which cannot be copied")
	}
	if err == nil {
		err = setTime(fd, base, st.Mtim)
	}
	return text, err
}

// setTime sets when the content of a file was changed last.
func setTime(dir int, base string, at unix.Timespec) error {
	return unix.UtimesNanoAt(dir, base, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, at}, unix.AT_SYMLINK_NOFOLLOW)
}

// symlink makes a symbolic link.
func symlink(dir *os.File, base, text string, uid, gid int) error {
	if err := clearWay(dir, base); err != nil {
		return err
	}
	if err := unix.Symlinkat(text, int(dir.Fd()), base); err != nil {
		return err
	}
	return unix.Fchownat(int(dir.Fd()), base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
}

// writeFile makes a regular file.
func writeFile(dir *os.File, base string, content io.Reader, uid, gid int, mode uint32) (err error) {
	if err := clearWay(dir, base); err != nil {
		return err
	}
	f, err := beneath.Create(int(dir.Fd()), base, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return own(int(dir.Fd()), base, uid, gid, mode)
}
