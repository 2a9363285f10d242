package fusefs

import (
	"sync/atomic"
	"syscall"

	"wolffia/fusefs/device"
)

// The kernel caches unused names until its own memory is short, and each is a node here.
// Above a limit it is asked to forget some of them (Linux 6.18).

const (
	// defaultMemory is the default of Options.Memory.
	defaultMemory = 1 << 30

	// nodeCost is about how many bytes a node with a long name takes, as measured.
	nodeCost = 512

	// minNodes and minHandlers are enough for a program to make slow progress.
	minNodes, minHandlers = 4096, 4

	// pruneBackoff is the pause after a request to forget, as a multiple of the time that the
	// request took: names in use cannot be forgotten.
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

// A kernelCache is what the kernel keeps of the tree: it is told what to forget.
type kernelCache struct {
	*names
	dev     *device.Device
	walking walking

	maxNodes         int          // above it the kernel is asked to forget some
	nextPrune        atomic.Int64 // when it may be asked again, by clock
	pruneUnsupported atomic.Bool

	rootAbsent atomic.Int64 // when it was last told that a name is not in the root, by clock; only without epochs
	forgotten  atomic.Int64 // when it has last forgotten all, by clock
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
