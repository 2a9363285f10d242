package shim

import (
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/sys/step"
	"wolffia/wire"
)

// A clientConn is the connection of one client. One goroutine, serve, reads from it; another
// writes what out cannot write at once.
type clientConn struct {
	conn    *rawsock.Socket
	out     *wire.Outbox
	own     bool         // the shim itself is the client
	replies atomic.Int32 // frames with replies that are not written

	mu         sync.Mutex
	channels   map[uint32]uint32 // the client's channel to the guest's; guarded by mu
	pieces     map[uint32]bool   // channels whose request is not complete; guarded by mu
	closed     bool              // guarded by mu
	asking     bool              // a request to the tree server is under way; guarded by mu
	keepsInUse bool              // it keeps the sandbox in use; guarded by mu
	leased     bool              // it has a lease for its connection to PID 1; guarded by mu

	gone    chan struct{} // closed when the client has gone
	direct  bool          // its client has a connection to PID 1; serve's own
	request []byte        // the pieces of an incomplete Control request; serve's own
}

// clients are the connections that are open. It is safe for concurrent use.
type clients struct {
	mu     sync.Mutex
	open   map[*clientConn]struct{} // guarded by mu
	closed bool                     // none is added any more; guarded by mu
}

// add adds a connection, and reports whether it did.
func (s *clients) add(c *clientConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open == nil {
		s.open = map[*clientConn]struct{}{}
	}
	s.open[c] = struct{}{}
	return true
}

// closeFor reports whether c is the only connection. Then it stays the last.
func (s *clients) closeFor(c *clientConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, open := s.open[c]
	s.closed = s.closed || open && len(s.open) == 1
	return s.closed
}

func (s *clients) remove(c *clientConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// hangUp ends all connections. What was written can still be read.
func (s *clients) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.conn.Close()
	}
}

// acceptPause is the time between attempts to accept a client without a
// free descriptor, or memory, for it.
const acceptPause = 20 * time.Millisecond

// accept serves clients of the listening socket fd until the process ends, or the socket is shut
// down. It waits in a thread of its own: see [rawsock.Socket].
func (s *shim) accept(fd int) {
	for {
		conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
			continue
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EBADF): // it is shut down
			return
		case err != nil:
			time.Sleep(acceptPause)
			continue
		}
		step.Reached("client there")
		s.serveAt(conn, false)
		goruntime.Gosched() // the goroutine that serves the client runs next in this thread
	}
}

// serveAt serves the client at the other end of a socket, which blocks. Without a descriptor for
// its poller the client is hung up on. starts says that the sandbox was started for this client,
// which has asked for a connection to PID 1. That client counts as a user of the sandbox at once,
// not only when the shim answers.
func (s *shim) serveAt(fd int, starts bool) {
	sock := rawsock.SocketOf(fd)
	if err := sock.Poll(); err != nil {
		_ = sock.Close()
		return
	}
	sock.TakeFiles()
	s.attach(sock, func(c *clientConn) {
		if starts && s.fdSocket != nil {
			// the answer to the client says if the sandbox has expired
			_ = c.lease(s, &boot.Request{Op: boot.OpAcquire})
		}
	})
}

func newClientConn(sock *rawsock.Socket) *clientConn {
	c := &clientConn{conn: sock, channels: map[uint32]uint32{}, gone: make(chan struct{})}
	c.out = wire.NewOutbox(sock, c.sent)
	go c.out.Run() // ends with the connection
	return c
}

// attach serves a client. It calls prepare first.
func (s *shim) attach(sock *rawsock.Socket, prepare func(c *clientConn)) {
	sock.Enlarge()
	c := newClientConn(sock)
	if !s.clients.add(c) {
		c.out.Close()
		_ = sock.Close()
		return
	}
	prepare(c)
	go s.serve(c) // ends with the connection
}

// serve handles a client's frames until the connection ends, then kills what the client
// has left running.
func (s *shim) serve(c *clientConn) {
	open := true
	if !c.own && s.pooled.unclaimed() {
		open = s.acceptClaim(c)
	}
	r := wire.NewReader(c.conn)
	defer r.Release()
	for open {
		f, err := r.Next()
		if err == nil {
			err = s.fromClient(c, f)
		}
		if err != nil {
			break
		}
	}
	s.clients.remove(c)
	close(c.gone)
	s.asks.left(c)
	_ = c.conn.Taken().Close() // nil is fine
	_ = c.conn.Close()
	c.mu.Lock()
	c.closed = true
	left := slices.Collect(maps.Values(c.channels))
	keepsInUse, leased := c.keepsInUse, c.leased
	c.mu.Unlock()
	c.out.Close()
	if keepsInUse {
		s.relay.release()
	}
	if leased {
		s.relay.work(false, 0)
	}
	s.relay.abandon(left)
}

// fromClient relays one frame and releases it. An error ends the connection.
func (s *shim) fromClient(c *clientConn, f wire.Frame) error {
	defer f.Release()
	if f.Channel == 0 {
		return s.onControl(c, &f)
	}
	starts := f.Type == wire.Start || f.Type == wire.StartMore
	continues := starts && c.continues(&f)
	if starts && !continues {
		if err := s.relay.awaitStream(againLimit); err != nil {
			c.refuse(f.Channel, wire.NetOpOf(f.Payload()), err.Error())
			return nil
		}
	}
	s.relay.whole.RLock()
	defer s.relay.whole.RUnlock()
	c.mu.Lock()
	ch, open := c.channels[f.Channel]
	opened := false
	if starts && !open && !continues {
		op := wire.NetOp(0)
		if f.Type == wire.Start {
			op = wire.NetOpOf(f.Payload())
		}
		if op != 0 && op != wire.NetDial && !c.own {
			c.mu.Unlock()
			return fmt.Errorf("%w: request for a socket of type %d from a client", wire.ErrProtocol, op)
		}
		ch = s.relay.open(c, f.Channel, op)
		c.channels[f.Channel] = ch
		open, opened = true, true
	}
	c.mu.Unlock()
	if opened {
		s.wake()
	}
	if !open {
		return nil // the frame has crossed the channel's end
	}
	switch f.Type {
	case wire.Start, wire.StartMore, wire.StdinClose, wire.Signal, wire.Resize, wire.Kill:
	case wire.Stdin:
		s.relay.sent(ch, len(f.Payload()))
	case wire.Credit:
		stream, n, err := wire.ParseCredit(f.Payload())
		if err != nil {
			return err
		}
		if err := s.relay.grant(ch, stream, n); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: frame of type %d from a client", wire.ErrProtocol, f.Type)
	}
	f.Channel = ch
	if f.Type == wire.Start {
		step.Reached("process asked for")
	}
	if err := s.relay.w.Write(&f); s.relay.again == nil {
		return err
	}
	return nil // the end of the stream ends the channel
}

// continues reports whether a frame is not the first of a request.
func (c *clientConn) continues(f *wire.Frame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := c.pieces[f.Channel]
	switch {
	case f.Type == wire.Start:
		delete(c.pieces, f.Channel)
	case c.pieces == nil:
		c.pieces = map[uint32]bool{f.Channel: true}
	default:
		c.pieces[f.Channel] = true
	}
	return more
}

// forget removes a channel that has ended.
func (c *clientConn) forget(channel uint32) {
	c.mu.Lock()
	delete(c.channels, channel)
	c.mu.Unlock()
}

// sent notes that a frame was written.
func (c *clientConn) sent(f *wire.Frame) {
	if f.Type == wire.Reply {
		c.replies.Add(-1)
	}
}
