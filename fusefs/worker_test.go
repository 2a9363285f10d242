package fusefs

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A result is what came of an action, without what differs between any two
// file systems: numbers of inodes and devices, times that are now, the order
// of names.
type result struct {
	Errno syscall.Errno
	Text  string
	Names []string // what a directory listed since its beginning
	Hung  bool     // no answer
}

func (r result) String() string {
	s := r.Text
	if r.Errno != 0 {
		s = unix.ErrnoName(r.Errno)
	}
	if r.Names != nil {
		s += fmt.Sprintf(" %.30q", r.Names)
	}
	return s
}

// A worker does actions in one process of its own.
type worker struct {
	root  string
	proc  int // its descriptors, as a directory
	slots [slots]slot
	maps  [slots]mapping
	buf   []byte // aligned
}

type slot struct {
	fd    int
	flags int
	names []string // listed so far
}

type mapping struct {
	fd             int
	data           []byte
	shared, writes bool
}

const mapSize = 1 << 16

// beWorker does the actions read from descriptor 3 and writes results to 4. It sees only the
// directory base: no action can harm the host.
func beWorker(t *testing.T, base string) {
	runtime.LockOSThread() // has the privilege to change the root, and gives it up
	debug.SetPanicOnFault(true)
	proc, err := unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Chroot(base)
	}
	if err == nil {
		err = unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &make([]unix.CapUserData, 2)[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	in := gob.NewDecoder(os.NewFile(3, "actions"))
	out := gob.NewEncoder(os.NewFile(4, "results"))
	buf, err := unix.Mmap(-1, 0, mapSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{buf: buf, proc: proc}
	for i := range slots {
		w.slots[i].fd, w.maps[i].fd = -1, -1
	}
	for {
		var a action
		if in.Decode(&a) != nil {
			return
		}
		if err := out.Encode(w.do(&a)); err != nil {
			t.Fatal(err)
		}
	}
}

// reset begins a round in the directory root.
func (w *worker) reset(root string) error {
	for i := range slots {
		w.close(i)
		w.unmap(i)
	}
	w.root = root
	unix.Umask(0o022)
	return unix.Chdir(root)
}

func (w *worker) close(i int) {
	if w.slots[i].fd >= 0 {
		unix.Close(w.slots[i].fd)
	}
	w.slots[i] = slot{fd: -1}
}

func (w *worker) unmap(i int) {
	if w.maps[i].fd >= 0 {
		unix.Munmap(w.maps[i].data)
		unix.Close(w.maps[i].fd)
	}
	w.maps[i] = mapping{fd: -1}
}

// put makes fd what slot i holds.
func (w *worker) put(i, fd, flags int) {
	w.close(i)
	w.slots[i] = slot{fd: fd, flags: flags}
}

// at resolves the form of a path.
func (w *worker) at(p string) (dir int, name string) {
	if rest, ok := strings.CutPrefix(p, "#"); ok {
		n, rest, _ := strings.Cut(rest, "/")
		i, _ := strconv.Atoi(n)
		return w.slots[i].fd, cmp.Or(strings.TrimLeft(rest, "/"), ".")
	}
	if strings.HasPrefix(p, "/") {
		return unix.AT_FDCWD, w.root + p
	}
	return unix.AT_FDCWD, p
}

// nothing is the result of what is not done because it cannot be compared.
func nothing() result { return result{Text: "not done"} }

func ended(err error) result { return result{Errno: errnoIn(err)} }

func told(err error, format string, args ...any) result {
	if err != nil {
		return ended(err)
	}
	return result{Text: fmt.Sprintf(format, args...)}
}

func (w *worker) do(a *action) (r result) {
	s := &w.slots[a.Slot]
	switch a.Do {
	case "reset":
		return ended(w.reset(a.A))
	case "open":
		dir, name := w.at(a.A)
		fd, err := unix.Openat(dir, name, a.Flags|unix.O_NONBLOCK|unix.O_CLOEXEC, a.Mode)
		return w.opened(a.Slot, fd, a.Flags, err)
	case "reopen":
		if s.fd < 0 {
			return nothing()
		}
		fd, err := unix.Openat(w.proc, strconv.Itoa(s.fd), a.Flags|unix.O_NONBLOCK|unix.O_CLOEXEC, a.Mode)
		return w.opened(a.Other, fd, a.Flags, err)
	case "tmpfile":
		dir, name := w.at(a.A)
		fd, err := unix.Openat(dir, name, a.Flags|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return ended(err)
	case "close":
		w.close(a.Slot)
		return result{}
	case "dup":
		fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 5)
		if err != nil {
			return ended(err)
		}
		flags := s.flags
		w.put(a.Other, fd, flags)
		return result{}
	case "read", "pread", "write", "pwrite", "ftruncate", "falloc", "seek", "sendfile", "fsync", "copy":
		return w.content(a, s)
	case "truncate":
		dir, name := w.at(a.A)
		var st unix.Stat_t
		if dir != unix.AT_FDCWD || unix.Stat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == a.Off {
			return nothing() // a plain file keeps its times then; the kernel does not tell a server this from an open with O_TRUNC, which sets them
		}
		return ended(unix.Truncate(name, a.Off))
	case "mmap", "mread", "mwrite", "munmap":
		return w.mapped(a, s)
	case "flock", "ofdlock", "lock":
		return w.lock(a, s)
	case "list", "dirread", "dirend":
		return w.list(a, s)
	}
	return w.name(a, s)
}

func (w *worker) opened(i, fd, flags int, err error) result {
	if err != nil {
		return ended(err)
	}
	w.put(i, fd, flags)
	return w.stat(fd, "", unix.AT_EMPTY_PATH)
}

// name does what is about names and attributes.
func (w *worker) name(a *action, s *slot) result {
	dir, name := w.at(a.A)
	dir2, name2 := w.at(a.B)
	switch a.Do {
	case "mkdir":
		return ended(unix.Mkdirat(dir, name, a.Mode))
	case "rmdir":
		return ended(unix.Unlinkat(dir, name, unix.AT_REMOVEDIR))
	case "unlink":
		return ended(unix.Unlinkat(dir, name, 0))
	case "rename":
		return ended(unix.Renameat2(dir, name, dir2, name2, uint(a.Flags)))
	case "link":
		return ended(unix.Linkat(dir, name, dir2, name2, a.Flags))
	case "symlink":
		return ended(unix.Symlinkat(a.B, dir, name))
	case "readlink":
		buf := make([]byte, 1000)
		n, err := unix.Readlinkat(dir, name, buf)
		return told(err, "%q", buf[:max(n, 0)])
	case "mknod":
		return ended(unix.Mknodat(dir, name, uint32(a.Flags)|a.Mode, int(unix.Mkdev(1, 3))))
	case "chmod":
		return ended(unix.Fchmodat(dir, name, a.Mode, 0))
	case "fchmod":
		return ended(unix.Fchmod(s.fd, a.Mode))
	case "umask":
		unix.Umask(int(a.Mode & 0o077))
		return result{}
	case "utimes", "futimes":
		return w.utimes(a, s)
	case "stat":
		return w.stat(dir, name, a.Flags)
	case "fstat":
		return w.stat(s.fd, "", unix.AT_EMPTY_PATH)
	case "access":
		return ended(unix.Faccessat2(dir, name, a.Mode&7, a.Flags))
	case "statfs":
		if dir != unix.AT_FDCWD {
			return nothing()
		}
		var st unix.Statfs_t
		err := unix.Statfs(name, &st)
		return told(err, "bsize=%d frsize=%d blocks=%d namelen=%d", st.Bsize, st.Frsize, st.Blocks, st.Namelen)
	case "same":
		var x, y unix.Stat_t
		if err := unix.Fstatat(dir, name, &x, 0); err != nil {
			return ended(err)
		}
		err := unix.Fstatat(dir2, name2, &y, 0)
		return told(err, "%t", x.Ino == y.Ino && x.Dev == y.Dev)
	case "chdir":
		return ended(unix.Chdir(name))
	case "fchdir":
		return ended(unix.Fchdir(s.fd))
	case "getcwd":
		d, err := unix.Getwd()
		if strings.HasPrefix(d, w.root) {
			d = d[len(w.root):]
		} else if err == nil {
			d = "above"
		}
		return told(err, "%q", d)
	}
	panic("no such verb: " + a.Do)
}

// moment returns a time that was set, "now" for others.
func moment(t unix.Timespec) string {
	if t.Sec < minTime {
		return fmt.Sprintf("%d.%d", t.Sec, t.Nsec)
	}
	return "now"
}

// backing.Stat returns the attributes that do not depend on the file system: not the size of a directory,
// nor the modification time of a FIFO.
func (w *worker) stat(dir int, name string, flags int) result {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, flags); err != nil {
		return ended(err)
	}
	text := fmt.Sprintf("mode=%o nlink=%d owner=%d:%d", st.Mode, st.Nlink, st.Uid, st.Gid)
	typ := st.Mode & unix.S_IFMT
	if typ != unix.S_IFDIR {
		text += fmt.Sprintf(" size=%d rdev=%d", st.Size, st.Rdev)
	}
	if typ == unix.S_IFREG || typ == unix.S_IFDIR {
		text += " mtime=" + moment(st.Mtim)
	}
	return result{Text: text}
}

func (w *worker) utimes(a *action, s *slot) result {
	spec := func(how int, sec int64) unix.Timespec {
		switch how & 3 {
		case 0:
			return unix.Timespec{Nsec: unix.UTIME_OMIT}
		case 1:
			return unix.Timespec{Nsec: unix.UTIME_NOW}
		}
		return unix.Timespec{Sec: sec, Nsec: a.Len}
	}
	ts := []unix.Timespec{spec(a.Flags, a.Off-1000), spec(a.Flags>>2, a.Len)}
	flags := 0
	if a.Flags&16 != 0 {
		flags = unix.AT_SYMLINK_NOFOLLOW
	}
	dir, name := w.at(a.A)
	var err error
	if a.Do == "futimes" {
		dir, name, flags = s.fd, "", unix.AT_EMPTY_PATH
		_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(s.fd), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0)
		if errno != 0 {
			err = errno
		}
	} else {
		err = unix.UtimesNanoAt(dir, name, ts, flags)
	}
	if err != nil {
		return ended(err)
	}
	r := w.stat(dir, name, flags)
	var st unix.Stat_t
	if a.Flags&3 == 2 && unix.Fstatat(dir, name, &st, flags) == nil {
		r.Text += " atime=" + moment(st.Atim)
	}
	return r
}

