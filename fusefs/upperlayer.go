package fusefs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
	"wolffia/internal/sys/beneath"
)

// An upperLayer is the state of a copied tree; nil in a direct one.
type upperLayer struct {
	*names
	work int // descriptor of the directory for temporary names
	log  *cow.Log
	// apart is set in the numbers of the upper layer's inodes if the layers are on two file
	// systems, whose numbers could be the same.
	apart uint64

	borrow  int64         // the size from which files borrow their content
	temps   atomic.Uint64 // number of names used in work
	copyUps atomic.Uint64
}

// newUpperLayer opens the layer of opts, for newTree. root is the tree's root directory.
func newUpperLayer(ns *names, opts *Options) (layer *upperLayer, upper int, err error) {
	c := opts.Copy
	if c.Log == nil {
		return nil, -1, errors.New("serve a tree: Copy.Log is nil")
	}
	upper, errno := backing.OpenBeneath(c.Upper, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if errno != 0 {
		return nil, -1, fmt.Errorf("open the upper layer: %w", errno)
	}
	work, errno := backing.OpenBeneath(c.Work, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if errno != 0 {
		unix.Close(upper)
		return nil, -1, fmt.Errorf("open the work directory: %w", errno)
	}
	var a, b, r unix.Stat_t
	err = errors.Join(unix.Fstat(upper, &a), unix.Fstat(work, &b), unix.Fstat(opts.Root, &r))
	if err == nil && a.Dev != b.Dev {
		err = errors.New("the upper layer and the work directory are on two file systems")
	}
	if err == nil {
		err = beneath.CheckNames(upper)
	}
	if err != nil {
		unix.Close(upper)
		unix.Close(work)
		return nil, -1, fmt.Errorf("check the upper layer: %w", err)
	}
	layer = &upperLayer{names: ns, work: work, log: c.Log, borrow: cow.MinData}
	if a.Dev != r.Dev {
		layer.apart = apartBit
	}
	return layer, upper, nil
}

// temp returns an unused name in u.work.
func (u *upperLayer) temp() string { return "t" + strconv.FormatUint(u.temps.Add(1), 36) }

// number returns the number to be presented for the inode ino.
func (u *upperLayer) number(ino uint64, upper bool) uint64 {
	if upper {
		return ino | u.apart
	}
	return ino
}

// maxDigest is the size of the largest file, in bytes, whose content is recorded by its digest:
// for a larger one the host's inode and times must show whether it has changed.
const maxDigest = 1 << 20

// note records what the host has at path, before the upper layer hides it. content opens the
// object, if it is a regular file, to read it, so that the same content under another inode is no
// change of the host's; nil: it is not recorded.
func (u *upperLayer) note(path string, o *backing.Object, content func() (int, syscall.Errno)) syscall.Errno {
	r := cow.RecordOf(path, &o.Statx_t)
	if content != nil && o.Type() == unix.S_IFREG && o.Size <= maxDigest && !u.log.Has(path) {
		if fd, errno := content(); errno == 0 { // a file that cannot be read has no digest
			f := os.NewFile(uintptr(fd), path)
			r.Digest, _ = cow.Digest(io.NewSectionReader(f, 0, int64(o.Size)))
			_ = f.Close()
		}
	}
	if err := u.log.Add(r); err != nil {
		u.Logger.Error("record what the host has", "error", err)
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return errno
		}
		return syscall.EIO
	}
	return 0
}

// lookupUpper is lookupEntry for the upper half fd of a directory. With ENOENT the result has the
// whiteout, if there is one.
func (u *upperLayer) lookup(e *entry, fd int, known *node) (lookupResult, syscall.Errno) {
	a := backing.At{FD: fd, Name: e.name}
	obj, errno := u.Examine(a)
	r := lookupResult{obj: obj, fd: -1, upper: true}
	switch {
	case errno != 0:
	case backing.IsWhiteout(obj):
		errno = syscall.ENOENT
	case obj.IsDir() && known != nil && known.ident() == obj.ID:
		r.half, r.lowerPath = known.half(e.dir, e.name)
	case obj.IsDir():
		r.fd, r.half, r.lowerPath, errno = u.OpenUpper(a)
	case obj.Type() != unix.S_IFREG:
	case known != nil && known.ident() == obj.ID:
		if known.borrows() {
			r.borrowed = known.layers.lowerPath()
		}
	default:
		r.borrowed, errno = u.readBorrow(a, obj)
	}
	if r.borrowed != "" {
		_, l := u.levels.judgePath(r.borrowed, false)
		e.levels[0] = min(u.levels.of(e, false), l)
	}
	if r.half == cow.Moved {
		u.levels.judgeMoved(e, r.lowerPath)
	}
	return r, errno
}

// newLayers returns the layers of the object r at e, for a new node.
func (u *upperLayer) newLayers(e *entry, r *lookupResult) *layers {
	l := &layers{}
	l.ino.Store(u.number(r.obj.Ino, r.upper))
	l.upper.Store(r.upper)
	if r.obj.IsDir() {
		l.dirLayers = &dirLayers{}
		switch {
		case r.half == cow.Moved:
			l.setLowerPath(r.lowerPath)
			l.merges.Store(true)
		case r.half == cow.Merged && e.dir.merges():
			l.setLowerPath(lowerPathOf(e.dir, e.name))
			l.merges.Store(true)
		}
	}
	if r.borrowed != "" {
		l.setLowerPath(r.borrowed)
		l.merges.Store(true)
	}
	l.lowerSeen.Store(neverValidated)
	return l
}

// rootLayers gives the root, the host's o with the upper half of the descriptor upper, its layers.
func (u *upperLayer) rootLayers(n *node, o *backing.Object, upper int) error {
	own, errno := u.Stat(backing.At{FD: upper})
	if errno != 0 {
		return fmt.Errorf("stat the upper layer: %w", errno)
	}
	n.inode.Store(&own.ID)
	n.layers = &layers{dirLayers: &dirLayers{}}
	n.layers.ino.Store(o.Ino)
	n.layers.upper.Store(true)
	n.layers.merges.Store(true)
	return nil
}

// used returns how many bytes count for the quota of a copied tree. What cannot be counted leaves
// no room.
func (u *upperLayer) used() int64 {
	if u.Quota == nil {
		return 0
	}
	all, errno := u.Count(u.root.fd)
	if errno != 0 {
		u.Logger.Error("count what the upper layer takes", "error", errno)
		return u.Quota.Size()
	}
	return all.Bytes
}
