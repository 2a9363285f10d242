package replica

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/archive"
	"wolffia/internal/filecall"
	"wolffia/internal/sys/beneath"
)

// Serve answers the requests of a Peer about the copy in the directory dir, until in ends. It follows
// no link inside.
func Serve(dir string, in io.Reader, out io.Writer) error {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(root)
	w := bufio.NewWriterSize(out, 64<<10)
	s := &server{root, filecall.NewReceiver(flusher{in, w}), filecall.NewSender(w), make([]byte, 64<<10)}
	for {
		var r request
		err := s.in.JSON(&r, maxMessage)
		if errors.Is(err, io.EOF) {
			return w.Flush()
		}
		if err == nil {
			err = s.do(&r)
		}
		if err != nil {
			return errors.Join(err, w.Flush())
		}
	}
}

// A flusher sends the answers before it waits for another request.
type flusher struct {
	io.Reader
	w *bufio.Writer
}

func (f flusher) Read(b []byte) (int, error) {
	if err := f.w.Flush(); err != nil {
		return 0, err
	}
	return f.Reader.Read(b)
}

// A server is the end with the copy.
type server struct {
	root int
	in   *filecall.Receiver
	out  *filecall.Sender
	buf  []byte
}

// do answers one request. An error is one of the connection.
func (s *server) do(r *request) error {
	switch r.Op {
	case opList:
		if err := s.list(s.root, ""); err != nil {
			return err
		}
		return s.out.JSON(reply{End: true})
	case opGet:
		return s.get(string(r.Path))
	case opPut:
		if err := s.put(r); err != nil {
			return err
		}
	case opRemove:
		return s.answer(Stat{}, s.within(string(r.Path), func(dir int, name string) error {
			return s.remove(dir, name, r.Old)
		}))
	default:
		return errors.New("the request is not known")
	}
	return nil
}

// answer sends what was done.
func (s *server) answer(st Stat, err error) error {
	r := reply{Stat: st}
	if err != nil {
		r.Stat, r.Errno = Stat{}, unix.EIO
		_ = errors.As(err, &r.Errno)
	}
	return s.out.JSON(r)
}

// statAt returns the object called name in a directory, without following a link; with an empty name
// the directory. The zero Stat: there is none.
func statAt(dir int, name string) (Stat, error) {
	var st unix.Stat_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	err := unix.Fstatat(dir, name, &st, flags)
	if errors.Is(err, unix.ENOENT) {
		return Stat{}, nil
	}
	if err != nil {
		return Stat{}, err
	}
	s := Stat{
		Type: st.Mode & unix.S_IFMT, Mode: st.Mode & 0o777, Ino: st.Ino, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(),
	}
	if s.Type == unix.S_IFREG {
		s.Size = st.Size
	}
	return s, nil
}

// list sends all that is below the directory open as dir, whose path is at, each directory before
// its content. What vanishes meanwhile is left out.
func (s *server) list(dir int, at string) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return s.out.JSON(reply{Path: []byte(at), Errno: unix.EACCES})
	}
	f := os.NewFile(uintptr(fd), "dir")
	names, err := f.Readdirnames(-1)
	defer f.Close()
	if err != nil {
		return s.out.JSON(reply{Path: []byte(at), Errno: unix.EIO})
	}
	for _, name := range names {
		if archive.IsTemporary(name) {
			continue
		}
		st, err := statAt(fd, name)
		if err != nil || st == (Stat{}) {
			continue
		}
		r := reply{Path: []byte(name), Stat: st}
		if at != "" {
			r.Path = []byte(at + "/" + name)
		}
		if st.Type == unix.S_IFLNK {
			target, err := beneath.Readlink(fd, name)
			if err != nil {
				continue
			}
			r.Target = []byte(target)
		}
		if err := s.out.JSON(r); err != nil {
			return err
		}
		if st.Type != unix.S_IFDIR {
			continue
		}
		sub, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		err = s.list(sub, string(r.Path))
		_ = unix.Close(sub)
		if err != nil {
			return err
		}
	}
	return nil
}

// get sends a regular file.
func (s *server) get(path string) error {
	var f *os.File
	var st Stat
	err := s.within(path, func(dir int, name string) error {
		fd, err := s.openFile(dir, name)
		if err != nil {
			return err
		}
		f = os.NewFile(uintptr(fd), name)
		st, err = statAt(fd, "")
		if err == nil && st.Type != unix.S_IFREG {
			err = unix.ESTALE
		}
		return err
	})
	if f != nil {
		defer f.Close()
	}
	if err := s.answer(st, err); err != nil || f == nil || st.Type != unix.S_IFREG {
		return err
	}
	// Only Write and Read, so that the buffer is used. What is added meanwhile comes with the next
	// change.
	_, _ = io.CopyBuffer(struct{ io.Writer }{s.out}, struct{ io.Reader }{io.LimitReader(f, st.Size)}, s.buf)
	return s.out.End()
}

// openFile opens a file for reading. One that nobody may read, as its owner can change, is made
// readable for that time.
func (s *server) openFile(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if !errors.Is(err, unix.EACCES) {
		return fd, err
	}
	st, serr := statAt(dir, name)
	if serr != nil || st.Type != unix.S_IFREG || unix.Fchmodat(dir, name, st.Mode|0o400, 0) != nil {
		return fd, err
	}
	fd, err = unix.Openat(dir, name, flags, 0)
	_ = unix.Fchmodat(dir, name, st.Mode, 0)
	return fd, err
}

