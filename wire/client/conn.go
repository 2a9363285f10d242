// Package client is the host's end of the protocol of package wire. It starts processes
// over one connection, and gives each its streams. The other end is a guest, or a shim
// that relays to one; neither is trusted.
package client

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"time"

	"wolffia/wire"
)

// ErrClosed is returned by all methods of a connection once it is closed, or once the other end
// has closed it.
var ErrClosed = errors.New("connection closed")

// A Conn is one connection. It is safe for concurrent use. Close releases it; the other end kills
// the processes that were started over it and still run.
type Conn struct {
	rwc io.ReadWriteCloser
	w   *wire.Writer
	end chan struct{} // closed when the connection is no more

	mu       sync.Mutex
	err      error               // why it is no more; guarded by mu
	next     uint32              // last channel used; guarded by mu
	channels map[uint32]*Process // guarded by mu
	sealed   bool                // no process is started any more; guarded by mu

	lease Lease // or nil

	ask     sync.Mutex // held over a question on channel 0
	answers chan wire.Frame
}

// A Lease is acquired for each command on a connection, and released when the command has ended.
type Lease interface {
	// Begin is called before each Start. Its error is that of the Start.
	Acquire() error
	// End is called at the end of each process.
	Release()
	// Close is called at the end of the connection.
	Close() error
}

// New speaks the protocol over rwc, which the Conn owns afterwards.
func New(rwc io.ReadWriteCloser) *Conn { return NewLeased(rwc, nil) }

// NewLeased is New with a Lease, or nil.
func NewLeased(rwc io.ReadWriteCloser, lease Lease) *Conn {
	c := &Conn{
		lease: lease,
		rwc:   rwc, w: wire.NewWriter(rwc),
		end:      make(chan struct{}),
		channels: map[uint32]*Process{},
		answers:  make(chan wire.Frame, 1),
	}
	go func() { // ends when the connection does
		c.fail(c.read())
	}()
	return c
}

// Close ends the connection. Closing twice is fine.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	return nil
}

// CloseAnswered is Close, if a question waits for its answer only after that. It does not wait.
func (c *Conn) CloseAnswered() {
	if !c.ask.TryLock() {
		go func() { // ends with the question
			c.ask.Lock()
			defer c.ask.Unlock()
			c.fail(ErrClosed)
		}()
		return
	}
	defer c.ask.Unlock()
	c.fail(ErrClosed)
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.end }

// Err returns the reason why the connection has ended, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Idle reports whether the connection is open and has no process.
func (c *Conn) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle()
}

// idle is Idle. c.mu is held.
func (c *Conn) idle() bool { return c.err == nil && len(c.channels) == 0 }

// Seal reports whether the connection is [Conn.Idle]. Then no process can be started by it any
// more: Start returns ErrClosed.
func (c *Conn) Seal() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = c.sealed || c.idle()
	return c.idle()
}

// fail ends the connection, and every process on it, with err.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	if errors.Is(err, io.EOF) {
		err = ErrClosed
	}
	c.err = err
	lost := c.channels
	c.channels = nil
	c.mu.Unlock()
	_ = c.rwc.Close()
	if c.lease != nil {
		_ = c.lease.Close()
	}
	close(c.end)
	for _, p := range lost {
		p.fail(fmt.Errorf("process lost: %w", err))
	}
}

// read passes frames to their channels until the connection breaks.
func (c *Conn) read() error {
	r := wire.NewReader(c.rwc)
	defer r.Release()
	for {
		f, err := r.Next()
		if err != nil {
			return err
		}
		last := f.Type == wire.Exit || f.Type == wire.Failed
		if err := c.handle(f); err != nil {
			return err
		}
		if last {
			runtime.Gosched() // so that the goroutine that waits for the end runs in this thread
		}
	}
}

