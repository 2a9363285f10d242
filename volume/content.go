package volume

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
)

// A Content is what is in a volume. It was written by sandboxes, which change it meanwhile: no path
// leads out of the volume, and no symbolic link is followed (openat2(2)). Paths begin at the
// volume, with or without a slash. An error of a path wraps [runtime.ErrNotFound],
// [runtime.ErrDenied] or [runtime.ErrInvalid]. The caller closes it. It is safe for concurrent use.
type Content struct {
	root     *os.File
	uid, gid int
}

// Content opens what is in a volume. ErrNotFound: it does not exist.
func (s *Store) Content(name string) (*Content, error) {
	if !runtime.IsVolumeName(name) {
		return nil, missing(name)
	}
	root, err := beneath.OpenPlain(s.Data(name), unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing(name)
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(int(root.Fd()), &st)
	}
	if err != nil {
		return nil, storeError(err)
	}
	return &Content{root, int(st.Uid), int(st.Gid)}, nil
}

// Close releases the volume.
func (c *Content) Close() error { return c.root.Close() }

// An Info describes a file of a volume.
type Info struct {
	Path                        string // from the volume, with a slash
	Type                        string // file, directory, symlink, or unknown
	Target                      string // of a symlink
	Size                        int64  // bytes
	Mode                        uint32 // permissions
	UID, GID                    int    // on the host
	Accessed, Modified, Changed time.Time
}

var types = map[uint32]string{unix.S_IFREG: "file", unix.S_IFDIR: "directory", unix.S_IFLNK: "symlink"}

// The bounds of paths and lists. Deeper directories are not listed.
const (
	maxPath  = 4096
	maxDepth = 64
	// MaxList is how many files a list has at most.
	MaxList = 10_000
	maxText = 8 << 20 // bytes of their paths and targets
)

// clean returns a path without the slash before it; "." is the volume.
func clean(name string) (string, error) {
	if len(name) > maxPath || strings.ContainsRune(name, 0) {
		const why = "path %.100q: it must have at most %d bytes, and no NUL"
		return "", runtime.Errorf(runtime.ErrInvalid, why, name, maxPath)
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/"), nil
}

// open opens what is at a path.
func (c *Content) open(name string, flags int) (*os.File, error) {
	at, err := clean(name)
	if err != nil {
		return nil, err
	}
	if at == "" {
		at = "."
	}
	fd, err := beneath.Open(int(c.root.Fd()), at, flags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, pathError(name, err)
	}
	return os.NewFile(uintptr(fd), "/"+at), nil
}

// parent opens the directory of a path; with make directories on the way are made.
func (c *Content) parent(name string, make bool) (dir *os.File, last string, err error) {
	at, err := clean(name)
	if err != nil {
		return nil, "", err
	}
	if at == "" {
		return nil, "", runtime.Errorf(runtime.ErrInvalid, "path %q: it is the volume itself", name)
	}
	parent, last := path.Split(at)
	dir, err = c.open(parent, unix.O_RDONLY|unix.O_DIRECTORY)
	if !make || !errors.Is(err, runtime.ErrNotFound) {
		return dir, last, err
	}
	if err := c.MakeDir(parent, defaultDir, true); err != nil && !errors.Is(err, runtime.ErrExists) {
		return nil, "", err
	}
	dir, err = c.open(parent, unix.O_RDONLY|unix.O_DIRECTORY)
	return dir, last, err
}

// pathError returns the error of a path; nil for nil.
func pathError(name string, err error) error {
	class := runtime.ErrUnavailable
	switch {
	case err == nil:
		return nil
	case runtime.Class(err) != nil:
		return err
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		class = runtime.ErrNotFound
	case errors.Is(err, unix.ELOOP):
		const why = "path %.200q: it has a symbolic link, and none is followed: read it inside a sandbox"
		return runtime.Errorf(runtime.ErrDenied, why, name)
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		class = runtime.ErrDenied
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTEMPTY):
		class = runtime.ErrExists
	case errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EISDIR),
		errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENXIO):
		class = runtime.ErrInvalid
	}
	return runtime.Errorf(class, "path %.200q: %w", name, plainError(err))
}

// plainError returns the number of an error of a call, without its path.
func plainError(err error) error {
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}

// Info describes what is at a path: a symbolic link itself.
func (c *Content) Info(name string) (*Info, error) {
	f, err := c.open(name, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return infoOf(f, "", f.Name())
}

// infoOf describes a name in a directory; empty: the file itself.
func infoOf(dir *os.File, name, at string) (*Info, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH); err != nil {
		return nil, pathError(at, err)
	}
	moment := func(t unix.Timespec) time.Time { return time.Unix(t.Unix()).UTC() }
	i := &Info{
		Path: path.Clean(at), Type: types[st.Mode&unix.S_IFMT], Size: st.Size,
		Mode: st.Mode & 0o7777, UID: int(st.Uid), GID: int(st.Gid),
		Accessed: moment(st.Atim), Modified: moment(st.Mtim), Changed: moment(st.Ctim),
	}
	switch i.Type {
	case "":
		i.Type = "unknown"
	case "symlink":
		buf := make([]byte, maxPath)
		n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
		i.Target = string(buf[:max(0, n)])
		return i, pathError(at, err)
	}
	return i, nil
}

// List describes what is in a directory, so many levels deep, at most [MaxList] files, or 8 MiB of
// their paths: more are an error.
func (c *Content) List(name string, depth int) ([]*Info, error) {
	dir, err := c.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	l := &list{all: []*Info{}}
	err = l.add(dir, min(depth, maxDepth))
	return l.all, err
}

// A list is what was found so far.
type list struct {
	all  []*Info
	text int // bytes of paths and targets
}