// within calls f with the directory of a path, and the name in it. If f fails since the directory
// must not be changed, which its owner can change, f is called once more while it may be.
func (s *server) within(path string, f func(dir int, name string) error) error {
	if err := checkPath(path); err != nil {
		return unix.EINVAL
	}
	at, name := parentOf(path)
	if at == "" {
		return f(s.root, name)
	}
	dir, err := openDir(s.root, at)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err = f(dir, name); !errors.Is(err, unix.EACCES) {
		return err
	}
	st, serr := statAt(dir, "")
	chmod := func(mode uint32) error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(dir), mode) }
	if serr != nil || st.Mode&0o300 == 0o300 || chmod(st.Mode|0o300) != nil {
		return err
	}
	err = f(dir, name)
	return errors.Join(err, chmod(st.Mode))
}

// openDir opens a directory below root, to use names in it. It follows no link: openat2(2) would see
// to that, which not every kernel of a sandbox has.
func openDir(root int, path string) (int, error) {
	dir := root
	for name := range strings.SplitSeq(path, "/") {
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if dir != root {
			_ = unix.Close(dir)
		}
		if err != nil {
			return -1, err
		}
		dir = fd
	}
	return dir, nil
}

// remove removes what is old.
func (s *server) remove(dir int, name string, old Stat) error {
	now, err := statAt(dir, name)
	switch {
	case err != nil || now == (Stat{}):
		return err
	case !now.Same(old):
		return unix.ESTALE
	case now.Type == unix.S_IFDIR:
		return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(dir, name, 0)
}

// put makes what r says, and answers. The error is one of the connection.
func (s *server) put(r *request) error {
	content := r.Stat.Type == unix.S_IFREG && !r.Blank
	if content {
		s.in.Begin()
	}
	var st Stat
	err := s.within(string(r.Path), func(dir int, name string) (err error) {
		if content && s.in.Ended() { // the call before has read it
			return unix.EACCES
		}
		if now, err := statAt(dir, name); err != nil || !now.Same(r.Old) {
			return cmpErr(err, unix.ESTALE)
		}
		st, err = s.make(dir, name, r)
		return err
	})
	if content && !s.in.Ended() {
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{s.in}, s.buf); err != nil {
			return err
		}
	}
	return s.answer(st, err)
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// make makes or replaces an object that was looked at.
func (s *server) make(dir int, name string, r *request) (Stat, error) {
	if r.Stat.Type == unix.S_IFDIR {
		if r.Old.Type != unix.S_IFDIR {
			if err := unix.Mkdirat(dir, name, r.Stat.Mode|0o700); err != nil {
				return Stat{}, err
			}
		}
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return Stat{}, err
		}
		defer unix.Close(fd)
		// its own, of an open directory: a link cannot take its place
		if err := unix.Fchmodat(dir, name, r.Stat.Mode, 0); err != nil {
			return Stat{}, err
		}
		_ = unix.UtimesNanoAt(dir, name, times(r.Stat.Mtime), unix.AT_SYMLINK_NOFOLLOW)
		return statAt(fd, "")
	}
	temp := ".wolffia-" + rand.Text()
	if r.Stat.Type == unix.S_IFLNK {
		if err := unix.Symlinkat(string(r.Target), dir, temp); err != nil {
			return Stat{}, err
		}
		_ = unix.UtimesNanoAt(dir, temp, times(r.Stat.Mtime), unix.AT_SYMLINK_NOFOLLOW)
		return s.place(dir, temp, name, nil, r)
	}
	fd, err := unix.Openat(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return Stat{}, err
	}
	f := os.NewFile(uintptr(fd), temp)
	defer f.Close()
	if r.Blank {
		err = f.Truncate(r.Stat.Size)
	} else {
		_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{s.in}, s.buf)
	}
	if err == nil {
		err = unix.Fchmod(fd, r.Stat.Mode)
	}
	if err == nil {
		err = unix.UtimesNanoAt(dir, temp, times(r.Stat.Mtime), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return Stat{}, errors.Join(err, unix.Unlinkat(dir, temp, 0))
	}
	return s.place(dir, temp, name, f, r)
}

// place renames what is complete, and returns what is there then. What a program has changed in
// between gets no time that a later look would take for the same.
func (s *server) place(dir int, temp, name string, f *os.File, r *request) (Stat, error) {
	now, err := statAt(dir, name)
	if err == nil && !now.Same(r.Old) {
		err = unix.ESTALE
	}
	if err == nil {
		err = unix.Renameat(dir, temp, dir, name)
	}
	if err != nil {
		return Stat{}, errors.Join(err, unix.Unlinkat(dir, temp, 0))
	}
	if f == nil {
		return statAt(dir, name)
	}
	st, err := statAt(int(f.Fd()), "")
	if err == nil && st.Mtime != r.Stat.Mtime {
		st.Ctime = 0
	}
	return st, err
}

func times(mtime int64) []unix.Timespec {
	t := unix.NsecToTimespec(mtime)
	return []unix.Timespec{unix.NsecToTimespec(time.Now().UnixNano()), t}
}