func (c *Conn) handle(f wire.Frame) error {
	if f.Channel == 0 {
		switch f.Type {
		case wire.Reply, wire.Pong, wire.Hello:
			select {
			case c.answers <- f:
				return nil
			default:
			}
		}
		f.Release()
		return fmt.Errorf("%w: unasked frame of type %d on channel 0", wire.ErrProtocol, f.Type)
	}
	c.mu.Lock()
	p := c.channels[f.Channel]
	if p != nil && (f.Type == wire.Exit || f.Type == wire.Failed) {
		delete(c.channels, f.Channel)
	}
	c.mu.Unlock()
	if c.lease != nil && p != nil && (f.Type == wire.Exit || f.Type == wire.Failed) {
		c.lease.Release()
	}
	if p == nil {
		defer f.Release()
		return fmt.Errorf("%w: frame of type %d on unknown channel %d", wire.ErrProtocol, f.Type, f.Channel)
	}
	return p.handle(f)
}

// Hello waits for the greeting that a guest sends first, and checks it.
func (c *Conn) Hello(ctx context.Context) error {
	return c.answer(ctx, wire.CheckHello)
}

// Control asks the shim something, as JSON, and reads its answer into reply. If
// ctx ends first the connection does too.
func (c *Conn) Control(ctx context.Context, request, reply any) error {
	b, err := json.Marshal(request)
	if err != nil {
		return err
	}
	c.ask.Lock()
	defer c.ask.Unlock()
	stop := context.AfterFunc(ctx, func() { c.fail(ctx.Err()) }) // also if the other end does not read
	defer stop()
	if err := c.w.WriteControl(b); err != nil {
		return c.broken(err)
	}
	return c.answer(ctx, func(f *wire.Frame) error {
		if f.Type != wire.Reply {
			return fmt.Errorf("%w: answer of type %d", wire.ErrProtocol, f.Type)
		}
		return wire.Decode(f, reply)
	})
}

// answer waits for an answer and calls read with it, also if it came just before the end of the
// connection. If ctx ends first the connection cannot be used any more, because a late answer
// would be taken for the next one.
func (c *Conn) answer(ctx context.Context, read func(*wire.Frame) error) error {
	var f wire.Frame
	select {
	case f = <-c.answers:
	case <-c.end: // select takes either, if both are ready
		select {
		case f = <-c.answers:
		default:
			return c.Err()
		}
	case <-ctx.Done():
		c.fail(ctx.Err())
		return ctx.Err()
	}
	defer f.Release()
	return read(&f)
}

// broken prefers the reason for which the connection ended to what a write
// on it said.
func (c *Conn) broken(err error) error {
	if failure := c.Err(); failure != nil {
		return failure
	}
	return err
}

// Start asks for a process. It does not wait until the process runs: a
// Wait returns a failure to start.
func (c *Conn) Start(req *Request) (*Process, error) {
	if c.lease != nil {
		if err := c.lease.Acquire(); err != nil {
			return nil, c.broken(err)
		}
	}
	c.mu.Lock()
	err := c.err
	if err == nil && c.sealed {
		err = ErrClosed
	}
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	for { // skip used channels after the number has wrapped
		c.next++
		if c.next != 0 && c.channels[c.next] == nil {
			break
		}
	}
	p := newProcess(c, c.next, req)
	c.channels[c.next] = p
	c.mu.Unlock()
	if err := c.w.WriteStart(p.channel, &req.StartRequest); err != nil {
		c.mu.Lock()
		delete(c.channels, p.channel)
		c.mu.Unlock()
		if c.lease != nil {
			c.lease.Release()
		}
		return nil, c.broken(err)
	}
	return p, nil
}

// Shutdown asks a guest for an orderly end: all processes get SIGTERM, and after grace, or as soon
// as all have ended, the sandbox ends. Shutdown does not wait: see Done.
func (c *Conn) Shutdown(grace time.Duration) error {
	ms := uint32(min(grace.Milliseconds(), math.MaxUint32))
	return c.broken(c.w.Send(wire.Shutdown, 0, binary.LittleEndian.AppendUint32(nil, ms)))
}
