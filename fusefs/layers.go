package fusefs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/sys/beneath"
)

// A Copy makes a tree copied: what is changed through it goes to an upper layer, and Root stays as it
// is. Package cow has the format.
type Copy struct {
	// Upper and Work are descriptors of two directories of one file system, which nothing else
	// writes to while the tree is served; O_PATH is enough. Work is for temporary names, and is empty.
	// Serve duplicates both.
	Upper, Work int

	// Log has what the host had where the upper layer hides it. The caller closes it.
	Log *cow.Log
}

// An upperLayer is the state of a copied tree; nil in a direct one.
type upperLayer struct {
	*names
	work int // descriptor of the directory for temporary names
	log  *cow.Log
	// apart is set in the numbers of the upper layer's inodes if the layers are on two file systems,
	// whose numbers could be the same.
	apart uint64

	borrow  int64         // the size from which files borrow their content
	temps   atomic.Uint64 // number of names used in work
	copyUps atomic.Uint64
}

// A lowerLayer is what a copied tree shows of the host, which changes it; nil in a direct one.
type lowerLayer struct {
	*names
	top *handle // Options.Root; held until close

	// moved are the directories whose lower half, and files whose content, has another path than
	// they. Guarded by table.mu.
	moved map[*node]struct{}
}

// layers are where the object of a node is, in a copied tree; nil in a direct one.
type layers struct {
	upper atomic.Bool // in the upper layer

	// merges says that it shows what the host has, now or later, at lowerPath: a directory, or a file
	// that borrows its content. It is beside upper since each file has all this: 64 bytes.
	merges atomic.Bool

	ino atomic.Uint64 // the number that is presented, for as long as the node is known

	content sync.RWMutex // instead of contents.mu: copying to the upper layer takes long

	// lower is lowerPath: where a directory's lower half is, where a file's content is that it borrows,
	// and where the host's file without a name was, from the root of the codebase; nil if that is empty. It
	// changes with names.renameMu held for writing, a directory's also with table.mu.
	lower *string

	lowerSeen atomic.Int64 // when that was last found at lowerPath, by names.clock

	*dirLayers // nil unless it is a directory
}

// lowerPath returns the path that lower has; empty: none.
func (l *layers) lowerPath() string {
	if l.lower == nil {
		return ""
	}
	return *l.lower
}

func (l *layers) setLowerPath(path string) {
	if path == "" {
		l.lower = nil
		return
	}
	l.lower = &path
}

// dirLayers are the part of layers that only directories have.
type dirLayers struct {
	mu        sync.Mutex   // held while an entry is looked for and made
	listing   *mergedList  // guarded by mu; nil: not listed yet
	lowerTime atomic.Int64 // when its lower half had changed last, as of the last listing
}

// apartBit is upperLayer.apart of two file systems.
const apartBit = 1 << 62

// inUpper reports whether n is in the upper layer of a copied tree.
func (n *node) inUpper() bool { return n.layers != nil && n.layers.upper.Load() }

// merges reports whether the directory n shows what the host has, so that the host changes it.
func (n *node) merges() bool {
	if n.layers == nil {
		return !n.private()
	}
	return n.layers.merges.Load()
}

// hostChanges reports whether the host changes what is in the directory n: merges, or it is one of
// a git directory of the host's.
func (n *node) hostChanges() bool { return n.merges() || n.getState().path == inHosts }

// newUpperLayer opens the layer of opts, for newTree. root is the tree's root directory.
func newUpperLayer(ns *names, opts *Options) (layer *upperLayer, upper int, err error) {
	c := opts.Copy
	if c.Log == nil {
		return nil, -1, errors.New("serve a tree: Copy.Log is nil")
	}
	upper, errno := openBeneath(c.Upper, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if errno != 0 {
		return nil, -1, fmt.Errorf("open the upper layer: %w", errno)
	}
	work, errno := openBeneath(c.Work, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
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

// rootLayers gives the root, the host's o with the upper half of the descriptor upper, its layers.
func (u *upperLayer) rootLayers(n *node, o *object, upper int) error {
	own, errno := u.stat(fdName{fd: upper})
	if errno != 0 {
		return fmt.Errorf("stat the upper layer: %w", errno)
	}
	n.inode.Store(&own.ident)
	n.layers = &layers{dirLayers: &dirLayers{}}
	n.layers.ino.Store(o.Ino)
	n.layers.upper.Store(true)
	n.layers.merges.Store(true)
	return nil
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

// maxDigest is the size of the largest file, in bytes, whose content is recorded by its digest: of a larger one
// the host's inode and times have to tell whether it has changed.
const maxDigest = 1 << 20

// note records what the host has at path, before the upper layer hides it. content opens the object, if it is a
// regular file, to read it, so that the same content under another inode is no change of the host's; nil: it is not
// recorded.
func (u *upperLayer) note(path string, o *object, content func() (int, syscall.Errno)) syscall.Errno {
	r := cow.RecordOf(path, &o.Statx_t)
	if content != nil && o.typ() == unix.S_IFREG && o.Size <= maxDigest && !u.log.Has(path) {
		if fd, errno := content(); errno == 0 { // a file that cannot be read has no digest
			f := os.NewFile(uintptr(fd), path)
			r.Digest, _ = cow.Digest(io.NewSectionReader(f, 0, int64(o.Size)))
			_ = f.Close()
		}
	}
	if err := u.log.Add(r); err != nil {
		u.logger.Error("record what the host has", "error", err)
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return errno
		}
		return syscall.EIO
	}
	return 0
}

// lowerPathOf returns the path that the entry called name of dir has in the lower layer.
func lowerPathOf(dir *node, name string) string {
	if dir.layers.lowerPath() == "" {
		return name
	}
	return dir.layers.lowerPath() + "/" + name
}

// newLayers returns the layers of the object r at e, for a new node.
func (u *upperLayer) newLayers(e *entry, r *lookupResult) *layers {
	l := &layers{}
	l.ino.Store(u.number(r.obj.Ino, r.upper))
	l.upper.Store(r.upper)
	if r.obj.isDir() {
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

// noteMoved keeps upperLayer.moved right for n, a directory at the entry called name of dir. The
// caller holds table.mu.
func (lo *lowerLayer) noteMoved(n, dir *node, name string) {
	if !n.isDir() && !n.borrows() {
		delete(lo.moved, n)
		return
	}
	if half, _ := n.half(dir, name); half == cow.Moved {
		lo.moved[n] = struct{}{}
	} else {
		delete(lo.moved, n)
	}
}

// releaseLayers frees what the layers of n hold, which is no longer in the table.
func (lo *lowerLayer) release(n *node) {
	u := usePath
	if n.inUpper() {
		u = useLower
	}
	fd := -1
	if h := lo.fds.cached(n, u); h != nil {
		defer h.release()
		fd = h.fd
	}
	lo.watch.remove(n, fd)
	if n.isDir() || n.borrows() {
		lo.table.mu.Lock()
		delete(lo.moved, n)
		lo.table.mu.Unlock()
	}
}

// half returns where the lower half of the directory n is, or the content that the file n borrows,
// at the entry called name of dir, and for cow.Moved its path.
func (n *node) half(dir *node, name string) (cow.Half, string) {
	switch {
	case !n.merges():
		return cow.Own, ""
	case !dir.merges() || n.layers.lowerPath() != lowerPathOf(dir, name):
		return cow.Moved, n.layers.lowerPath()
	}
	return cow.Merged, ""
}
