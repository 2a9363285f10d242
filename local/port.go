package local

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rawsock"
	"wolffia/local/conns"
	"wolffia/runtime"
	"wolffia/wire/client"
)

// loopbacks are the addresses at which a server inside may listen.
var loopbacks = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// DialPort implements [runtime.Executor].
func (e *executor) DialPort(ctx context.Context, sandboxID string, port int) (net.Conn, error) {
	if !runtime.IsPort(port) {
		return nil, runtime.Errorf(runtime.ErrInvalid, "port %d: a port is from 1 to 65535", port)
	}
	rec, _, err := e.header(sandboxID)
	if err != nil {
		return nil, err
	}
	if err := e.conns.Awake(ctx, rec); err != nil {
		return nil, err
	}
	c, err := dialDirect(ctx, rec, port)
	if errors.Is(err, runtime.ErrUnsupported) {
		c, err = e.dialRelayed(ctx, rec, port)
	}
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case runtime.Class(err) != nil:
		return nil, err
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, runtime.Errorf(runtime.ErrUnavailable, "port %d of sandbox %s: no server listens there inside: %w", port, rec.ID(), err)
	}
	return nil, runtime.Errorf(runtime.ErrUnavailable, "port %d of sandbox %s: %w", port, rec.ID(), err)
}

// dialLimit is how long a shim may take to answer, which it does within ten seconds.
const dialLimit = 20 * time.Second

// dialDirect requests from the shim a socket of the sandbox's network that is connected to a port.
// The error is of class ErrUnsupported if the shim cannot pass one, and of no class if it is
// the kernel's.
func dialDirect(ctx context.Context, rec *statedir.Record, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	sock, err := conns.Dial(rec)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = sock.Close() }) // ends ask
	socket, err := conns.AskFile(sock, &boot.Request{Op: boot.OpDial, Port: port})
	if !stop() {
		_ = socket.Close() // nil is fine
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: the shim does not answer", rec.ID())
	}
	if err != nil {
		_ = sock.Close()
		if errors.Is(err, client.ErrClosed) {
			err = conns.Lost(context.Background(), rec, err)
		}
		return nil, err
	}
	defer socket.Close() // package net copies the descriptor
	conn, err := net.FileConn(socket)
	if err != nil {
		return nil, errors.Join(err, sock.Close())
	}
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return nil, errors.Join(errors.New("the shim sent another socket"), conn.Close(), sock.Close())
	}
	return &heldConn{tcp, sock}, nil
}

// A heldConn is a connection of which the kernel carries the bytes, and the connection to the shim
// by which it keeps the sandbox in use.
type heldConn struct {
	*net.TCPConn
	shim *rawsock.Socket
}

// Close closes both.
func (c *heldConn) Close() error { return errors.Join(c.TCPConn.Close(), c.shim.Close()) }

// dialRelayed has PID 1 connect, whose stream then carries the bytes. The error is of no class if
// it is the kernel's.
func (e *executor) dialRelayed(ctx context.Context, rec *statedir.Record, port int) (net.Conn, error) {
	conn, err := e.conns.To(ctx, rec)
	if err != nil {
		return nil, err
	}
	var refused error
	for _, at := range loopbacks {
		c, err := conn.DialTCP(ctx, netip.AddrPortFrom(at, uint16(port)), nil)
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, client.ErrClosed) || conn.Err() != nil:
			return nil, conns.Lost(context.Background(), rec, err)
		case refused == nil:
			refused = err // of IPv6, which may be off, it says less
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return nil, refused
}

// AwaitEnd waits until a running sandbox ends, and returns why, or the error of ctx.
func (e *executor) AwaitEnd(ctx context.Context, sandboxID string) error {
	rec, _, err := e.header(sandboxID)
	if err != nil {
		return err
	}
	conn, err := e.conns.To(ctx, rec)
	if err != nil {
		return err
	}
	select {
	case <-conn.Done():
		return conns.Lost(context.Background(), rec, conn.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
}
