package backing

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// A Usage is what the upper layer of a copied tree takes.
type Usage struct {
	Names int64 // files, directories, links and whiteouts
	Bytes int64 // of the disk: what Options.Quota limits
}

// A counting is one count of an upper layer.
type counting struct {
	Usage
	linked map[Identity]struct{} // counted inodes with several names
}

// MaxDepth is how many directories deep names can be used, enough for each path of PATH_MAX
// bytes. Proofs of deeper directories would cost too much to keep.
const MaxDepth = unix.PathMax / 2

// maxCountDepth bounds the descriptors of a count. Names that deep cannot be used.
const maxCountDepth = 2 * MaxDepth

// Count counts the objects in the upper directory fd, and below.
func (b *FS) Count(fd int) (Usage, syscall.Errno) {
	c := counting{linked: map[Identity]struct{}{}}
	errno := b.count(&c, fd, 0)
	return c.Usage, errno
}

func (b *FS) count(c *counting, fd, depth int) syscall.Errno {
	if depth > maxCountDepth {
		return syscall.ENAMETOOLONG
	}
	var dirs []string
	var failed syscall.Errno
	errno := b.AsOwner(fd, func() error {
		errno := b.EachName(fd, func(name string, _ uint32) syscall.Errno {
			o, errno := b.Stat(At{fd, name})
			if errno != 0 {
				failed = errno
				return errno
			}
			c.add(o)
			if o.IsDir() {
				dirs = append(dirs, name)
			}
			return 0
		})
		if errno != 0 && failed == 0 {
			return errno
		}
		return nil
	})
	if errno == 0 {
		errno = failed
	}
	for _, name := range dirs {
		if errno != 0 {
			break
		}
		errno = b.countBelow(c, fd, name, depth)
	}
	return errno
}

func (b *FS) countBelow(c *counting, fd int, name string, depth int) (errno syscall.Errno) {
	sub := -1
	errno = b.AsOwner(fd, func() error {
		var bad syscall.Errno
		if sub, bad = OpenBeneath(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); bad != 0 {
			return bad
		}
		return nil
	})
	if errno != 0 {
		return errno
	}
	defer unix.Close(sub)
	return b.count(c, sub, depth+1)
}

// add counts o.
func (c *counting) add(o *Object) {
	c.Names++
	c.Bytes += ObjectCost
	if o.Type() != unix.S_IFREG {
		return
	}
	if o.Nlink > 1 {
		if _, ok := c.linked[o.ID]; ok {
			return
		}
		c.linked[o.ID] = struct{}{}
	}
	c.Bytes += int64(o.Blocks) * 512
}
