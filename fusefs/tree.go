package fusefs

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A tree answers the kernel. Its methods are called concurrently.
type tree struct {
	// verdict is held for reading while requests are answered, and for
	// writing while the rules change.
	rulesMu sync.RWMutex
	rules   Rules // guarded by rulesMu

	owner   Owner
	timeout time.Duration
	report  func(Denial)

	logger *slog.Logger

	start     time.Time
	euid      uint32 // whose inodes are the server's own
	umask     uint32 // of this process: what it takes from the modes it asks for
	proc      int    // this process's descriptors as a directory of links
	bornKnown bool   // the backing file system keeps the birth time of an inode

	// rootAbsent is when the kernel was last told that a name does not exist in
	// the root, by clock; kept only where it cannot be told otherwise.
	rootAbsent atomic.Int64

	table *table
	fds   *fdCache
	root  *handle

	// names is held, for reading or writing, while names of the backing
	// file system are used together with the table. Changes of the latter
	// that follow changes of the former hold it for writing.
	renameMu sync.RWMutex

	shown   string // where the tree is to those inside; "" if that is not known
	created createdInodes

	// contents are held for reading while a file is changed, and for writing while
	// its node is given another inode; each is for a part of all nodes. They are
	// taken before names.
	contentMu [64]sync.RWMutex

	quota    *quota // nil: no limit
	dev      *device
	inval    *invalQueue
	watch    *watcher // nil: the host's changes are not noticed
	counts   [ops]atomic.Uint64
	maxNodes int // nodes that there should be
	// nextPrune is when the kernel may be asked again to forget some, by clock;
	// pruneUnsupported is set if it cannot be.
	nextPrune        atomic.Int64
	pruneUnsupported atomic.Bool

	dirsWalked atomic.Uint64 // directories that validatePath has gone through
}

var _ fuse.RawFileSystem = (*tree)(nil)

func (t *tree) count(o op) { t.counts[o].Add(1) }

// clock returns the time since the start, in nanoseconds.
func (t *tree) clock() int64 { return int64(time.Since(t.start)) }

// dir returns the node called id, which must be a directory.
func (t *tree) dir(id uint64) (*node, syscall.Errno) {
	n := t.table.get(id)
	switch {
	case n == nil:
		return nil, syscall.ESTALE
	case !n.isDir():
		return nil, syscall.ENOTDIR
	}
	return n, 0
}

// plainName reports whether name is that of one entry of a directory. The
// kernel sends no other; what is reached beneath a directory depends on it. The
// files that the server itself makes are out of reach.
func plainName(name string) bool {
	if name == "" || name == "." || name == ".." || strings.HasPrefix(name, ownPrefix) {
		return false
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 {
			return false
		}
	}
	return true
}

// StatFs tells the size of the backing file system.
func (t *tree) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	t.count(opStatfs)
	n := t.table.get(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	if errno := t.allow(opStatfs, in, n); errno != 0 {
		return fuse.Status(errno)
	}
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(t.root.fd, &st); err != nil {
		return fuse.Status(errnoOf(err))
	}
	out.FromStatfsT(&st)
	if t.quota != nil {
		free, limit := t.quota.free()
		block := int64(out.Frsize)
		out.Blocks = min(out.Blocks, uint64(limit/block))
		out.Bfree, out.Bavail = min(out.Bfree, uint64(free/block)), min(out.Bavail, uint64(free/block))
	}
	return fuse.OK
}

// Forget takes back lookups that the kernel no longer holds.
func (t *tree) Forget(id, nlookup uint64) {
	t.count(opForget)
	for _, n := range t.table.forget(id, nlookup) {
		t.release(n)
	}
}

// release lets go of what belongs to n, which is no longer in the table.
func (t *tree) release(n *node) {
	fd := -1
	if h := t.fds.anyOf(n); h != nil {
		defer h.release()
		fd = h.fd
	}
	t.watch.remove(n, fd)
	if t.quota != nil && len(t.table.siblings(n)) == 0 {
		t.quota.forgotten(n, fd)
	}
	t.fds.forget(n)
}

// Init is not called: the messages come from a device.
func (t *tree) Init(*fuse.Server) {}

// OnUnmount is not called either.
func (t *tree) OnUnmount() {}

// String names the file system.
func (t *tree) String() string { return "wolffia" }

// SetDebug is not offered.
func (t *tree) SetDebug(bool) {}

// close releases all descriptors. No request may be under way.
func (t *tree) close() {
	t.table.mu.Lock()
	nodes := t.table.nodes
	t.table.nodes = map[uint64]*node{}
	t.table.mu.Unlock()
	for _, n := range nodes {
		t.fds.forget(n)
	}
	t.root.release()
	unix.Close(t.proc)
}
