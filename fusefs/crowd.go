package fusefs

import "syscall"

// The kernel keeps names that nobody uses until its own memory is short, and each is a
// node here. When there are too many it is asked to forget some of them (Linux 6.18).

const (
	// defaultMemory is Options.Memory unless it says otherwise.
	defaultMemory = 1 << 30

	// nodeCost is about what a node takes, with a long name: measured.
	nodeCost = 512

	// leastNodes and leastHandlers are enough for a program to go on, slowly.
	leastNodes, leastHandlers = 4096, 4

	// crowdPause is by how much longer than it takes to ask for it nothing is asked
	// for. What is in use cannot be forgotten, and asking costs time.
	crowdPause = 10
)

// shares divides memory, of which the heap may have half and the buffers of requests
// a quarter.
func shares(memory int64) (nodes, handlers int) {
	if memory <= 0 {
		memory = defaultMemory
	}
	nodes = int(min(memory/2/nodeCost, 1<<24))
	handlers = int(min(memory/4/(2*bufferSize), maxHandlers))
	return max(nodes, leastNodes), max(handlers, leastHandlers)
}

// crowded has the kernel asked to forget names, if there are too many.
func (t *tree) crowded() {
	if t.table.count.Load() > int64(t.most) && !t.unforgetting.Load() && t.clock() > t.crowdNext.Load() {
		t.notes.post(note{what: noteCrowd})
	}
}

// thin asks the kernel to forget names that nobody uses.
func (t *tree) thin() syscall.Errno {
	begun := t.clock()
	defer func() {
		now := t.clock()
		t.crowdNext.Store(now + crowdPause*(now-begun))
	}()
	const batch = 1 << 12
	for ids := t.table.leaves(int(t.table.count.Load()) - t.most*3/4); len(ids) > 0; {
		some := ids[:min(batch, len(ids))]
		ids = ids[len(some):]
		if errno := t.dev.prune(some); errno != 0 {
			// A kernel that does not know how to: EINVAL.
			t.unforgetting.Store(errno == syscall.EINVAL)
			return 0
		}
	}
	return 0
}
