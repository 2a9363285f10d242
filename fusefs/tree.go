package fusefs

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A tree answers the kernel's requests. Its methods are called concurrently.
//
// A goroutine takes its locks in the order contentMu, changeMu, rulesMu, renameMu, modeMu. A request holds
// changeMu and rulesMu from its beginning, so it releases them before it waits for a lock of contentMu: see
// withoutRules.
type tree struct {
	fuse.RawFileSystem // refuses what tree has no method for
	backing

	// changeMu is held for reading while a request of changing is answered, for writing by
	// Quiesce and SetRules.
	changeMu sync.RWMutex

	// rulesMu is held for reading while a request is answered, for writing while the
	// rules change.
	rulesMu sync.RWMutex
	rules   Rules  // guarded by rulesMu
	dirSize uint64 // what is presented for a directory in which something may be hidden: see setRules; guarded by rulesMu

	// contentMu are held for reading while a file is changed, for writing while its node
	// is given another inode; each is for a part of all nodes.
	contentMu [64]sync.RWMutex

	// renameMu is held while names of the backing file system are used together with the
	// table: for writing by what changes both.
	renameMu sync.RWMutex

	owner     Owner
	timeout   time.Duration
	report    func(Denial)
	unguarded bool // Options.Unguarded
	start     time.Time

	table *table
	fds   *fdCache
	root  *handle // nil: it is given later; guarded by rulesMu until then

	writeback writeback

	quota  *quota        // nil: no limit
	copied *upperLayer   // nil: changes go to the host's directory
	git    *privateGit   // nil: git directories are served by the rules
	links  atomic.Uint64 // hard links that were made, not those in private git directories

	noWatch bool // Options.NoWatch, for Give
	ended   bool // it is unmounted; guarded by rulesMu

	// Of the function that Quiesce calls; guarded by changeMu, held for writing.
	discarded bool     // it has called Discarded
	revoked   []uint64 // nodes whose content may no longer be read

	dev   *device
	inval *invalQueue
	watch *watcher // nil: the host's changes are not noticed

	maxNodes         int          // above it the kernel is asked to forget some
	nextPrune        atomic.Int64 // when it may be asked again, by clock
	pruneUnsupported atomic.Bool

	// rootAbsent is when the kernel last got the answer that a name does not exist in the
	// root, by clock; kept only if it has no epochs.
	rootAbsent atomic.Int64

	forgotten  atomic.Int64  // when the kernel has last forgotten all, by clock
	dirsWalked atomic.Uint64 // directories that validatePath has looked at
}

// clock returns the time since the start, in nanoseconds.
func (t *tree) clock() int64 { return int64(time.Since(t.start)) }

// dir returns the directory node called id.
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

// plainName reports whether name is one component of a path. The kernel sends no other, but
// the confinement to a directory depends on it. The server's own files are out of reach.
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

// StatFs returns the size of the backing file system, or what the quota leaves of it.
func (t *tree) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	if _, errno := t.allowed(opStatfs, in, in.NodeId); errno != 0 {
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

// Forget subtracts lookups that the kernel no longer holds.
func (t *tree) Forget(id, nlookup uint64) {
	for _, n := range t.table.forget(id, nlookup) {
		t.release(n)
	}
}

// release frees the resources of n, which is no longer in the table.
func (t *tree) release(n *node) {
	fd := -1
	if h := t.fds.anyOf(n); h != nil {
		defer h.release()
		fd = h.fd
	}
	if n.layers != nil {
		t.releaseLayers(n)
	} else {
		t.watch.remove(n, fd)
	}
	if t.quota != nil && len(t.table.links(n)) == 0 {
		t.quota.forgotten(n, fd)
	}
	t.fds.forget(n)
}

// close closes all descriptors. No request may be in progress.
func (t *tree) close() {
	defer unix.Close(t.proc)
	if t.root == nil {
		return
	}
	t.table.mu.Lock()
	nodes := t.table.nodes
	t.table.nodes = map[uint64]*node{}
	t.table.mu.Unlock()
	for _, n := range nodes {
		t.fds.forget(n)
	}
	t.root.release()
	t.git.close()
	if t.copied != nil {
		t.copied.lower.release()
		unix.Close(t.copied.work)
	}
}
