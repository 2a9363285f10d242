package inside

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"

	"wolffia/wire/client"
)

// MaxConnections bounds the connections that a relayed Network carries at once. More wait
// inside, in the queue of the listening socket, and DialTCP waits.
const MaxConnections = 1024

// relayed has PID 1 make the sockets.
type relayed struct {
	conn   *client.Conn
	number atomic.Uint64 // of the last listener
	slots  chan struct{} // one for each connection
}

// Relayed returns the network of the sandbox whose PID 1 is at the other end of conn, which
// must be the only one over which it listens. Close closes conn.
func Relayed(conn *client.Conn) Network {
	return &relayed{conn: conn, slots: make(chan struct{}, MaxConnections)}
}

// IsRelayed reports whether n carries the bytes of connections over PID 1's stream. If not,
// connections are sockets of this process: each is a syscall.Conn.
func IsRelayed(n Network) bool {
	_, is := n.(*relayed)
	return is
}

// ListenTCP implements [Network].
func (r *relayed) ListenTCP(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	return r.conn.Listen(ctx, at, "", r.number.Add(1), r.slots)
}

// ListenUDP implements [Network].
func (r *relayed) ListenUDP(ctx context.Context, at netip.AddrPort) (net.PacketConn, error) {
	return r.conn.ListenUDP(ctx, at)
}

// ListenUnix implements [Network].
func (r *relayed) ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	return r.conn.Listen(ctx, netip.AddrPort{}, path, r.number.Add(1), r.slots)
}

// DialTCP implements [Network].
func (r *relayed) DialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	select {
	case r.slots <- struct{}{}:
	case <-r.conn.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return r.conn.DialTCP(ctx, to, func() { <-r.slots })
}

// Close implements [Network].
func (r *relayed) Close() error { return r.conn.Close() }
