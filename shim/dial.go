package shim

import (
	"errors"
	"fmt"
	"syscall"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
	"wolffia/wire"
)

// dial answers boot.OpDial. The client then has the sandbox's socket itself, so that the kernel
// carries the bytes. An error ends the client's connection.
func (s *shim) dial(c *clientConn, port int) error {
	if !runtime.IsPort(port) {
		return fmt.Errorf("%w: port %d", wire.ErrProtocol, port)
	}
	if err := c.requireFresh(boot.OpDial); err != nil {
		return err
	}
	c.mu.Lock()
	c.asking = true
	c.mu.Unlock()
	go func() { // ends within dialLimit
		conn, err := s.net.dial(port)
		if err == nil {
			c.keep(s.relay) // before the client knows: it counts from then on
			s.wake()
			err = c.sendFile(conn.(syscall.Conn))
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

// keep keeps the sandbox in use until the connection ends.
func (c *clientConn) keep(relay *relay) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		relay.hold()
		c.keepsInUse = true // serve releases it
	}
}
