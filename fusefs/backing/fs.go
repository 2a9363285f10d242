// Package backing opens, examines or changes objects of the file system below a tree, by descriptors.
//
// It is the tree's only way to the host's files and to those of an upper layer: it knows neither
// nodes nor rules. An object is opened by the descriptor of its directory and one name, without
// following a link or entering a mount.
package backing

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/proc"
)

// An FS opens, examines and changes objects of the backing file system, those of the host and
// of an upper layer, by descriptors. It knows neither nodes nor rules. Its methods are safe for
// concurrent use.
type FS struct {
	Proc      int    // /proc/self/fd
	EUID      uint32 // owner of the inodes that are the server's own
	Umask     uint32 // of this process: it removes bits from the modes of new files
	BornKnown bool   // the file system keeps the birth time of an inode
	Logger    *slog.Logger

	// modeMu is held while a mode changes: AsOwner changes one for a moment.
	modeMu sync.Mutex

	Quota *Quota // nil: no limit

	copyLimit time.Duration // how long a copy may take: the constant, but in a test
}

// Open opens what b needs. The caller closes b.Proc.
func (b *FS) Open(logger *slog.Logger) (err error) {
	b.EUID, b.Umask, b.copyLimit, b.Logger = uint32(os.Geteuid()), proc.Umask(), copyLimit, logger
	b.Proc, err = openProcFD()
	return err
}

// SetIDBits are the set-user-ID and set-group-ID bits. They are never presented or set.
const SetIDBits = unix.S_ISUID | unix.S_ISGID

// An At is an object: the entry called name of the directory fd, or the object of fd
// itself if name is empty.
type At struct {
	FD   int
	Name string
}

func (a At) flags() int {
	if a.Name == "" {
		return unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW
	}
	return unix.AT_SYMLINK_NOFOLLOW
}

// An Identity tells an inode of the backing file system from all others, including a later
// inode with the same number.
type Identity struct {
	Dev, Ino uint64
	born     unix.StatxTimestamp
}

// An Object has the attributes of one inode of the backing file system.
type Object struct {
	unix.Statx_t
	ID     Identity
	Access uint32 // rwx bits that the server has, if the inode is another user's

	BorrowsLinked bool // the content that the file borrows has other names at the host
}

func (o *Object) Type() uint32 { return uint32(o.Mode) & unix.S_IFMT }

func (o *Object) IsDir() bool { return o.Type() == unix.S_IFDIR }

// IsMount reports whether o is the root of another mount.
func (o *Object) IsMount() bool { return o.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 }

// Stat returns the object at a, without following a link.
func (b *FS) Stat(a At) (*Object, syscall.Errno) { return b.statInto(new(Object), a) }

// statInto is Stat, and uses o for the result.
func (b *FS) statInto(o *Object, a At) (*Object, syscall.Errno) {
	*o = Object{}
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	errno := Retry(func() error { return unix.Statx(a.FD, a.Name, a.flags()|unix.AT_NO_AUTOMOUNT, mask, &o.Statx_t) })
	if errno != 0 {
		return nil, errno
	}
	o.ID = Identity{Dev: unix.Mkdev(o.Dev_major, o.Dev_minor), Ino: o.Ino}
	if b.BornKnown && o.Mask&unix.STATX_BTIME != 0 {
		o.ID.born = unix.StatxTimestamp{Sec: o.Btime.Sec, Nsec: o.Btime.Nsec}
	}
	return o, 0
}

// Examine is Stat, and sets Object.Access. The kernel opens files without asking, so that
// the presented mode must say what the server itself may do.
func (b *FS) Examine(a At) (*Object, syscall.Errno) { return b.ExamineInto(new(Object), a) }

// ExamineInto is examine, and uses o for the result.
func (b *FS) ExamineInto(o *Object, a At) (*Object, syscall.Errno) {
	o, errno := b.statInto(o, a)
	if errno == 0 {
		b.TryAccess(a, o)
	}
	return o, errno
}