// content does what is about the content of open files.
func (w *worker) content(a *action, s *slot) result {
	n, off := int(a.Len), a.Off
	var st unix.Stat_t
	typ := uint32(0)
	if unix.Fstat(s.fd, &st) == nil {
		typ = st.Mode & unix.S_IFMT
	}
	if s.flags&unix.O_DIRECT != 0 {
		n, off = n&^4095, off&^4095
		if a.Do == "read" || a.Do == "write" || a.Do == "pwrite" && s.flags&unix.O_APPEND != 0 {
			return nothing() // at a position that is not aligned
		}
	}
	if typ == unix.S_IFDIR && (a.Do == "seek" || a.Do == "sendfile") {
		return nothing() // a position is whatever the file system likes
	}
	if (s.flags|w.slots[a.Other].flags)&unix.O_DIRECT != 0 && (a.Do == "sendfile" || a.Do == "copy") {
		return nothing()
	}
	buf := w.buf[:n]
	for i := range buf {
		buf[i] = a.Byte + byte(i>>8)
	}
	position := func() int64 { p, _ := unix.Seek(s.fd, 0, unix.SEEK_CUR); return p }
	switch a.Do {
	case "read":
		n, err := unix.Read(s.fd, buf)
		return told(err, "%s at %d", digest(buf[:max(n, 0)]), position())
	case "pread":
		n, err := unix.Pread(s.fd, buf, off)
		return told(err, "%s", digest(buf[:max(n, 0)]))
	case "write":
		n, err := unix.Write(s.fd, buf)
		return told(err, "%d at %d", n, position())
	case "pwrite":
		n, err := unix.Pwrite(s.fd, buf, off)
		return told(err, "%d", n)
	case "ftruncate":
		return ended(unix.Ftruncate(s.fd, off))
	case "falloc":
		return ended(unix.Fallocate(s.fd, uint32(a.Flags), off, a.Len))
	case "fsync":
		if a.Flags == 1 {
			return ended(unix.Fdatasync(s.fd))
		}
		return ended(unix.Fsync(s.fd))
	case "seek":
		n, err := unix.Seek(s.fd, off, a.Flags)
		return told(err, "%d", n)
	case "sendfile":
		n, err := unix.Sendfile(w.slots[a.Other].fd, s.fd, nil, n)
		return told(err, "%d at %d", n, position())
	}
	// copy
	var in, out *int64
	if a.Flags&1 != 0 {
		in = &off
	}
	if a.Flags&2 != 0 {
		out = new(int64)
		*out = int64(a.Byte) * 100
	}
	n, err := unix.CopyFileRange(s.fd, in, w.slots[a.Other].fd, out, n, 0)
	return told(err, "%d at %d", n, position())
}

