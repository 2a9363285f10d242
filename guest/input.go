package guest

import (
	"os"
	"sync"
	"time"

	"wolffia/wire"
)

// An input carries standard input to a process. The host may be Window bytes
// ahead of what the process has read.
type input struct {
	queue
	file *os.File
	tty  bool
	to   *place // of the credit; nil: nowhere; guarded by mu
	old  int    // bytes being written that came from another place; guarded by mu

	sending *sync.Mutex // of the process
}

func newInput(file *os.File, tty bool, to *place, sending *sync.Mutex) *input {
	i := &input{file: file, tty: tty, to: to, sending: sending}
	i.open(wire.Window)
	return i
}

// copy writes the queued bytes until CloseInput, then closes the file. It returns the credit also
// for bytes that the process did not read, so that the host never waits for a process that has
// closed its input.
func (i *input) copy() {
	for f, ok := i.next(); ok; f, ok = i.next() {
		_, _ = i.file.Write(f.Payload()) // EPIPE: the process does not read any more
		n := len(f.Payload())
		f.Release()
		i.sending.Lock()
		i.mu.Lock()
		to, old := i.to, i.old > 0
		i.queued, i.old = i.queued-n, 0
		i.mu.Unlock()
		if !old {
			to.send(wire.Credit, wire.AppendCredit(nil, wire.Stdin, n))
		}
		i.sending.Unlock()
	}
	if i.tty {
		_, _ = i.file.Write([]byte{4}) // VEOF, ^D: the end of input on a terminal (termios(3))
		return                         // the terminal's output is still being read
	}
	_ = i.file.Close()
}

// move has the input come from another place from now on; nil: nowhere. What has not been written
// is lost, but for what is being written. The caller holds i.sending.
func (i *input) move(to *place) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, f := range i.frames {
		i.queued -= len(f.Payload())
		f.Release()
	}
	// that place gets no credit for what is left
	i.frames, i.to, i.old, i.window = nil, to, i.queued, wire.Window+i.queued
}

// abandon ends copy even if the process does not read.
func (i *input) abandon() {
	i.CloseInput()
	_ = i.file.SetWriteDeadline(time.Unix(0, 0)) // is over
}

// A queue holds frames of the host between their arrival and the goroutine that writes them. The
// host may be window bytes ahead of that goroutine. The queue is safe for concurrent use.
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

// PutInput queues a frame and takes it over. It reports false if the host has sent more than it
// may.
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

// CloseInput ends the input.
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