// TryAccess sets the access of o, which is at a, if another user owns it.
func (b *FS) TryAccess(a At, o *Object) {
	if o.Uid == b.EUID || o.Type() == unix.S_IFLNK {
		return
	}
	for _, bit := range []uint32{unix.R_OK, unix.W_OK, unix.X_OK} {
		if unix.Faccessat2(a.FD, a.Name, bit, unix.AT_EACCESS|a.flags()) == nil {
			o.Access |= bit
		}
	}
}

// OpenBeneath is beneath.Open for one name. It never enters another mount, and so not the
// server's own, where the server would wait for itself.
func OpenBeneath(dir int, name string, flags int, mode uint32) (int, syscall.Errno) {
	fd, err := beneath.Open(dir, name, flags, mode)
	return fd, Errno(err)
}

// InDir calls f with the directory called name of the directory fd, open with O_PATH.
func InDir(fd int, name string, f func(dir int) syscall.Errno) syscall.Errno {
	dir, errno := OpenBeneath(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(dir)
	return f(dir)
}

// Reopen opens the regular file of the O_PATH descriptor fd. It goes through the descriptor,
// so that no name is resolved again. To write it is opened to read and write, and the result is
// blind if it may only be written.
func (b *FS) Reopen(fd int, write bool) (got int, blind bool, errno syscall.Errno) {
	if !write {
		got, errno = b.OpenProc(fd, unix.O_RDONLY)
		return got, false, errno
	}
	got, errno = b.OpenProc(fd, unix.O_RDWR)
	if blind = errno == syscall.EACCES; blind {
		got, errno = b.OpenProc(fd, unix.O_WRONLY)
	}
	if errno == 0 {
		if errno = stripSetID(got); errno != 0 {
			unix.Close(got)
		}
	}
	return got, blind, errno
}

// OpenProc opens the object of the O_PATH descriptor fd.
func (b *FS) OpenProc(fd, flags int) (got int, errno syscall.Errno) {
	errno = Retry(func() (err error) {
		got, err = unix.Openat(b.Proc, strconv.Itoa(fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		return err
	})
	return got, errno
}

// stripSetID removes the set-id bits of a file that is about to be written. The kernel does
// so at the write, but not for a server that runs as root.
func stripSetID(fd int) syscall.Errno {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Errno(err)
	}
	if st.Mode&SetIDBits == 0 {
		return 0
	}
	return Errno(unix.Fchmod(fd, st.Mode&0o7777&^SetIDBits))
}

// LinkFD makes name, in the directory open as dir, another name of the object of the O_PATH
// descriptor fd.
func (b *FS) LinkFD(fd, dir int, name string) syscall.Errno {
	return Errno(unix.Linkat(b.Proc, strconv.Itoa(fd), dir, name, unix.AT_SYMLINK_FOLLOW))
}

func ProcPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// openProcFD opens /proc/self/fd, through which objects of O_PATH descriptors are opened.
func openProcFD() (int, error) {
	const path = "/proc/self/fd"
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	var st unix.Statfs_t
	if err = unix.Fstatfs(fd, &st); err == nil && st.Type != unix.PROC_SUPER_MAGIC {
		err = errors.New("not on a proc file system")
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("%s: %w", path, err)
	}
	return fd, nil
}

func IsRegularFD(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

func SameInode(a, b int) bool {
	var x, y unix.Stat_t
	return unix.Fstat(a, &x) == nil && unix.Fstat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}

func IsWhiteout(o *Object) bool {
	return cow.IsWhiteout(uint32(o.Mode), o.Rdev_major, o.Rdev_minor)
}

// Errno returns the errno in err, 0 for nil.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(syscall.Errno); ok {
		return e
	}
	return syscall.EIO
}

// Retry calls f until no signal interrupts it, and returns its errno.
func Retry(f func() error) syscall.Errno {
	for {
		if err := f(); err != syscall.EINTR {
			return Errno(err)
		}
	}
}