func digest(b []byte) string {
	if len(b) <= 8 {
		return fmt.Sprintf("%d bytes %x", len(b), b)
	}
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%d bytes %x", len(b), sum[:6])
}

// mapped uses mappings, whose pages beyond the end of the file fault.
func (w *worker) mapped(a *action, s *slot) (r result) {
	m := &w.maps[a.Slot]
	if a.Do == "mmap" {
		fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 5)
		if err != nil {
			return ended(err)
		}
		prot, flags := unix.PROT_READ, unix.MAP_PRIVATE
		if a.Flags&1 != 0 {
			flags = unix.MAP_SHARED
		}
		if a.Flags&2 != 0 {
			prot |= unix.PROT_WRITE
		}
		data, err := unix.Mmap(fd, 0, mapSize, prot, flags)
		if err != nil {
			unix.Close(fd)
			return ended(err)
		}
		w.unmap(a.Slot)
		*m = mapping{fd: fd, data: data, shared: a.Flags&1 != 0, writes: a.Flags&2 != 0}
		return result{}
	}
	if a.Do == "munmap" || m.fd < 0 || a.Do == "mwrite" && !m.writes {
		w.unmap(a.Slot)
		return result{}
	}
	var st unix.Stat_t
	if err := unix.Fstat(m.fd, &st); err != nil {
		return ended(err)
	}
	// The bytes between the end of the file and of its page are unspecified.
	from, to := a.Off%mapSize, min(a.Off%mapSize+a.Len+1, mapSize)
	if from < st.Size {
		to = min(to, st.Size)
	} else if from = (st.Size + 4095) &^ 4095; from >= mapSize {
		return nothing()
	} else {
		to = from + 1
	}
	defer func() {
		if e := recover(); e != nil {
			r = result{Text: "fault"}
		}
	}()
	if a.Do == "mread" {
		n := copy(w.buf, m.data[from:to])
		return result{Text: digest(w.buf[:n])}
	}
	for i := from; i < to; i++ {
		m.data[i] = a.Byte
	}
	if m.shared {
		return ended(unix.Msync(m.data, unix.MS_SYNC))
	}
	return result{}
}

