package fusefs

import (
	"sync"
	"syscall"
	"time"
)

// A note says that something the kernel holds is no longer true.
type note struct {
	what noteKind
	id   uint64 // of the inode, or of the directory of an entry
	name string // of the entry
}

type noteKind uint8

const (
	noteAttr    noteKind = iota // the attributes of an inode
	noteContent                 // and its content, or its listing
	noteEntry                   // an entry may be another than before
	noteGone                    // an entry is gone, or another
	noteCrowd                   // too much is known: see thin
)

// A host's change may be noticed while the answer that it makes untrue is on
// its way: the kernel does not know the inode or the name yet. So that is
// tried once more.
const noteAgain = 20 * time.Millisecond

// maxNotes is how many may wait. If there are more, the kernel is told to
// forget everything.
const maxNotes = 1 << 16

// notes sends notes to the kernel. It may want an answer from the server
// before it takes one, so that none is ever sent by who answers a request: a
// goroutine of its own does.
type notes struct {
	send func(note) syscall.Errno
	all  func() // forget everything

	mu     sync.Mutex
	change *sync.Cond        // uses mu
	queue  []note            // guarded by mu
	queued map[note]struct{} // guarded by mu
	late   []note            // to be tried once more; guarded by mu
	timer  *time.Timer       // for late; guarded by mu
	flood  bool              // guarded by mu
	tried  map[note]struct{} // those of queue that are tried once more; guarded by mu
	closed bool              // guarded by mu
	done   chan struct{}
}

func openNotes(send func(note) syscall.Errno, all func()) *notes {
	n := &notes{send: send, all: all, queued: map[note]struct{}{}, tried: map[note]struct{}{}, done: make(chan struct{})}
	n.change = sync.NewCond(&n.mu)
	return n
}

// run sends notes until close.
func (n *notes) run() {
	defer close(n.done)
	for {
		n.mu.Lock()
		for len(n.queue) == 0 && !n.flood && !n.closed {
			n.change.Wait()
		}
		batch, flood, tried := n.queue, n.flood, n.tried
		n.queue, n.flood = nil, false
		clear(n.queued)
		n.tried = map[note]struct{}{}
		closed := n.closed
		n.mu.Unlock()
		switch {
		case closed:
			return
		case flood:
			n.all()
			continue
		}
		for _, x := range batch {
			if n.send(x) != syscall.ENOENT {
				continue
			}
			if _, again := tried[x]; !again {
				n.retry(x)
			}
		}
	}
}

// post queues a note. It never blocks.
func (n *notes) post(x note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(x)
}

// add queues x. n.mu is held.
func (n *notes) add(x note) {
	if n.closed || n.flood {
		return
	}
	if _, ok := n.queued[x]; ok {
		return
	}
	if len(n.queue) == maxNotes {
		n.drown()
		return
	}
	n.queued[x] = struct{}{}
	n.queue = append(n.queue, x)
	n.change.Signal()
}

// postAll has everything forgotten.
func (n *notes) postAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.drown()
	}
}

// drown replaces all notes by one that covers them. n.mu is held.
func (n *notes) drown() {
	n.queue, n.flood = nil, true
	clear(n.queued)
	n.change.Signal()
}

// retry has x sent once more in a while.
func (n *notes) retry(x note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || len(n.late) == maxNotes {
		return
	}
	n.late = append(n.late, x)
	if n.timer == nil {
		n.timer = time.AfterFunc(noteAgain, n.again)
	}
}

// again queues what is to be tried once more.
func (n *notes) again() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range n.late {
		n.tried[x] = struct{}{}
		n.add(x)
	}
	n.late, n.timer = nil, nil
}

// close ends run. What is posted later is ignored.
func (n *notes) close() {
	n.mu.Lock()
	n.closed = true
	if n.timer != nil {
		n.timer.Stop()
	}
	n.change.Signal()
	n.mu.Unlock()
	<-n.done
}
