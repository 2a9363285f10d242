package client

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"wolffia/wire"
)

// An output is one stream of a process: a queue that credit bounds, or a function that receives
// the bytes.
type output struct {
	p      *Process
	stream wire.Type
	sink   func([]byte) // receives the bytes; nil: queue them
	window int          // the credit that it starts with
	merge  bool         // the boundaries of frames mean nothing

	mu     sync.Mutex
	change *sync.Cond   // queue, err or limit has changed; uses mu
	queue  []wire.Frame // guarded by mu
	at     int          // bytes of queue[0] that have been read; guarded by mu
	credit int          // bytes that the other end may still send; guarded by mu
	read   int          // bytes read since credit was last given; guarded by mu
	total  int64        // bytes that have come; guarded by mu
	err    error        // follows the queue; guarded by mu
	deaf   bool         // further bytes are dropped; guarded by mu
	limit  deadline     // of reads; guarded by mu
}

func newOutput(p *Process, stream wire.Type, sink func([]byte)) *output {
	o := &output{p: p, stream: stream, sink: sink, window: p.window, credit: p.window, merge: p.socket == nil || !p.socket.packets}
	o.change = sync.NewCond(&o.mu)
	return o
}

// small is the size up to which the payload of a frame is added to the one before it, in
// bytes: a hostile guest that sends single bytes on many channels would otherwise take much more
// memory than its credit.
const small = 4 << 10

// put queues a data frame, which it owns afterwards.
func (o *output) put(f wire.Frame) error {
	n := len(f.Payload())
	if n == 0 {
		f.Release()
		return fmt.Errorf("%w: output of no bytes", wire.ErrProtocol)
	}
	o.mu.Lock()
	if o.deaf {
		o.mu.Unlock()
		f.Release()
		return nil
	}
	if o.credit -= n; o.credit < 0 || o.err != nil {
		o.mu.Unlock()
		f.Release()
		return fmt.Errorf("%w: more output than granted", wire.ErrProtocol)
	}
	o.total += int64(n)
	if o.sink == nil {
		if last := len(o.queue) - 1; last >= 0 && n <= small && o.merge && o.queue[last].Append(f.Payload()) {
			f.Release()
		} else {
			o.queue = wire.Enqueue(o.queue, f)
		}
		o.change.Signal()
		o.mu.Unlock()
		runtime.Gosched() // so that the reader runs in this thread
		return nil
	}
	o.sink(f.Payload()) // under the lock: after drop nothing is taken
	o.mu.Unlock()
	f.Release()
	return o.consumed(n)
}

// consumed gives credit back, a quarter of the window at a time.
func (o *output) consumed(n int) error {
	o.mu.Lock()
	o.read += n
	credit := 0
	if o.read >= o.window/4 && o.err == nil {
		credit, o.read = o.read, 0
		o.credit += credit
	}
	o.mu.Unlock()
	if credit == 0 {
		return nil
	}
	return o.p.conn.w.Send(wire.Credit, o.p.channel, wire.AppendCredit(nil, o.stream, credit))
}

// end sets the error that follows the queue. Only the first call has an effect.
func (o *output) end(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.change.Signal()
	o.mu.Unlock()
}

// drop ends the stream behind the queue, and drops further bytes.
func (o *output) drop() {
	o.mu.Lock()
	o.deaf = true
	o.mu.Unlock()
}

// release drops all of the stream, and has reads return err.
func (o *output) release(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.queue {
		f.Release()
	}
	o.queue, o.at, o.deaf, o.err = nil, 0, true, err
	o.limit.until(time.Time{}, o.change) // stops the timer
	o.change.Broadcast()
}

// until sets the deadline of reads; the zero Time means no deadline.
func (o *output) until(t time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.limit.until(t, o.change)
	return nil
}

// Read implements io.Reader.
func (o *output) Read(b []byte) (int, error) {
	n, err := o.next(b)
	if n > 0 {
		// A broken connection shows when the queue is empty.
		_ = o.consumed(n)
	}
	return n, err
}

// A Keeper is an io.Writer that would copy the bytes that it gets.
type Keeper interface {
	// Keep is Write of bytes that the writer may keep: the caller does not use them any more.
	Keep(b []byte) (int, error)
}

