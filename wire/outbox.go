package wire

import (
	"io"
	"sync"
)

// A Sink takes bytes. Write waits until all are taken; Try writes what it can without waiting, and
// leaves errors to Write. After Close, or an error, both return at once.
type Sink interface {
	io.WriteCloser
	Try(b []byte) int
}

// An Outbox sends frames to a peer that may not read them. No sender waits: what cannot be written
// at once, the goroutine of Run writes. The credit that the peer has given bounds what waits. It
// is safe for concurrent use.
type Outbox struct {
	to   Sink
	sent func(*Frame) // called for each frame that was written, before it is released; or nil

	mu      sync.Mutex
	change  *sync.Cond // any of the fields below has changed; uses mu
	out     []Frame    // guarded by mu
	at      int        // bytes of the first of out that are written; guarded by mu
	writing bool       // Run has taken frames from out; guarded by mu
	closed  bool       // guarded by mu
}

// NewOutbox returns an Outbox for to. An error closes to. sent is called with a lock held; it may
// be nil.
func NewOutbox(to Sink, sent func(*Frame)) *Outbox {
	o := &Outbox{to: to, sent: sent}
	o.change = sync.NewCond(&o.mu)
	return o
}

// Put sends a frame, and takes it over.
func (o *Outbox) Put(f Frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.write(&f) {
		o.out = Enqueue(o.out, f)
		o.change.Broadcast()
	}
}

// send is Put for a frame that the caller releases all the same.
func (o *Outbox) send(f *Frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.write(f) {
		return
	}
	mine := *f
	f.buf = nil // to release it does nothing
	o.out = Enqueue(o.out, mine)
	o.change.Broadcast()
}

// write writes a frame if all of it can be written at once, or it is not wanted. If it returns
// false, the caller must append the frame to out. The caller holds o.mu.
func (o *Outbox) write(f *Frame) bool {
	if o.closed {
		f.Release()
		return true
	}
	if len(o.out) > 0 || o.writing {
		return false
	}
	b := f.Bytes()
	if o.at = o.to.Try(b); o.at < len(b) {
		return false
	}
	o.at = 0
	o.done(f)
	return true
}

// done releases a frame that was written. o.mu is held.
func (o *Outbox) done(f *Frame) {
	if o.sent != nil {
		o.sent(f)
	}
	f.Release()
}

// Idle calls f, with a lock held, if no frame waits and the Outbox is not closed.
func (o *Outbox) Idle(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && !o.writing && len(o.out) == 0 {
		f()
	}
}

// Flush waits until no frame waits, or Close.
func (o *Outbox) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.closed && (o.writing || len(o.out) > 0) {
		o.change.Wait()
	}
}

// Close drops what waits and what still comes, and ends Run.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, f := range o.out {
		f.Release()
	}
	o.out = nil
	o.change.Broadcast()
}

// Run writes what waits until Close.
func (o *Outbox) Run() {
	for {
		o.mu.Lock()
		o.writing = false
		o.change.Broadcast() // to Flush
		for len(o.out) == 0 && !o.closed {
			o.change.Wait()
		}
		out, at := o.out, o.at
		o.out, o.at = nil, 0
		o.writing = true
		closed := o.closed
		o.mu.Unlock()
		if closed {
			return
		}
		for i := range out {
			if _, err := o.to.Write(out[i].Bytes()[at:]); err != nil {
				_ = o.to.Close()
			}
			at = 0
			o.mu.Lock()
			o.done(&out[i])
			o.mu.Unlock()
		}
	}
}
