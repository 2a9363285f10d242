package cow

import (
	"errors"
	"log/slog"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	stepper "wolffia/internal/sys/step"
	"wolffia/perm"
	"wolffia/runtime"
)

// Rules decide the level of each name, as *perm.Policy does.
type Rules interface {
	Root() perm.State
	Enter(s perm.State, name string) perm.State
	Child(s perm.State, name string, dir bool) perm.Level
}

var _ Rules = (*perm.Policy)(nil)

// Layers are the parts of a copied codebase. Its methods are for one goroutine at a time, and
// nothing else may change the upper layer meanwhile; the host's directory may change at any time.
type Layers struct {
	Root  int      // the host's directory; O_PATH is enough, as for the others
	Upper int      // the upper layer
	Work  int      // an empty directory of the upper layer's file system
	Log   *Log     // what the host had
	Rules Rules    // in force now
	Undo  *os.File // a regular file in which Apply notes what a crash would leave; needed by Apply and Discard

	// Alone calls f while nothing reads the upper layer. Apply and Discard change the upper layer
	// there, and call BeforeRemove and Moved there. Nothing else may change the upper layer
	// meanwhile either way. nil calls f.
	Alone func(f func())

	// BeforeRemove is called before the object at a path of the upper layer is removed. It may be
	// nil.
	BeforeRemove func(path string)
	// Relocated is called when a directory of the host was renamed from from to to, before the log
	// records that. It may be called again after a crash. It may be nil.
	Relocated func(from, to string) error
	// Moved is called after Apply has removed a whiteout, or changed the path of a lower half. It
	// may be nil.
	Moved func()

	// Stopped reports whether all callers have stopped waiting for the work. The work then ends
	// with errStopped, at a point where all applied changes are recorded. It may be nil.
	Stopped func() bool

	test func(name string) // called at each failpoint

	isAlone bool   // Alone has called
	staged  []step // directories whose names recover could not restore

	// Logger receives failures that are not an error of the call; nil discards them.
	Logger *slog.Logger
}

// alone calls f while nothing reads the upper layer. f may call it again.
func (l *Layers) alone(f func()) {
	if l.Alone == nil || l.isAlone {
		f()
		return
	}
	l.Alone(func() {
		l.isAlone = true
		defer func() { l.isAlone = false }()
		f()
	})
}

// errStopped is the error of work that Layers.Stopped has ended.
var errStopped = runtime.Errorf(runtime.ErrUnavailable, "the caller has stopped it")

// stopped returns errStopped if the work is to end.
func (l *Layers) stopped() error {
	if l.Stopped != nil && l.Stopped() {
		return errStopped
	}
	return nil
}

// moved tells the owner that the upper layer shows other entries.
func (l *Layers) moved() {
	if l.Moved != nil {
		l.Moved()
	}
}

// reached marks a failpoint.
func (l *Layers) reached(name string) {
	stepper.Reached(name)
	if l.test != nil {
		l.test(name)
	}
}

// An object is the result of stat(2) of an object in one of the layers.
type object struct{ unix.Statx_t }

func (o *object) typ() uint32       { return uint32(o.Mode) & unix.S_IFMT }
func (o *object) isDir() bool       { return o.typ() == unix.S_IFDIR }
func (o *object) isFile() bool      { return o.typ() == unix.S_IFREG }
func (o *object) isLink() bool      { return o.typ() == unix.S_IFLNK }
func (o *object) isWhiteout() bool  { return IsWhiteout(uint32(o.Mode), o.Rdev_major, o.Rdev_minor) }
func (o *object) isMount() bool     { return o.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 }
func (o *object) perms() uint32     { return permsOf(o.typ(), uint32(o.Mode)) }
func (o *object) mtime() int64      { return nanoseconds(o.Mtime) }
func (o *object) ctime() int64      { return nanoseconds(o.Ctime) }
func (o *object) isKnownKind() bool { return o.isDir() || o.isFile() || o.isLink() }

// permsOf returns what of a mode is compared and applied: of a directory also whether only their
// owners delete files in it. What sets ids is not: no sandbox can, and a directory keeps what the
// host has given it.
func permsOf(typ, mode uint32) uint32 {
	if typ == unix.S_IFDIR {
		return mode & 0o1777
	}
	return mode & 0o777
}

// nanoseconds returns a time since 1970.
func nanoseconds(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// same reports whether two looks at a name saw the same object, unchanged but for what a rename of
// it changes.
func (o *object) same(p *object) bool {
	return o.Ino == p.Ino && o.typ() == p.typ() && (o.isDir() || o.Size == p.Size && o.mtime() == p.mtime())
}

// unchanged is same for two calls of statAt without a rename in between. Another file can have the
// same inode, size and mtime: inodes are used again, and an archive can have one time for all
// files. The number of names and the mode may differ: Apply itself removes names of files.
func (o *object) unchanged(p *object) bool {
	return o.same(p) && (o.isDir() || o.ctime() == p.ctime() || o.Nlink != p.Nlink || o.perms() != p.perms())
}

// statAt returns the object called name in the directory dir, without following a link; with an
// empty name dir itself. It returns nil if the name does not exist.
func statAt(dir int, name string) (*object, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	o := &object{}
	for {
		err := unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &o.Statx_t)
		switch {
		case err == nil:
			return o, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOENT):
			return nil, nil
		default:
			return nil, err
		}
	}
}

// openDir opens the directory p below root to look at names in it; -1 if there is no such
// directory.
func openDir(root int, p string) (int, error) {
	if p == "" {
		p = "."
	}
	fd, err := beneath.Open(root, p, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return -1, nil
	}
	return -1, err
}

// statPath is statAt for a path below root. A path through an object that is not a directory does
// not exist.
func statPath(root int, p string) (*object, error) {
	dir, err := openDir(root, parentOf(p))
	if dir < 0 {
		return nil, err
	}
	defer unix.Close(dir)
	return statAt(dir, path.Base(p))
}

// parentOf returns the directory of a path, "" for the root.
func parentOf(p string) string {
	if d := path.Dir(p); d != "." {
		return d
	}
	return ""
}

// names calls f for each name in the directory dir.
func names(dir int, f func(name string) error) error {
	fd, err := beneath.Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf, some := make([]byte, 16<<10), []string(nil)
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || err != nil {
			return err
		}
		_, _, some = unix.ParseDirent(buf[:n], -1, some[:0])
		for _, name := range some {
			if err := f(name); err != nil {
				return err
			}
		}
	}
}

// openRegular opens the regular file at the path p below dir for reading, and returns its size. It
// does not block, and follows no link.
func openRegular(dir int, p string) (fd int, size int64, err error) {
	if fd, err = beneath.Open(dir, p, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.ESTALE
	}
	if err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, st.Size, nil
}

// openFile is openRegular for what takes a file.
func openFile(dir int, p string) (*os.File, error) { return asFile(openRegular(dir, p)) }

// asFile returns what openRegular has returned as a file.
func asFile(fd int, _ int64, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "file"), nil
}

// state returns the state inside the directory p.
func (l *Layers) state(p string) perm.State {
	s := l.Rules.Root()
	for p != "" {
		name, rest := p, ""
		for i := range len(p) {
			if p[i] == '/' {
				name, rest = p[:i], p[i+1:]
				break
			}
		}
		s, p = l.Rules.Enter(s, name), rest
	}
	return s
}
