package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// A Usage is what the upper layer of a copied tree takes.
type Usage struct {
	Names int64 // files, directories, links and whiteouts
	Bytes int64 // of the disk: what Options.Quota limits
}

// used returns how many bytes count for the quota of a copied tree. What cannot be counted leaves
// no room.
func (u *upperLayer) used() int64 {
	if u.quota == nil {
		return 0
	}
	all, errno := u.usage(u.root.fd)
	if errno != 0 {
		u.logger.Error("count what the upper layer takes", "error", errno)
		return u.quota.limit
	}
	return all.Bytes
}

// A counting is one count of an upper layer.
type counting struct {
	Usage
	linked map[identity]struct{} // counted inodes with several names
}

// maxCountDepth bounds the descriptors of a count. Names that deep cannot be used.
const maxCountDepth = 2 * maxDepth

// usage counts the objects in the upper directory fd, and below.
func (b *backing) usage(fd int) (Usage, syscall.Errno) {
	c := counting{linked: map[identity]struct{}{}}
	errno := b.count(&c, fd, 0)
	return c.Usage, errno
}

func (b *backing) count(c *counting, fd, depth int) syscall.Errno {
	if depth > maxCountDepth {
		return syscall.ENAMETOOLONG
	}
	var dirs []string
	var failed syscall.Errno
	errno := b.asOwner(fd, func() error {
		errno := b.eachName(fd, func(name string, _ uint32) syscall.Errno {
			o, errno := b.stat(fdName{fd, name})
			if errno != 0 {
				failed = errno
				return errno
			}
			c.add(o)
			if o.isDir() {
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

func (b *backing) countBelow(c *counting, fd int, name string, depth int) (errno syscall.Errno) {
	sub := -1
	errno = b.asOwner(fd, func() error {
		var bad syscall.Errno
		if sub, bad = openBeneath(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); bad != 0 {
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
func (c *counting) add(o *object) {
	c.Names++
	c.Bytes += objectCost
	if o.typ() != unix.S_IFREG {
		return
	}
	if o.Nlink > 1 {
		if _, ok := c.linked[o.ident]; ok {
			return
		}
		c.linked[o.ident] = struct{}{}
	}
	c.Bytes += int64(o.Blocks) * 512
}
