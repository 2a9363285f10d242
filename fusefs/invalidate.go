package fusefs

import (
	"sync"
	"syscall"
	"time"
)

// An invalidation makes the kernel drop a part of its cache.
type invalidation struct {
	what invalKind
	id   uint64 // node id of the inode, or of the entry's directory
	name string // of the entry
}

type invalKind uint8

const (
	invalAttr    invalKind = iota // the attributes of an inode
	invalContent                  // its attributes and its content or listing
	invalEntry                    // an entry that may be another inode than before
	invalDelete                   // an entry that was removed, or is another inode
	pruneCache                    // too many nodes: see pruneNodes
)

// retryDelay is when an invalidation that the kernel did not know what to do with is
// sent a second time: the answer that it concerns may have been on its way.
const retryDelay = 20 * time.Millisecond

// maxQueued bounds the queue. Beyond it the kernel drops everything it caches.
const maxQueued = 1 << 16

// An invalQueue sends invalidations to the kernel from a goroutine of its own (run):
// the kernel may want an answer from the server before it accepts one, so a goroutine
// that answers requests must not send them. Its methods are safe for concurrent use.
type invalQueue struct {
	send func(invalidation) syscall.Errno
	all  func() // drops all that the kernel caches

	mu       sync.Mutex
	queue    []invalidation            // guarded by mu
	queued   map[invalidation]struct{} // the same as a set; guarded by mu
	overflow bool                      // call all instead; guarded by mu

	wake chan struct{} // holds a token while there is something to send
	stop chan struct{}
	done chan struct{}
}

func newInvalQueue(send func(invalidation) syscall.Errno, all func()) *invalQueue {
	return &invalQueue{
		send: send, all: all, queued: map[invalidation]struct{}{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// add queues x. It does not block.
func (q *invalQueue) add(x invalidation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.queued[x]; ok || q.overflow {
		return
	}
	q.queued[x] = struct{}{}
	q.queue = append(q.queue, x)
	q.overflow = len(q.queue) > maxQueued
	q.signal()
}

// addAll replaces the queue by the invalidation of everything. It does not block.
func (q *invalQueue) addAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.overflow = true
	q.signal()
}

func (q *invalQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// takeAll empties the queue, and returns its content.
func (q *invalQueue) takeAll() (batch []invalidation, overflow bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, overflow = q.queue, q.overflow
	q.queue, q.overflow = nil, false
	clear(q.queued)
	return batch, overflow
}

// run sends the queued invalidations until close.
func (q *invalQueue) run() {
	defer close(q.done)
	var retries []invalidation
	var retry <-chan time.Time // nil: retries is empty
	for {
		select {
		case <-q.stop:
			return
		case <-retry:
			for _, x := range retries {
				q.send(x)
			}
			retries, retry = nil, nil
			continue
		case <-q.wake:
		}
		batch, overflow := q.takeAll()
		if overflow {
			q.all()
			continue
		}
		for _, x := range batch {
			if q.send(x) == syscall.ENOENT && len(retries) < maxQueued {
				retries = append(retries, x)
			}
		}
		if retry == nil && len(retries) > 0 {
			retry = time.After(retryDelay)
		}
	}
}

// close ends run.
func (q *invalQueue) close() {
	close(q.stop)
	<-q.done
}
