package fusefs

import "github.com/hanwen/go-fuse/v2/fuse"

// A note says that something the kernel holds is no longer true: the
// attributes of the node id, or the entry called name in the directory id.
type note struct {
	id   uint64
	name string // empty: the attributes
}

// notes sends notes to the kernel. It may want an answer from the server
// before it takes one, so that none is ever sent by who answers a request: a
// goroutine of its own does.
type notes struct {
	server *fuse.Server // set before the first request
	queue  chan note
	done   chan struct{}
}

// pendingNotes is how many may wait. What is beyond is dropped: the kernel
// finds out by itself when its caches time out.
const pendingNotes = 1024

func openNotes() *notes {
	return &notes{queue: make(chan note, pendingNotes), done: make(chan struct{})}
}

// run sends notes until close.
func (n *notes) run() {
	defer close(n.done)
	for x := range n.queue {
		if x.name == "" {
			n.server.InodeNotify(x.id, -1, 0) // -1: the attributes only
		} else {
			n.server.EntryNotify(x.id, x.name)
		}
	}
}

// post queues a note.
func (n *notes) post(x note) {
	select {
	case n.queue <- x:
	default:
	}
}

// close ends run. Nobody may call post any more.
func (n *notes) close() {
	close(n.queue)
	<-n.done
}
