package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"wolffia/wire"
)

// A socket is what a channel for a socket adds to a process.
type socket struct {
	started chan struct{} // closed when the addresses are set
	once    sync.Once
	packets bool           // frames are datagrams
	ready   func(*Process) // called when the socket is connected, by the goroutine that reads; or nil

	local, peer netip.AddrPort // set before started is closed
	accepted    bool           // guarded by the listener's mu
}

// start handles the Started frame.
func (s *socket) start(p *Process, f *wire.Frame) error {
	local, peer, err := wire.ParseAddresses(f.Payload())
	if err != nil {
		return err
	}
	err = fmt.Errorf("%w: a socket that starts twice", wire.ErrProtocol)
	s.once.Do(func() {
		err = nil
		s.local, s.peer = local, peer
		close(s.started)
		if s.ready != nil {
			s.ready(p)
		}
	})
	return err
}

// socketError returns the error of a socket. The message comes from inside.
func socketError(failure *wire.Failure) error {
	if failure.Errno > 0 && failure.Errno < 4096 {
		return syscall.Errno(failure.Errno)
	}
	return errors.New(failure.Message)
}

// open opens a channel for a socket. It does not wait; ready is called when the socket is
// connected, by the goroutine that reads the connection: it must not block.
func (c *Conn) open(req *wire.NetRequest, ready func(*Process)) (*Process, error) {
	s := &socket{started: make(chan struct{}), packets: req.Op == wire.NetPacket, ready: ready}
	return c.Start(&Request{StartRequest: wire.StartRequest{Network: req}, OnStderr: func([]byte) {}, socket: s})
}

// begun waits until a socket is connected, listens or is bound.
func begun(ctx context.Context, p *Process) error {
	select {
	case <-p.socket.started:
		return nil
	default:
	}
	select {
	case <-p.socket.started:
		return nil
	case <-p.done:
		_, err := p.Wait(ctx)
		if err == nil {
			err = net.ErrClosed
		}
		return err
	case <-ctx.Done():
		_ = p.Kill()
		return ctx.Err()
	}
}

// DialTCP connects to an address inside. Errors of the kernel inside are of package syscall,
// such as ECONNREFUSED. The connection has a method CloseWrite. The caller closes it. ended, if
// it is not nil, is called once when the guest has closed the socket too, or never had it.
func (c *Conn) DialTCP(ctx context.Context, to netip.AddrPort, ended func()) (net.Conn, error) {
	if ended == nil {
		ended = func() {}
	}
	p, err := c.open(&wire.NetRequest{Op: wire.NetDial, Address: to}, nil)
	if err != nil {
		ended()
		return nil, err
	}
	p.atEnd(ended)
	if err := begun(ctx, p); err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return &netConn{p: p}, nil
}

// PassFDs makes the guest connect to the unix socket at a path inside, and pass the descriptors of
// new sockets over it: see [wire.NetPassFD]. It waits until the guest is connected. The guest ends
// the channel with the connection.
func (c *Conn) PassFDs(ctx context.Context, path string) error {
	p, err := c.open(&wire.NetRequest{Op: wire.NetPassFD, Path: path}, nil)
	if err != nil {
		return err
	}
	return begun(ctx, p)
}

// A netConn is a connection of a socket inside.
type netConn struct {
	p     *Process
	path  string // of a unix socket
	once  sync.Once
	reset atomic.Bool // by Close
}

// Read implements [net.Conn].
func (c *netConn) Read(b []byte) (int, error) { return c.p.stdout.Read(b) }

// WriteTo implements [io.WriterTo].
func (c *netConn) WriteTo(w io.Writer) (int64, error) { return c.p.stdout.WriteTo(w) }

// Write implements [net.Conn].
func (c *netConn) Write(b []byte) (int, error) { return c.p.stdin.Write(b) }

// CloseWrite ends the direction to the socket.
func (c *netConn) CloseWrite() error { return c.p.stdin.Close() }

// Close implements [net.Conn]. Written bytes are still sent, unless SetLinger prevents that.
func (c *netConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		if c.reset.Load() {
			_ = c.p.Signal(syscall.SIGKILL) // an error is discard's too
		}
		err = c.p.discard()
	})
	return err
}

// SetLinger is that of [net.TCPConn] for 0, with which Close has the socket inside reset its
// connection, and for less, with which it does not.
func (c *netConn) SetLinger(seconds int) error {
	c.reset.Store(seconds == 0)
	return nil
}

// discard ends a channel on this side, and asks the guest to close the socket.
func (p *Process) discard() error {
	p.stdin.end()
	p.stdout.release(net.ErrClosed)
	return p.Kill()
}

// atEnd has f called when the process's life on this side ends, now if it has.
func (p *Process) atEnd(f func()) {
	p.mu.Lock()
	over := p.over
	if !over {
		p.ended = f
	}
	p.mu.Unlock()
	if over {
		f()
	}
}

// LocalAddr implements [net.Conn]: the address of the socket inside.
func (c *netConn) LocalAddr() net.Addr { return c.address(c.p.socket.local) }

// RemoteAddr implements [net.Conn]: that of its peer inside.
func (c *netConn) RemoteAddr() net.Addr { return c.address(c.p.socket.peer) }

func (c *netConn) address(a netip.AddrPort) net.Addr {
	if c.path != "" {
		return &net.UnixAddr{Net: "unix", Name: c.path}
	}
	return net.TCPAddrFromAddrPort(a)
}

// SetDeadline implements [net.Conn].
func (c *netConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *netConn) SetReadDeadline(t time.Time) error { return c.p.stdout.until(t) }

