package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/rawsock"
)

// direct makes sockets in a network namespace. A socket stays in the namespace in which it
// was made, whichever thread uses it.
type direct struct {
	unix Network       // for ListenUnix; may be nil
	work chan func()   // for the thread in the namespace; nil: this process or fds makes the sockets
	fds  *fdSocket     // makes the sockets; nil: this process does
	end  chan struct{} // closed by Close
	big  bool          // the loopback has big packets

	mu   sync.Mutex
	open map[io.Closer]struct{} // listeners; nil after Close; guarded by mu
}

// Direct returns the network of the namespace that a process is in, which must be another
// than this process's. This process needs CAP_SYS_ADMIN in the user namespace that owns it.
// unixSockets makes the sockets of ListenUnix; nil: ListenUnix returns an error. Close does
// not close unixSockets.
//
// One thread of this process joins the namespace and does nothing but make sockets there. Close
// ends it. The kernel carries the bytes of connections, which so outlive Close.
func Direct(pid int, unixSockets Network) (Network, error) {
	d := newDirect(unixSockets)
	d.work = make(chan func())
	joined := make(chan error)
	go func() { // ends with Close
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := join(pid, "net", unix.CLONE_NEWNET)
		if err == nil {
			d.big = enlargePackets() == nil // else it is slower
			_ = addAddress()                // else few programs fail
		}
		joined <- err
		for err == nil {
			select {
			case f := <-d.work:
				f()
			case <-d.end:
				return
			}
		}
	}()
	if err := <-joined; err != nil {
		return nil, fmt.Errorf("join the network namespace of process %d: %w", pid, err)
	}
	return d, nil
}

// portStart is the first port of a network namespace at which a process needs no capability to
// listen (ip-sysctl in the kernel's documentation).
const portStart = "/proc/sys/net/ipv4/ip_unprivileged_port_start"

// FreePorts lets all processes of the network namespace of a process listen at ports below 1024. The
// namespace and this process are as for [Direct].
func FreePorts(pid int) error {
	freed := make(chan error)
	go func() {
		runtime.LockOSThread() // as in Direct
		err := join(pid, "net", unix.CLONE_NEWNET)
		if err == nil {
			err = os.WriteFile(portStart, []byte("0"), 0)
		}
		freed <- err
	}()
	if err := <-freed; err != nil {
		return fmt.Errorf("free the low ports of process %d: %w", pid, err)
	}
	return nil
}

// Host returns the network of this process itself, for a sandbox that shares it. unixSockets is
// as for [Direct].
func Host(unixSockets Network) Network { return newDirect(unixSockets) }

func newDirect(unixSockets Network) *direct {
	return &direct{unix: unixSockets, end: make(chan struct{}), open: map[io.Closer]struct{}{}}
}

// join moves the calling thread into a namespace of a process, which must be another than this
// process's: name is that in /proc/PID/ns, and kind is as for setns(2).
func join(pid int, name string, kind int) error {
	theirs, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
	if err != nil {
		return err
	}
	defer theirs.Close()
	ours, err := os.Stat("/proc/thread-self/ns/" + name)
	if err != nil {
		return err
	}
	st, err := theirs.Stat()
	if err != nil {
		return err
	}
	if os.SameFile(ours, st) {
		return errors.New("it is the host's")
	}
	return os.NewSyscallError("setns", unix.Setns(int(theirs.Fd()), kind))
}

// socket makes a socket in the namespace.
func (d *direct) socket(ctx context.Context, kind rawsock.Kind, at netip.AddrPort) (file *os.File, err error) {
	if d.fds != nil {
		file, err := d.fds.socket(ctx, kind, at)
		select {
		case <-d.end:
			_ = file.Close() // nil is fine
			return nil, net.ErrClosed
		default:
			return file, err
		}
	}
	f := func() (*os.File, error) { return rawsock.Open(kind, at) }
	if d.work == nil {
		select {
		case <-d.end:
			return nil, net.ErrClosed
		default:
		}
		return f()
	}
	done := make(chan struct{})
	select {
	case d.work <- func() { file, err = f(); close(done) }:
	case <-d.end:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	<-done
	return file, err
}

// track records a listener, which Close closes. After Close, track closes c at once.
func (d *direct) track(c io.Closer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		return errors.Join(net.ErrClosed, c.Close())
	}
	d.open[c] = struct{}{}
	return nil
}

func (d *direct) forget(c io.Closer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}

// ListenTCP implements [Network].
func (d *direct) ListenTCP(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	file, err := d.socket(ctx, rawsock.Listening, at)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: net.TCPAddrFromAddrPort(at), Err: err}
	}
	defer file.Close() // package net copies the descriptor
	l, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	if err := d.track(l); err != nil {
		return nil, err
	}
	return &keptListener{l, d}, nil
}

// A keptListener untracks its listener when it is closed.
type keptListener struct {
	net.Listener
	d *direct
}

// Accept implements [net.Listener].
func (l *keptListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.d.fast(c), nil
}

func (l *keptListener) Close() error {
	l.d.forget(l.Listener)
	return l.Listener.Close()
}

// ListenUDP implements [Network].
func (d *direct) ListenUDP(ctx context.Context, at netip.AddrPort) (net.PacketConn, error) {
	file, err := d.socket(ctx, rawsock.Datagrams, at)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Addr: net.UDPAddrFromAddrPort(at), Err: err}
	}
	defer file.Close()
	c, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	if err := d.track(c); err != nil {
		return nil, err
	}
	return &keptPacketConn{c, d}, nil
}

// A keptPacketConn untracks its connection when it is closed.
type keptPacketConn struct {
	net.PacketConn
	d *direct
}

func (c *keptPacketConn) Close() error {
	c.d.forget(c.PacketConn)
	return c.PacketConn.Close()
}

// ListenUnix implements [Network].
func (d *direct) ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	if d.unix == nil {
		return nil, errors.New("this network makes no unix sockets")
	}
	return d.unix.ListenUnix(ctx, path)
}

// DialTCP implements [Network]. The thread in the namespace makes the socket only, since a
// program inside decides how long connecting takes.
func (d *direct) DialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	sa, _ := rawsock.Sockaddr(to)
	file, err := d.socket(ctx, rawsock.Stream, to)
	if err == nil {
		defer file.Close()
		err = rawsock.Connect(ctx, file, sa)
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return d.fast(c), nil
}

// fast returns a connection whose bytes are carried as is best for the loopback.
func (d *direct) fast(c net.Conn) net.Conn {
	if tcp, is := c.(*net.TCPConn); is && d.big {
		return bigConn{tcp}
	}
	return c
}

// Close implements [Network].
func (d *direct) Close() error {
	d.mu.Lock()
	open := d.open
	d.open = nil
	d.mu.Unlock()
	if open != nil {
		close(d.end)
	}
	for c := range open {
		_ = c.Close()
	}
	if d.fds != nil {
		d.fds.close()
	}
	return nil
}
