package fusefs

import "github.com/hanwen/go-fuse/v2/fuse"

// notes tells the kernel that attributes it holds are no longer true. The
// kernel may want an answer from the server before it takes a note, so that
// none is ever sent by who answers a request: a goroutine of its own does.
type notes struct {
	server *fuse.Server // set before the first request
	ids    chan uint64
	done   chan struct{}
}

// pendingNotes is how many may wait. What is beyond is dropped: the kernel
// finds out by itself when the attributes time out.
const pendingNotes = 1024

func openNotes() *notes {
	return &notes{ids: make(chan uint64, pendingNotes), done: make(chan struct{})}
}

// run sends notes until close.
func (n *notes) run() {
	defer close(n.done)
	for id := range n.ids {
		n.server.InodeNotify(id, -1, 0) // -1: the attributes only
	}
}

// attributes asks the kernel to forget the attributes of the nodes ids.
func (n *notes) attributes(ids []uint64) {
	for _, id := range ids {
		select {
		case n.ids <- id:
		default:
		}
	}
}

// close ends run. Nobody may call attributes any more.
func (n *notes) close() {
	close(n.ids)
	<-n.done
}
