package backing

import (
	"crypto/rand"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
)

// A TempFile is a new file, in the directory open as dir, that is to replace another.
type TempFile struct {
	Dir, FD int    // fd is -1 once the cache of descriptors owns it
	Name    string // empty: it has none
	Cost    int64  // its bytes on the disk, once it has replaced the other
}

// NewTempFile makes an empty one with the mode 0600. The caller calls discard.
func NewTempFile(dir int) (*TempFile, syscall.Errno) {
	fd, errno := OpenBeneath(dir, ".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if errno == 0 {
		return &TempFile{Dir: dir, FD: fd}, 0
	}
	c := &TempFile{Dir: dir, Name: TempName()} // a file system without O_TMPFILE
	if c.FD, errno = OpenBeneath(dir, c.Name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600); errno != 0 {
		return nil, errno
	}
	return c, 0
}

// OwnPrefix begins the names of files that the server makes. No sandbox can use these names:
// another sandbox may have the same codebase.
const OwnPrefix = cow.TempPrefix

func TempName() string { return OwnPrefix + rand.Text() }

// Discard removes c's name and closes it, unless it has replaced another file.
func (c *TempFile) Discard() {
	if c.Name != "" {
		unix.Unlinkat(c.Dir, c.Name, 0)
	}
	if c.FD >= 0 {
		unix.Close(c.FD)
	}
}

// Install moves c to name in the directory dir. It replaces an existing file.
func (b *FS) Install(c *TempFile, dir int, name string) syscall.Errno {
	if c.Name == "" {
		temporary := TempName()
		if errno := b.LinkFD(c.FD, c.Dir, temporary); errno != 0 {
			return errno
		}
		c.Name = temporary
	}
	if err := unix.Renameat(c.Dir, c.Name, dir, name); err != nil {
		return Errno(err)
	}
	c.Name = ""
	return 0
}
