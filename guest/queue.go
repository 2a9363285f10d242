package guest

import (
	"sync"

	"wolffia/wire"
)

// A queue holds frames of the host between their arrival and the goroutine that writes them. The host may be window
// bytes ahead of that goroutine. The queue is safe for concurrent use.
type queue struct {
	window int
	mu     sync.Mutex
	change sync.Cond    // a field that mu guards has changed; uses mu
	frames []wire.Frame // guarded by mu
	queued int          // bytes in frames or being written; guarded by mu
	ended  bool         // nothing more comes; guarded by mu
}

// open makes the zero queue ready.
func (q *queue) open(window int) { q.window, q.change.L = window, &q.mu }

// PutInput queues a frame and takes it over. It reports false if the host has sent more than it may.
func (q *queue) PutInput(f wire.Frame) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		f.Release()
		return true
	}
	q.queued += len(f.Payload())
	q.frames = wire.Enqueue(q.frames, f)
	q.change.Broadcast()
	return q.queued <= q.window
}

// CloseInput says that no more input will come.
func (q *queue) CloseInput() {
	q.mu.Lock()
	q.ended = true
	q.change.Broadcast()
	q.mu.Unlock()
}

// next waits for a frame. It returns false at the end.
func (q *queue) next() (wire.Frame, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.frames) == 0 {
		if q.ended {
			return wire.Frame{}, false
		}
		q.change.Wait()
	}
	f := q.frames[0]
	q.frames = q.frames[1:]
	return f, true
}

// done releases a frame that was written, and returns the credit for it.
func (q *queue) done(f *wire.Frame) []byte {
	n := len(f.Payload())
	f.Release()
	q.mu.Lock()
	q.queued -= n
	q.mu.Unlock()
	return wire.AppendCredit(nil, wire.Stdin, n)
}
