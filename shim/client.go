package shim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/internal/step"
	"wolffia/wire"
)

// A clientConn is the connection of one client. One goroutine, serve, reads from it; what
// cannot be written at once, the goroutine write writes.
type clientConn struct {
	conn *boot.Socket
	own  bool // the shim itself is the client

	mu       sync.Mutex
	change   *sync.Cond        // out or closed has changed; uses mu
	channels map[uint32]uint32 // the client's channel to the guest's; guarded by mu
	out      []wire.Frame      // for the client; bounded by its credit; guarded by mu
	at       int               // bytes of the first of out that are written; guarded by mu
	writing  bool              // write has taken frames from out; guarded by mu
	closed   bool              // guarded by mu
	asking   bool              // a request to the tree server is under way; guarded by mu
	replies  int               // frames with replies that are not written; guarded by mu
	holds    bool              // it keeps the sandbox in use; guarded by mu

	request []byte // the pieces of an incomplete Control request; serve's own
}

// acceptPause is the time between attempts to accept a client while there is no
// descriptor or no memory for it.
const acceptPause = 20 * time.Millisecond

// accept serves clients of the listening socket fd until the process ends, or the socket is shut down. It waits in a thread of its own: see
// [boot.Socket].
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
		sock := boot.SocketOf(conn)
		if err := sock.Poll(); err != nil {
			_ = sock.Close()
			continue // no descriptor is left
		}
		step.Reached("client there")
		s.attach(sock, false)
	}
}

// attach serves a client; own says that it is the shim itself.
func (s *shim) attach(sock *boot.Socket, own bool) {
	sock.Enlarge()
	c := &clientConn{conn: sock, own: own, channels: map[uint32]uint32{}}
	c.change = sync.NewCond(&c.mu)
	go c.write()  // ends with the connection
	go s.serve(c) // ends with the connection
}

// serve handles a client's frames until the connection ends, then kills what the client
// has left running.
func (s *shim) serve(c *clientConn) {
	open := true
	if s.spare != nil && !c.own && s.spare.is() != spareTaken {
		open = s.welcome(c)
	}
	for r := wire.NewReader(c.conn); open; {
		f, err := r.Next()
		if err == nil {
			err = s.fromClient(c, f)
		}
		if err != nil {
			break
		}
	}
	_ = c.conn.Close()
	c.mu.Lock()
	c.closed = true
	left := slices.Collect(maps.Values(c.channels))
	for _, f := range c.out {
		f.Release()
	}
	c.out = nil
	c.change.Signal()
	holds := c.holds
	c.mu.Unlock()
	if holds {
		s.relay.release()
	}
	s.relay.abandon(left)
}

// fromClient relays one frame and releases it. An error ends the connection.
func (s *shim) fromClient(c *clientConn, f wire.Frame) error {
	defer f.Release()
	if f.Channel == 0 {
		return s.onControl(c, &f)
	}
	c.mu.Lock()
	ch, open := c.channels[f.Channel]
	if !open && (f.Type == wire.Start || f.Type == wire.StartMore) {
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
		open = true
	}
	c.mu.Unlock()
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
	return s.relay.w.Write(&f)
}

// forget removes a channel that has ended.
func (c *clientConn) forget(channel uint32) {
	c.mu.Lock()
	delete(c.channels, channel)
	c.mu.Unlock()
}

// queue writes a frame as far as possible without waiting, and leaves the rest to write.
func (c *clientConn) queue(f wire.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		f.Release()
		return
	}
	if len(c.out) == 0 && !c.writing {
		b := f.Bytes()
		if c.at = c.conn.Try(b); c.at == len(b) {
			c.at = 0
			c.written(&f)
			return
		}
	}
	c.out = wire.Enqueue(c.out, f)
	c.change.Signal()
}

// written releases a frame that was written. c.mu is held.
func (c *clientConn) written(f *wire.Frame) {
	if f.Type == wire.Reply {
		c.replies--
	}
	f.Release()
}

// write writes the frames in out until the connection ends.
func (c *clientConn) write() {
	for {
		c.mu.Lock()
		c.writing = false
		for len(c.out) == 0 && !c.closed {
			c.change.Wait()
		}
		out, at := c.out, c.at
		c.out, c.at = nil, 0
		c.writing = true
		closed := c.closed
		c.mu.Unlock()
		if closed {
			return
		}
		for i := range out {
			if _, err := c.conn.Write(out[i].Bytes()[at:]); err != nil {
				_ = c.conn.Close() // ends serve
			}
			at = 0
			c.mu.Lock()
			c.written(&out[i])
			c.mu.Unlock()
		}
	}
}
