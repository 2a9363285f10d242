package shim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/rawsock"
	"wolffia/runtime"
	"wolffia/wire"
)

// direct answers boot.OpDirect. An error ends the client's connection.
func (s *shim) direct(c *clientConn) error {
	if err := c.requireFresh(boot.OpDirect); err != nil {
		return err
	}
	l, err := s.link(c)
	if err != nil {
		return c.reply(outcome(err))
	}
	defer l.close()
	if err := c.sendFile(l.theirs); err != nil {
		return err
	}
	return l.passFD()
}

// requireFresh returns an error if the connection was used for anything but one request. serve
// calls it.
func (c *clientConn) requireFresh(op string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking || c.direct || len(c.channels) > 0 || c.replies.Load() > 0 {
		return fmt.Errorf("%w: %s on a connection with another use", wire.ErrProtocol, op)
	}
	return nil
}

// A link is a new connection between a client and PID 1. The shim holds both ends until it sends
// the client its end, and then PID 1 the other: the client works while PID 1 accepts it. The zero
// link has no ends.
type link struct{ theirs, ours, fdSocket *os.File }

// link makes a link for a client. The caller closes it: client and PID 1 have descriptors of their
// own.
func (s *shim) link(c *clientConn) (link, error) {
	if s.fdSocket == nil {
		return link{}, runtime.Errorf(runtime.ErrUnsupported, "PID 1 takes no connections of clients")
	}
	if err := c.lease(s, &boot.Request{Op: boot.OpAcquire}); err != nil {
		return link{}, err
	}
	theirs, ours, err := rawsock.Pair()
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		// the shim relays the client's frames, and sees what it does
		_ = c.lease(s, &boot.Request{Op: boot.OpRelease})
		return link{}, runtime.Errorf(runtime.ErrUnsupported, "a connection to PID 1: %w: frames pass the shim instead", err)
	}
	if err != nil {
		return link{}, err
	}
	for _, end := range []*os.File{theirs, ours} {
		fd := int(end.Fd())
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, rawsock.RoomOfOutput)
		// Neither end takes descriptors, of which the last close can wait for what a hostile PID 1
		// has made (SO_LINGER). Kernels before 6.16 cannot be told so.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0)
	}
	c.direct = true
	return link{theirs, ours, s.fdSocket}, nil
}

// passFD sends PID 1 its end. If that fails, the client's connection ends when the caller closes
// the link.
func (l link) passFD() error { return rawsock.SendFile(l.fdSocket, l.ours) }

// close closes both ends; the zero link has none.
func (l link) close() {
	_ = l.theirs.Close()
	_ = l.ours.Close()
}

// lease answers boot.OpAcquire and boot.OpRelease.
func (c *clientConn) lease(s *shim, req *boot.Request) error {
	acquires := req.Op == boot.OpAcquire
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leased == acquires || c.closed {
		return nil
	}
	if acquires {
		s.relay.work(true, 0) // from now on the sandbox does not expire, unless it has already
		s.wake()
		if err := s.life.touch(); err != nil {
			s.relay.work(false, 0)
			return err
		}
		c.leased = true
		return nil
	}
	c.leased = false
	s.relay.work(false, time.Duration(max(0, min(req.IdleMS, 1<<40)))*time.Millisecond)
	return nil
}

// sendFile sends the client a file. An error ends its connection.
func (c *clientConn) sendFile(file syscall.Conn) error {
	f, err := replyFrame(&boot.Reply{})
	if err != nil {
		return err
	}
	defer f.Release()
	err = net.ErrClosed
	c.out.Idle(func() { err = c.conn.SendFile(f.Bytes(), file) })
	return err
}
