package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
)

// A tree answers the kernel's requests, with its parts: each owns what it is named for, and all
// share the names. Its methods are called concurrently.
//
// A goroutine takes its locks in the order contents.mu, changeMu, rulesMu, renameMu, modeMu. A
// request holds changeMu and rulesMu from its beginning, so it releases them before it waits for a
// lock of contents.mu: see contents.splitRules.
type tree struct {
	fuse.RawFileSystem // refuses what tree has no method for
	names

	gate     gatekeeper
	guard    worktreeGuard
	chowns   bool // Options.Chown
	attrs    attrs
	contents contents
	kernel   kernelCache
	respond  responder

	writeback writeback

	noWatch   bool      // Options.NoWatch, for Attach
	moveTemps [2]string // Options.MoveTemps
	ended     bool      // it is unmounted; guarded by rulesMu

	// Of the function that Quiesce calls; guarded by changeMu, held for writing.
	discarded bool     // it has called Discarded
	revoked   []uint64 // nodes whose content may no longer be read
}

// StatFs returns the size of the backing file system, or what the quota leaves of it.
func (t *tree) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	if _, errno := t.gate.allowed(gate.OpStatfs, in, in.NodeId); errno != 0 {
		return fuse.Status(errno)
	}
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(t.root.fd, &st); err != nil {
		return fuse.Status(backing.Errno(err))
	}
	out.FromStatfsT(&st)
	if t.Quota != nil {
		free, limit := t.Quota.Free()
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
		t.lower.release(n)
	} else {
		t.watch.remove(n, fd)
	}
	if t.Quota != nil && len(t.table.links(n)) == 0 {
		t.Quota.Forgotten(n.ident(), fd)
	}
	t.fds.forget(n)
}

// close closes all descriptors. No request may be in progress.
func (t *tree) close() {
	defer unix.Close(t.Proc)
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
		t.lower.top.release()
		unix.Close(t.copied.work)
	}
}