// SetWriteDeadline implements [net.Conn].
func (c *netConn) SetWriteDeadline(t time.Time) error { return c.p.stdin.until(t) }

// acceptAhead is the number of channels that wait for the connections of a listener, so that
// one costs no round trip.
const acceptAhead = 8

// A listener is a listening socket inside.
type listener struct {
	conn   *Conn
	p      *Process
	at     netip.AddrPort
	path   string
	number uint64
	slots  chan struct{} // has one for each connection

	ready chan *Process // with room for all channels that wait
	end   chan struct{} // closed by Close, or when the listener inside has ended

	mu    sync.Mutex
	waits map[*Process]bool // channels that Accept has not returned; nil after Close; guarded by mu
}

// Listen listens inside: by TCP or, with a path, on a new unix socket. The capacity of slots
// bounds how many connections of all listeners with the same slots there are; others wait
// inside. number is that of no other listener of the sandbox. The caller closes the listener and
// its connections.
func (c *Conn) Listen(ctx context.Context, at netip.AddrPort, path string, number uint64, slots chan struct{}) (net.Listener, error) {
	l := &listener{
		conn: c, at: at, number: number, path: path, slots: slots,
		ready: make(chan *Process, acceptAhead), end: make(chan struct{}), waits: map[*Process]bool{},
	}
	var err error
	if l.p, err = c.open(&wire.NetRequest{Op: wire.NetListen, Address: at, Path: path, Listener: number}, nil); err != nil {
		return nil, err
	}
	if err := begun(ctx, l.p); err != nil {
		return nil, &net.OpError{Op: "listen", Net: l.Addr().Network(), Addr: l.Addr(), Err: err}
	}
	l.at = l.p.socket.local
	l.p.atEnd(func() { go l.Close() })
	for range acceptAhead {
		if err := l.expect(); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// expect opens a channel for a connection.
func (l *listener) expect() error {
	p, err := l.conn.open(&wire.NetRequest{Op: wire.NetAccept, Listener: l.number}, func(p *Process) {
		select {
		case l.ready <- p:
		default: // impossible: each channel starts once
		}
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.waits == nil:
		return errors.Join(net.ErrClosed, p.discard())
	case !p.socket.accepted:
		l.waits[p] = true
	}
	return nil
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	closed := &net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: net.ErrClosed}
	var p *Process
	select {
	case p = <-l.ready:
	case <-l.end:
		return nil, closed
	}
	select { // not before: a listener without connections takes no slot from the others
	case l.slots <- struct{}{}:
	case <-l.end: // Close has discarded p
		return nil, closed
	}
	l.mu.Lock()
	open := l.waits != nil
	p.socket.accepted = true
	delete(l.waits, p)
	l.mu.Unlock()
	p.atEnd(func() { <-l.slots })
	if !open {
		return nil, errors.Join(closed, p.discard())
	}
	_ = l.expect() // an error ends the listener too
	return &netConn{p: p, path: l.path}, nil
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.mu.Lock()
	waits := l.waits
	l.waits = nil
	l.mu.Unlock()
	if waits == nil {
		return net.ErrClosed
	}
	close(l.end)
	err := l.p.Kill()
	for p := range waits {
		_ = p.discard()
	}
	return err
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr {
	if l.path != "" {
		return &net.UnixAddr{Net: "unix", Name: l.path}
	}
	return net.TCPAddrFromAddrPort(l.at)
}

// ListenUDP sends and receives datagrams at an address inside. The caller closes it.
func (c *Conn) ListenUDP(ctx context.Context, at netip.AddrPort) (net.PacketConn, error) {
	p, err := c.open(&wire.NetRequest{Op: wire.NetPacket, Address: at}, nil)
	if err != nil {
		return nil, err
	}
	if err := begun(ctx, p); err != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Addr: net.UDPAddrFromAddrPort(at), Err: err}
	}
	return &packetConn{p: p}, nil
}

// A packetConn is a socket for datagrams inside.
type packetConn struct{ p *Process }

// ReadFrom implements [net.PacketConn].
func (c *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	f, err := c.p.stdout.frame()
	if err != nil {
		return 0, nil, err
	}
	defer f.Release()
	_ = c.p.stdout.consumed(len(f.Payload())) // a broken connection shows with the next read
	from, data, err := wire.ParseDatagram(f.Payload())
	if err != nil {
		return 0, nil, err
	}
	return copy(b, data), net.UDPAddrFromAddrPort(from), nil
}

// WriteTo implements [net.PacketConn].
func (c *packetConn) WriteTo(b []byte, to net.Addr) (int, error) {
	at, ok := to.(*net.UDPAddr)
	if !ok || len(b) > wire.MaxPayload-wire.DatagramHeader {
		return 0, &net.OpError{Op: "write", Net: "udp", Addr: to, Err: syscall.EMSGSIZE}
	}
	d := append(wire.AppendDatagram(nil, at.AddrPort()), b...)
	if _, err := c.p.stdin.claim(len(d), len(d)); err != nil {
		return 0, err
	}
	return len(b), c.p.conn.broken(c.p.conn.w.Send(wire.Stdin, c.p.channel, d))
}

// Close implements [net.PacketConn].
func (c *packetConn) Close() error { return c.p.discard() }

// LocalAddr implements [net.PacketConn].
func (c *packetConn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(c.p.socket.local) }

// SetDeadline implements [net.PacketConn].
func (c *packetConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.PacketConn].
func (c *packetConn) SetReadDeadline(t time.Time) error { return c.p.stdout.until(t) }

// SetWriteDeadline implements [net.PacketConn].
func (c *packetConn) SetWriteDeadline(t time.Time) error { return c.p.stdin.until(t) }