// WriteTo implements io.WriterTo: io.Copy then needs no buffer of its own. A Keeper gets the
// memory of large frames.
func (o *output) WriteTo(w io.Writer) (written int64, err error) {
	keeper, keeps := w.(Keeper)
	for {
		f, err := o.frame()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return written, err
		}
		n := len(f.Payload())
		var m int
		if keeps && n > wire.MaxPayload/2 { // else much of the memory would be kept for nothing
			m, err = keeper.Keep(f.Payload())
		} else {
			m, err = w.Write(f.Payload())
			f.Release()
		}
		written += int64(m)
		if err != nil {
			return written, err
		}
		_ = o.consumed(n)
	}
}

// frame takes the first frame off the queue, without the bytes that Read has taken.
func (o *output) frame() (wire.Frame, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 {
		if o.err != nil {
			return wire.Frame{}, o.err
		}
		if o.limit.over {
			return wire.Frame{}, os.ErrDeadlineExceeded
		}
		o.change.Wait()
	}
	f := o.queue[0]
	if o.at > 0 {
		f.SetLen(copy(f.Payload(), f.Payload()[o.at:]))
		o.at = 0
	}
	o.queue = o.queue[1:]
	return f, nil
}

func (o *output) next(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 {
		if o.err != nil {
			return 0, o.err
		}
		if o.limit.over {
			return 0, os.ErrDeadlineExceeded
		}
		o.change.Wait()
	}
	f := &o.queue[0]
	n := copy(b, f.Payload()[o.at:])
	if o.at += n; o.at == len(f.Payload()) {
		f.Release()
		o.queue, o.at = o.queue[1:], 0
	}
	return n, nil
}

// An input is a process's standard input.
type input struct {
	p *Process

	mu     sync.Mutex
	change *sync.Cond // credit, closed or limit has changed; uses mu
	credit int        // guarded by mu
	closed bool       // guarded by mu
	limit  deadline   // of writes; guarded by mu
}

func newInput(p *Process) *input {
	i := &input{p: p, credit: p.window}
	i.change = sync.NewCond(&i.mu)
	return i
}

// grant adds credit, and reports whether so much was used.
func (i *input) grant(n int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.credit+n > i.p.window {
		return false
	}
	i.credit += n
	i.change.Broadcast()
	return true
}

// end makes writers return an error.
func (i *input) end() {
	i.mu.Lock()
	i.closed = true
	i.change.Broadcast()
	i.mu.Unlock()
}

// until sets the deadline of writes; the zero Time means no deadline.
func (i *input) until(t time.Time) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.limit.until(t, i.change)
	return nil
}

// Write implements io.Writer.
func (i *input) Write(b []byte) (written int, err error) {
	for len(b) > 0 {
		n, err := i.claim(1, len(b))
		if err != nil {
			return written, err
		}
		if err := i.p.conn.w.Send(wire.Stdin, i.p.channel, b[:n]); err != nil {
			return written, i.p.conn.broken(err)
		}
		written += n
		b = b[n:]
	}
	return written, nil
}

// claim waits for at least so much credit, and takes at most want bytes of it.
func (i *input) claim(least, want int) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.credit < least && !i.closed && !i.limit.over {
		i.change.Wait()
	}
	switch {
	case i.closed:
		return 0, io.ErrClosedPipe
	case i.credit < least:
		return 0, os.ErrDeadlineExceeded
	}
	n := min(want, i.credit, wire.MaxPayload)
	i.credit -= n
	return n, nil
}

// Close implements io.Closer: the process reads the end of its input.
func (i *input) Close() error {
	i.mu.Lock()
	closed := i.closed
	i.closed = true
	i.mu.Unlock()
	if closed {
		return nil
	}
	return i.p.send(wire.StdinClose, nil)
}

// A deadline ends what waits for a condition.
type deadline struct {
	timer *time.Timer // nil: none runs
	over  bool
	set   int // how often it was set, so that a timer that was stopped too late does nothing
}

// until sets the deadline; the zero Time means no deadline. The caller holds the lock of change.
func (d *deadline) until(t time.Time, change *sync.Cond) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.set++
	this := d.set
	left := time.Until(t)
	if d.over = !t.IsZero() && left <= 0; d.over {
		change.Broadcast()
		return
	}
	if t.IsZero() {
		return
	}
	d.timer = time.AfterFunc(left, func() {
		change.L.Lock()
		defer change.L.Unlock()
		if d.set == this {
			d.over = true
			change.Broadcast()
		}
	})
}
