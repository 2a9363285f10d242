// Package inside is the network of a sandbox, seen from the shim: sockets that listen or dial in
// it.
//
// [Direct] makes the sockets in the sandbox's network namespace. [Passed] asks PID 1 to make them
// and pass their descriptors: then the kernel moves their bytes. [Relayed] asks PID 1 to make
// them, and carries the bytes over its stream.
package inside

import (
	"context"
	"net"
	"net/netip"
)

// A Network makes sockets in the network of a sandbox. It is safe for concurrent use. Errors
// of the kernel are those of package syscall for errors.Is, such as ECONNREFUSED and
// EADDRINUSE; after Close they are net.ErrClosed.
//
// All connections have a method CloseWrite, and reading from one returns io.EOF after the
// other end's half-close. The caller closes listeners and connections.
type Network interface {
	// ListenTCP listens at an address. The LocalAddr of a connection that Accept returns is
	// the address that the program inside dialled.
	ListenTCP(ctx context.Context, at netip.AddrPort) (net.Listener, error)
	// ListenUDP receives datagrams at an address. ReadFrom and WriteTo take *net.UDPAddr.
	ListenUDP(ctx context.Context, at netip.AddrPort) (net.PacketConn, error)
	// ListenUnix listens on a new socket at an absolute path inside. It makes missing
	// directories of that path. Closing the listener removes the socket.
	ListenUnix(ctx context.Context, path string) (net.Listener, error)
	// DialTCP connects to an address.
	DialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Close ends all listeners, and all connections whose bytes it carries itself. Others end
	// with the sandbox.
	Close() error
}

// A HalfCloser is a connection that can end its sending direction alone. All connections of a
// Network implement it.
type HalfCloser interface {
	net.Conn
	CloseWrite() error
}