// add adds what is in a directory, and closes it. What is removed meanwhile is left out.
func (l *list) add(dir *os.File, depth int) error {
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(512)
		for _, e := range entries {
			if len(l.all) >= MaxList || l.text > maxText {
				const why = "path %.200q: it has more than %d files, or %d bytes of their paths: list less of it"
				return runtime.Errorf(runtime.ErrInvalid, why, dir.Name(), MaxList, maxText)
			}
			i, err := infoOf(dir, e.Name(), path.Join(dir.Name(), e.Name()))
			if err != nil {
				continue
			}
			l.all, l.text = append(l.all, i), l.text+len(i.Path)+len(i.Target)
			if i.Type != "directory" || depth <= 1 {
				continue
			}
			fd, err := beneath.Open(int(dir.Fd()), e.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
			if err != nil {
				continue
			}
			if err := l.add(os.NewFile(uintptr(fd), i.Path), depth-1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return pathError(dir.Name(), err)
		}
	}
}

// Read opens a regular file to read it. The caller closes it.
func (c *Content) Read(name string) (*os.File, error) {
	f, err := c.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		_ = f.Close()
		return nil, runtime.Errorf(runtime.ErrInvalid, "path %.200q: not a regular file", name)
	}
	return f, nil
}

// The permissions of what is made without others.
const (
	defaultFile = 0o644
	defaultDir  = 0o755
)

// A NewFile says how a file is written.
type NewFile struct {
	Mode    uint32 // permissions; 0: 0644
	Parents bool   // make directories that do not exist
	Most    int64  // bytes; more are ErrInvalid
}

// Write writes a file, in place of one that exists. It appears when it is whole.
func (c *Content) Write(name string, from io.Reader, o *NewFile) error {
	dir, last, err := c.parent(name, o.Parents)
	if err != nil {
		return err
	}
	defer dir.Close()
	temp := ".wolffia-" + runtime.NewID()
	// without a name nothing is left of it when this process is killed
	fd, err := beneath.Open(int(dir.Fd()), ".", unix.O_WRONLY|unix.O_TMPFILE, 0o600)
	nameless := err == nil
	if !nameless { // on a file system that does not have such files
		fd, err = beneath.Open(int(dir.Fd()), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	}
	if err != nil {
		return pathError(name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	n, err := io.Copy(f, io.LimitReader(from, o.Most+1))
	if err == nil && n > o.Most {
		err = runtime.Errorf(runtime.ErrInvalid, "path %.200q: the file is larger than %d bytes", name, o.Most)
	}
	if err == nil {
		err = c.own(f, modeOr(o.Mode, defaultFile))
	}
	if err == nil && nameless {
		err = unix.Linkat(unix.AT_FDCWD, procPath(f), int(dir.Fd()), temp, unix.AT_SYMLINK_FOLLOW)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = unix.Renameat(int(dir.Fd()), temp, int(dir.Fd()), last)
	}
	if err != nil {
		_ = unix.Unlinkat(int(dir.Fd()), temp, 0)
		if errors.As(err, new(unix.Errno)) {
			err = pathError(name, err)
		}
	}
	return err
}

func modeOr(mode, other uint32) uint32 {
	if mode == 0 {
		return other
	}
	return mode & 0o777
}

// own gives a new file to the volume's user.
func (c *Content) own(f *os.File, mode uint32) error {
	var err error
	if os.Geteuid() == 0 {
		err = unix.Fchown(int(f.Fd()), c.uid, c.gid)
	}
	return errors.Join(err, unix.Fchmod(int(f.Fd()), mode))
}

// MakeDir makes a directory with permissions, 0: 0755; with parents those on the way too. ErrExists:
// something is at its path.
func (c *Content) MakeDir(name string, mode uint32, parents bool) error {
	at, err := clean(name)
	if err != nil {
		return err
	}
	if at == "" {
		return runtime.Errorf(runtime.ErrExists, "path %q: it is the volume itself", name)
	}
	names := strings.Split(at, "/")
	dir, err := c.open("", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { dir.Close() }()
	for n, part := range names {
		last := n == len(names)-1
		if last || parents {
			err = unix.Mkdirat(int(dir.Fd()), part, 0o700)
			if err != nil && (last || err != unix.EEXIST) {
				return pathError(name, err)
			}
		}
		made := err == nil && (last || parents)
		fd, err := beneath.Open(int(dir.Fd()), part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return pathError(name, err)
		}
		dir.Close()
		dir = os.NewFile(uintptr(fd), part)
		want := uint32(defaultDir)
		if last {
			want = modeOr(mode, defaultDir)
		}
		if made {
			if err := c.own(dir, want); err != nil {
				return pathError(name, err)
			}
		}
	}
	return nil
}

// SetMode sets the permissions of a file or directory.
func (c *Content) SetMode(name string, mode uint32) error {
	f, err := c.open(name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer f.Close()
	i, err := infoOf(f, "", f.Name())
	switch {
	case err != nil:
		return err
	case i.Type != "file" && i.Type != "directory":
		return runtime.Errorf(runtime.ErrInvalid, "path %.200q: neither a file nor a directory", name)
	}
	// f is neither a link nor can it become one
	return pathError(name, unix.Chmod(procPath(f), mode&0o777))
}

// procPath returns a path of the file itself.
func procPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// Remove removes a file, a link itself, or a directory with all that is in it.
func (c *Content) Remove(name string) error {
	dir, last, err := c.parent(name, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := infoOf(dir, last, name); err != nil {
		return err
	}
	return pathError(name, rmtree.Remove(dir, last))
}

// UID returns the user of the host whose files those of the volume are.
func (c *Content) UID() int { return c.uid }

// GID returns the group of the host whose files those of the volume are.
func (c *Content) GID() int { return c.gid }
