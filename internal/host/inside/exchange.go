package inside

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"wolffia/internal/sys/rawsock"
)

// A Side is one of two connections between which bytes are carried.
type Side struct {
	net.Conn
	ended atomic.Bool // the direction to the peer has ended, or is about to
}

// Pass copies what comes from one side to the other until its end, which it passes on. That from
// was reset is an error. The copy is between the connections themselves, so that the kernel moves
// the bytes (splice(2)) if both are TCP sockets.
func Pass(to, from *Side) error {
	_, err := io.Copy(to.Conn, from.Conn)
	if err == nil && from.wasReset() {
		err = syscall.ECONNRESET
	}
	if err != nil {
		return err
	}
	half, ok := to.Conn.(HalfCloser)
	if !ok {
		return errors.New("the connection cannot be half-closed")
	}
	to.ended.Store(true)
	return half.CloseWrite()
}

// wasReset reports whether the peer has reset the connection. The kernel gives that error to one
// call only: if a write in the other direction had it, a read sees an end.
func (s *Side) wasReset() bool {
	c, is := s.Conn.(syscall.Conn)
	return is && rawsock.WasReset(c) && !s.ended.Load() // in this order: what ends later has not ended it
}

// Reset makes the peer of a connection see, when the connection is closed, that it was cut, and
// not that all bytes were sent. Only TCP connections can express that.
func Reset(c net.Conn) { linger(c, 0) }

// linger is [net.TCPConn.SetLinger] for connections that have it.
func linger(c net.Conn, seconds int) {
	if tcp, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(seconds)
	}
}

// Exchange copies both ways between two connections, with half-closes, until both directions have
// ended or one has failed. If one has failed, both connections are reset and closed; otherwise the
// caller closes them. If they are closed before, or this process ends, they are reset too.
func Exchange(a, b HalfCloser) {
	Reset(a)
	Reset(b)
	one, other := &Side{Conn: a}, &Side{Conn: b}
	pass := func(to, from *Side) {
		if Pass(to, from) != nil {
			_, _ = a.Close(), b.Close()
		}
	}
	var both sync.WaitGroup
	both.Go(func() { pass(one, other) })
	pass(other, one)
	both.Wait()
	linger(a, -1)
	linger(b, -1)
}
