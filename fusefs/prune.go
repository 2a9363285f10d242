package fusefs

import "syscall"

// The kernel keeps names that nobody uses until its own memory is short, and each is a
// node here. When there are too many it is asked to forget some of them (Linux 6.18).

const (
	// defaultMemory is Options.Memory unless it says otherwise.
	defaultMemory = 1 << 30

	// nodeCost is about what a node takes, with a long name: measured.
	nodeCost = 512

	// minNodes and minHandlers are enough for a program to go on, slowly.
	minNodes, minHandlers = 4096, 4

	// pruneBackoff is by how much longer than it takes to ask for it nothing is asked
	// for. What is in use cannot be forgotten, and asking costs time.
	pruneBackoff = 10
)

// shares divides memory, of which the heap may have half and the buffers of requests
// a quarter.
func shares(memory int64) (nodes, handlers int) {
	if memory <= 0 {
		memory = defaultMemory
	}
	nodes = int(min(memory/2/nodeCost, 1<<24))
	handlers = int(min(memory/4/(2*bufferSize), maxHandlers))
	return max(nodes, minNodes), max(handlers, minHandlers)
}

// pruneIfFull has the kernel asked to forget names, if there are too many.
func (t *tree) pruneIfFull() {
	if t.table.count.Load() > int64(t.maxNodes) && !t.pruneUnsupported.Load() && t.clock() > t.nextPrune.Load() {
		t.inval.add(invalidation{what: pruneCache})
	}
}

// pruneNodes asks the kernel to forget names that nobody uses.
func (t *tree) pruneNodes() syscall.Errno {
	begun := t.clock()
	defer func() {
		now := t.clock()
		t.nextPrune.Store(now + pruneBackoff*(now-begun))
	}()
	const batch = 1 << 12
	for ids := t.table.leaves(int(t.table.count.Load()) - t.maxNodes*3/4); len(ids) > 0; {
		some := ids[:min(batch, len(ids))]
		ids = ids[len(some):]
		if errno := t.dev.prune(some); errno != 0 {
			// A kernel that does not know how to: EINVAL.
			t.pruneUnsupported.Store(errno == syscall.EINVAL)
			return 0
		}
	}
	return 0
}
