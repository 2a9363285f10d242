package fusefs

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

// A backing opens, examines and changes objects of the backing file system, those of the host and
// of an upper layer, by descriptors. It knows neither nodes nor rules. Its methods are safe for
// concurrent use.
type backing struct {
	proc      int    // /proc/self/fd
	euid      uint32 // owner of the inodes that are the server's own
	umask     uint32 // of this process: it removes bits from the modes of new files
	bornKnown bool   // the file system keeps the birth time of an inode
	logger    *slog.Logger

	// modeMu is held while a mode changes: asOwner changes one for a moment.
	modeMu sync.Mutex

	quota *quota // nil: no limit

	copyLimit time.Duration // how long a copy may take: the constant, but in a test
}

// init opens what b needs. The caller closes b.proc.
func (b *backing) init(logger *slog.Logger) (err error) {
	b.euid, b.umask, b.copyLimit, b.logger = uint32(os.Geteuid()), proc.Umask(), copyLimit, logger
	b.proc, err = openProcFD()
	return err
}

// setID are the set-user-ID and set-group-ID bits. They are never presented or set.
const setID = unix.S_ISUID | unix.S_ISGID

// An fdName is an object: the entry called name of the directory fd, or the object of fd
// itself if name is empty.
type fdName struct {
	fd   int
	name string
}

func (a fdName) flags() int {
	if a.name == "" {
		return unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW
	}
	return unix.AT_SYMLINK_NOFOLLOW
}

// An object has the attributes of one inode of the backing file system.
type object struct {
	unix.Statx_t
	ident  identity
	access uint32 // rwx bits that the server has, if the inode is another user's

	lentLinked bool // the content that the file borrows has other names at the host
}

func (o *object) typ() uint32 { return uint32(o.Mode) & unix.S_IFMT }

func (o *object) isDir() bool { return o.typ() == unix.S_IFDIR }

// isMount reports whether o is the root of another mount.
func (o *object) isMount() bool { return o.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 }

// stat returns the object at a, without following a link.
func (b *backing) stat(a fdName) (*object, syscall.Errno) { return b.statInto(new(object), a) }

// statInto is stat, and uses o for the result.
func (b *backing) statInto(o *object, a fdName) (*object, syscall.Errno) {
	*o = object{}
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	errno := retry(func() error { return unix.Statx(a.fd, a.name, a.flags()|unix.AT_NO_AUTOMOUNT, mask, &o.Statx_t) })
	if errno != 0 {
		return nil, errno
	}
	o.ident = identity{dev: unix.Mkdev(o.Dev_major, o.Dev_minor), ino: o.Ino}
	if b.bornKnown && o.Mask&unix.STATX_BTIME != 0 {
		o.ident.born = unix.StatxTimestamp{Sec: o.Btime.Sec, Nsec: o.Btime.Nsec}
	}
	return o, 0
}

// examine is stat, and sets object.access. The kernel opens files without asking, so that
// the presented mode must say what the server itself may do.
func (b *backing) examine(a fdName) (*object, syscall.Errno) { return b.examineInto(new(object), a) }

// examineInto is examine, and uses o for the result.
func (b *backing) examineInto(o *object, a fdName) (*object, syscall.Errno) {
	o, errno := b.statInto(o, a)
	if errno == 0 {
		b.tryAccess(a, o)
	}
	return o, errno
}

// tryAccess sets the access of o, which is at a, if another user owns it.
func (b *backing) tryAccess(a fdName, o *object) {
	if o.Uid == b.euid || o.typ() == unix.S_IFLNK {
		return
	}
	for _, bit := range []uint32{unix.R_OK, unix.W_OK, unix.X_OK} {
		if unix.Faccessat2(a.fd, a.name, bit, unix.AT_EACCESS|a.flags()) == nil {
			o.access |= bit
		}
	}
}

// openBeneath is beneath.Open for one name. It never enters another mount, and so not the
// server's own, where the server would wait for itself.
func openBeneath(dir int, name string, flags int, mode uint32) (int, syscall.Errno) {
	fd, err := beneath.Open(dir, name, flags, mode)
	return fd, errnoOf(err)
}

// inDir calls f with the directory called name of the directory fd, open with O_PATH.
func inDir(fd int, name string, f func(dir int) syscall.Errno) syscall.Errno {
	dir, errno := openBeneath(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(dir)
	return f(dir)
}

// reopen opens the regular file of the O_PATH descriptor fd. It goes through the descriptor,
// so that no name is resolved again. The result is blind if the file may only be written.
func (b *backing) reopen(fd int, u use) (got int, blind bool, errno syscall.Errno) {
	if u != useWrite {
		got, errno = b.openProc(fd, unix.O_RDONLY)
		return got, false, errno
	}
	got, errno = b.openProc(fd, unix.O_RDWR)
	if blind = errno == syscall.EACCES; blind {
		got, errno = b.openProc(fd, unix.O_WRONLY)
	}
	if errno == 0 {
		if errno = stripSetID(got); errno != 0 {
			unix.Close(got)
		}
	}
	return got, blind, errno
}

// openProc opens the object of the O_PATH descriptor fd.
func (b *backing) openProc(fd, flags int) (got int, errno syscall.Errno) {
	errno = retry(func() (err error) {
		got, err = unix.Openat(b.proc, strconv.Itoa(fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		return err
	})
	return got, errno
}

// stripSetID removes the set-id bits of a file that is about to be written. The kernel does
// so at the write, but not for a server that runs as root.
func stripSetID(fd int) syscall.Errno {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errnoOf(err)
	}
	if st.Mode&setID == 0 {
		return 0
	}
	return errnoOf(unix.Fchmod(fd, st.Mode&0o7777&^setID))
}

// linkFD makes name, in the directory open as dir, another name of the object of the O_PATH
// descriptor fd.
func (b *backing) linkFD(fd, dir int, name string) syscall.Errno {
	return errnoOf(unix.Linkat(b.proc, strconv.Itoa(fd), dir, name, unix.AT_SYMLINK_FOLLOW))
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

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

func isRegular(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

func sameInode(a, b int) bool {
	var x, y unix.Stat_t
	return unix.Fstat(a, &x) == nil && unix.Fstat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}

func isWhiteout(o *object) bool {
	return cow.IsWhiteout(uint32(o.Mode), o.Rdev_major, o.Rdev_minor)
}

// errnoOf returns the errno in err, 0 for nil.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(syscall.Errno); ok {
		return e
	}
	return syscall.EIO
}

// retry calls f until no signal interrupts it, and returns its errno.
func retry(f func() error) syscall.Errno {
	for {
		if err := f(); err != syscall.EINTR {
			return errnoOf(err)
		}
	}
}