// lock takes, gives back or asks for a lock, and never waits.
func (w *worker) lock(a *action, s *slot) result {
	if a.Do == "flock" {
		return ended(unix.Flock(s.fd, a.Flags|unix.LOCK_NB))
	}
	l := unix.Flock_t{Type: int16(a.Flags & 0xff), Start: a.Off, Len: a.Len}
	ask, set := unix.F_GETLK, unix.F_SETLK
	if a.Do == "ofdlock" {
		ask, set = unix.F_OFD_GETLK, unix.F_OFD_SETLK
	}
	if a.Flags>>8 == 0 {
		return ended(unix.FcntlFlock(uintptr(s.fd), set, &l))
	}
	err := unix.FcntlFlock(uintptr(s.fd), ask, &l)
	return told(err, "%d from %d for %d", l.Type, l.Start, l.Len)
}

// list reads directories: whole ones, or step by step with a seek after each
// step.
func (w *worker) list(a *action, s *slot) result {
	switch a.Do {
	case "list":
		dir, name := w.at(a.A)
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return ended(err)
		}
		defer unix.Close(fd)
		names, err := entries(fd, -1)
		if err != nil {
			return ended(err)
		}
		slices.Sort(names)
		return result{Text: "all", Names: names}
	case "dirread":
		if s.names == nil {
			unix.Seek(s.fd, 0, unix.SEEK_SET)
		}
		names, err := entries(s.fd, 1+int(a.Byte)%4)
		if err != nil {
			return ended(err)
		}
		s.names = append(s.names, names...)
		return result{}
	}
	names, err := entries(s.fd, -1)
	if err != nil {
		return ended(err)
	}
	names = append(s.names, names...)
	s.names = nil
	unix.Seek(s.fd, 0, unix.SEEK_SET)
	slices.Sort(names)
	return result{Text: "rest", Names: names}
}

// entries reads at most n entries of the directory fd, all if n is negative,
// and leaves the position behind the last.
func entries(fd, n int) ([]string, error) {
	var names []string
	buf := make([]byte, 400) // about one long name
	for n != 0 {
		got, err := unix.Getdents(fd, buf)
		if err != nil || got == 0 {
			return names, err
		}
		for rest := buf[:got]; len(rest) > 0; {
			next := int64(binary.NativeEndian.Uint64(rest[8:]))
			size := binary.NativeEndian.Uint16(rest[16:])
			name, _, _ := strings.Cut(string(rest[19:size]), "\x00")
			names = append(names, fmt.Sprintf("%s|%d", name, rest[18]))
			rest = rest[size:]
			if n--; n == 0 && len(rest) > 0 {
				if _, err := unix.Seek(fd, next, unix.SEEK_SET); err != nil {
					return names, err
				}
				break
			}
		}
	}
	return names, nil
}
