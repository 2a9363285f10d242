package local

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"wolffia/runtime"
	"wolffia/wire/client"
)

// loopbacks are the addresses at which a server inside may listen.
var loopbacks = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// DialPort implements [runtime.PortDialer].
func (e *executor) DialPort(ctx context.Context, sandboxID string, port int) (net.Conn, error) {
	if !runtime.IsPort(port) {
		return nil, runtime.Errorf(runtime.ErrInvalid, "port %d: a port is from 1 to 65535", port)
	}
	box, _, err := e.find(sandboxID)
	if err != nil {
		return nil, err
	}
	conn, err := e.conns.to(box)
	if err != nil {
		return nil, err
	}
	var refused error
	for _, at := range loopbacks {
		c, err := conn.DialTCP(ctx, netip.AddrPortFrom(at, uint16(port)), nil)
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, client.ErrClosed) || conn.Err() != nil:
			return nil, lost(box, err)
		case refused == nil:
			refused = err // of IPv6, which may be off, it says less
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	if errors.Is(refused, syscall.ECONNREFUSED) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "port %d of sandbox %s: no server listens there inside: %w", port, box.ID(), refused)
	}
	return nil, runtime.Errorf(runtime.ErrUnavailable, "port %d of sandbox %s: %w", port, box.ID(), refused)
}

// AwaitEnd waits until a running sandbox ends, and returns why, or the error of ctx.
func (e *executor) AwaitEnd(ctx context.Context, sandboxID string) error {
	box, _, err := e.find(sandboxID)
	if err != nil {
		return err
	}
	conn, err := e.conns.to(box)
	if err != nil {
		return err
	}
	select {
	case <-conn.Done():
		return lost(box, conn.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
}
