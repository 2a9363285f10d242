package fusefs

import (
	"sync/atomic"
	"syscall"
	"time"

	"wolffia/fusefs/device"
)

// The kernel caches unused names until its own memory is short, and each is a node here. Above a
// limit the server asks the kernel to forget some of them (Linux 6.18).

const (
	// defaultMemory is the default of Options.Memory.
	defaultMemory = 1 << 30

	// nodeCost is about how many bytes a node with a long name takes, as measured.
	nodeCost = 512

	// minNodes and minHandlers are enough for a program to make slow progress.
	minNodes, minHandlers = 4096, 4

	// pruneBackoff is the pause after a request to forget, as a multiple of the time that the
	// request took: names in use cannot be backing.Forgotten.
	pruneBackoff = 10
)

// shares divides memory, in bytes: half for nodes, a quarter for the buffers of requests.
func shares(memory int64) (nodes, handlers int) {
	if memory <= 0 {
		memory = defaultMemory
	}
	nodes = int(min(memory/2/nodeCost, 1<<24))
	handlers = int(min(memory/4/(2*device.BufferSize), device.MaxHandlers))
	return max(nodes, minNodes), max(handlers, minHandlers)
}

// A kernelCache records what the kernel caches of the tree, and tells the kernel what to forget.
type kernelCache struct {
	*names
	dev        *device.Device
	sequential sequentialLookups

	maxNodes         int          // above it the kernel is asked to forget some
	nextPrune        atomic.Int64 // when it may be asked again, by clock
	pruneUnsupported atomic.Bool

	rootAbsent atomic.Int64 // when it was last told that a name is not in the root, by clock; only without epochs
	forgotten  atomic.Int64 // when it has last backing.Forgotten all, by clock
}

// pruneIfFull queues a call of pruneNodes if there are too many nodes.
func (k *kernelCache) pruneIfFull() {
	if k.table.count.Load() > int64(k.maxNodes) && !k.pruneUnsupported.Load() && k.clock() > k.nextPrune.Load() {
		k.inval.add(invalidation{what: pruneCache})
	}
}

// pruneNodes asks the kernel to forget unused names.
func (k *kernelCache) pruneNodes() syscall.Errno {
	begun := k.clock()
	defer func() {
		now := k.clock()
		k.nextPrune.Store(now + pruneBackoff*(now-begun))
	}()
	const batch = 1 << 12
	for ids := k.table.leaves(int(k.table.count.Load()) - k.maxNodes*3/4); len(ids) > 0; {
		some := ids[:min(batch, len(ids))]
		ids = ids[len(some):]
		if errno := k.dev.Prune(some); errno != 0 {
			k.pruneUnsupported.Store(errno == syscall.EINVAL)
			return 0
		}
	}
	return 0
}

// send sends one invalidation to the kernel.
func (k *kernelCache) send(x invalidation) syscall.Errno {
	switch x.what {
	case invalAttr, invalContent:
		return k.dev.InvalInode(x.id, x.what == invalContent)
	case pruneCache:
		return k.pruneNodes()
	default:
		return k.dev.InvalEntry(x.id, x.name, x.what == invalDelete)
	}
}

// forgetAll makes the kernel drop all that it caches, except the content of files whose size
// and modification time are unchanged.
func (k *kernelCache) forgetAll() {
	defer k.sequential.reset()
	k.forgotten.Store(k.clock())
	if k.dev.Epochs {
		k.dev.NewEpoch()
	}
	for _, n := range k.table.all() {
		if !k.dev.Epochs {
			if parent, name := k.table.place(n); parent != nil {
				// Below a directory of the root, also what does not exist.
				k.dev.InvalEntry(parent.id, name, parent.id == rootID)
			}
		}
		// Before Linux 7.2 a listing outlives the epoch.
		k.dev.InvalInode(n.id, n.isDir())
	}
}

// forgetRules makes the kernel ask again for all that it caches, after levels have changed;
// revoked are the nodes whose content may no longer be read. The caller does not hold
// k.levels.rulesMu: the kernel may wait for an answer first.
func (k *kernelCache) forgetRules(revoked []uint64) {
	for _, id := range revoked {
		k.dev.InvalInode(id, true)
	}
	k.forgetAll()
	if !k.dev.Epochs {
		// The kernel cannot be made to forget that a name does not exist in the root.
		since := time.Duration(k.clock() - k.rootAbsent.Load())
		time.Sleep(min(k.timeout, rootAbsence) + rounding - since)
	}
}

// rootAbsence is how long a kernel without epochs may cache that a name does not exist in the
// root. It counts from when it read the answer, and rounds up by at most a jiffy.
const (
	rootAbsence = time.Second
	rounding    = 100 * time.Millisecond
)

// kernelKnows reports whether the kernel has the entry n of dir in its caches, and will have for a
// while. n may be nil.
func (k *kernelCache) knows(n, dir *node) bool {
	if n == nil || !dir.watched.Load() && dir.hostChanges() {
		return false
	}
	seen := n.validatedAt.Load()
	return seen > k.forgotten.Load() && k.clock()-seen < int64(watchedTimeout)/2
}
