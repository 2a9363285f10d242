package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/inside"
	"wolffia/runtime"
	"wolffia/wire"
)

// dial answers boot.OpDial. The client then has the sandbox's socket itself, so that the kernel carries
// the bytes. An error ends the client's connection.
func (s *shim) dial(c *clientConn, port int) error {
	if !runtime.IsPort(port) {
		return fmt.Errorf("%w: port %d", wire.ErrProtocol, port)
	}
	c.mu.Lock()
	used := c.asking || c.direct || len(c.channels) > 0 || c.replies.Load() > 0
	c.asking = true
	c.mu.Unlock()
	if used {
		return fmt.Errorf("%w: %s on a connection with another use", wire.ErrProtocol, boot.OpDial)
	}
	go func() { // ends within dialLimit
		conn, err := s.connectTo(port)
		if err == nil {
			s.keep(c) // before the client knows: it counts from then on
			err = s.give(c, conn.(syscall.Conn))
			_ = conn.Close() // the client has its own descriptor
		} else {
			r := outcome(err)
			if errno, ok := errors.AsType[syscall.Errno](err); ok {
				r.Errno = int(errno)
			}
			err = c.reply(r)
		}
		if err != nil {
			_ = c.conn.Close() // ends serve
		}
	}()
	return nil
}

// connectTo connects to a server inside by a socket that this process has.
func (s *shim) connectTo(port int) (net.Conn, error) {
	network, err := s.reach()
	if err != nil {
		return nil, err
	}
	if inside.IsRelayed(network) {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "the sandbox's sockets stay inside")
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	return dialInside(ctx, network, port)
}

// keep keeps the sandbox in use until the client's connection ends.
func (s *shim) keep(c *clientConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		s.relay.hold()
		c.holds = true // serve releases it
	}
}
