package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"wolffia/internal/host/hostsocket"
	"wolffia/internal/host/inside"
	"wolffia/runtime"
)

const (
	// maxForwarded bounds the connections of one sandbox that ports carries at once. More
	// wait in the queues of the listening sockets.
	maxForwarded = 512
	// dialLimit is how long the other side may take to accept a connection.
	dialLimit = 10 * time.Second
	// portsLimit is how long PID 1 may take to make the listening sockets.
	portsLimit = 20 * time.Second
)

// ports carries connections between the host and the sandbox: ports of the host that are
// published, and services of the host that are exposed inside.
type ports struct {
	relay   *relay
	network inside.Network
	slots   chan struct{} // one for each connection, and each Accept

	published []net.Listener // openPorts's own until it returns
}

// close ends the listening on the host, where another sandbox may listen next. A nil ports has
// none.
func (p *ports) close() {
	if p == nil {
		return
	}
	for _, l := range p.published {
		_ = l.Close()
	}
}

// openPorts opens all listening sockets of the configuration, and serves them until the
// process ends.
func (s *shim) openPorts() error {
	c := &s.boot.Config
	if len(c.Publish)+len(c.Expose)+len(c.Sockets) == 0 {
		return nil
	}
	s.step("open the ports")
	network, err := s.net.reach()
	if err != nil {
		return err
	}
	p := &ports{relay: s.relay, network: network, slots: make(chan struct{}, maxForwarded)}
	s.ports = p
	ctx, cancel := context.WithTimeout(context.Background(), portsLimit)
	defer cancel()
	for i := range c.Publish {
		if err := p.publish(&c.Publish[i]); err != nil {
			return err
		}
	}
	for i := range c.Expose {
		if err := p.expose(ctx, &c.Expose[i]); err != nil {
			return err
		}
	}
	for i := range c.Sockets {
		if err := p.socket(ctx, &c.Sockets[i]); err != nil {
			return err
		}
	}
	return nil
}

// publish listens on the host.
func (p *ports) publish(port *runtime.Publish) error {
	address := port.HostAddress()
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return runtime.Errorf(runtime.ErrConflict, "publish %s: another program of this host listens there: choose another port", address)
	case errors.Is(err, syscall.EACCES):
		return runtime.Errorf(runtime.ErrUnavailable, "publish %s: ports below 1024 are root's: choose a higher one", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return runtime.Errorf(runtime.ErrInvalid, "publish %s: it is not an address of this host", address)
	case err != nil:
		return runtime.Errorf(runtime.ErrUnavailable, "publish %s: %w", address, err)
	}
	p.published = append(p.published, l)
	// ends with the listener, or the process
	go p.serve(l, "publish "+address, func(ctx context.Context) (net.Conn, error) {
		return dialInside(ctx, p.network, port.Port)
	})
	return nil
}

// loopbacks are the addresses at which a server inside may listen.
var loopbacks = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// dialInside connects to a server at the sandbox's loopback.
func dialInside(ctx context.Context, network inside.Network, port int) (net.Conn, error) {
	var refused error
	for _, at := range loopbacks {
		conn, err := network.DialTCP(ctx, netip.AddrPortFrom(at, uint16(port)))
		if err == nil {
			return conn, nil
		}
		if refused == nil {
			refused = err // of IPv6, which may be off, it says less
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return nil, refused
}

// expose listens inside for a service of the host's loopback.
func (p *ports) expose(ctx context.Context, port *runtime.Expose) error {
	at := netip.AddrPortFrom(loopbacks[0], uint16(port.InsidePort()))
	l, err := p.network.ListenTCP(ctx, at)
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "expose port %d: listen at %s inside: %w", port.HostPort, at, err)
	}
	to := net.JoinHostPort("localhost", strconv.Itoa(port.HostPort))
	// ends with the process
	go p.serve(l, "expose "+to, func(ctx context.Context) (net.Conn, error) {
		return dialHost(ctx, port.HostPort)
	})
	return nil
}

// dialHost connects to a service at the host's loopback.
func dialHost(ctx context.Context, port int) (net.Conn, error) {
	return dialInside(ctx, hostLoopback{}, port)
}

// hostLoopback dials on the host.
type hostLoopback struct{ inside.Network }

func (hostLoopback) DialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", to.String())
}

// socket listens on a unix socket inside for one of the host's.
func (p *ports) socket(ctx context.Context, socket *runtime.Socket) error {
	if _, err := hostsocket.Resolve(socket.Source, socket.Force); err != nil {
		return err
	}
	l, err := p.network.ListenUnix(ctx, socket.InsidePath())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return runtime.Errorf(runtime.ErrConflict, "socket %s: %s inside exists: another sandbox listens there, or it is another file: remove it, or choose another path", socket.Source, socket.InsidePath())
	case err != nil:
		return runtime.Errorf(runtime.ErrUnavailable, "socket %s: listen at %s inside: %w: choose a path below /tmp or the home directory", socket.Source, socket.InsidePath(), err)
	}
	// ends with the process
	go p.serve(l, "socket "+socket.Source, func(ctx context.Context) (net.Conn, error) {
		return hostsocket.Dial(ctx, socket.Source, socket.Force)
	})
	return nil
}

// serve carries the connections of a listener, each with one that dial makes, until the
// listener is closed.
func (p *ports) serve(l net.Listener, what string, dial func(context.Context) (net.Conn, error)) {
	var once sync.Once // the sandbox or a stranger may try without end
	for {
		p.slots <- struct{}{}
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			<-p.slots
			return
		}
		if err != nil {
			<-p.slots
			time.Sleep(acceptPause)
			continue
		}
		p.relay.hold()
		go func() { // ends with the connection
			defer func() { <-p.slots }()
			defer p.relay.release()
			if err := carry(conn.(inside.HalfCloser), dial); err != nil {
				once.Do(func() { fmt.Fprintf(os.Stderr, "%s: %v (further errors are left out)\n", what, err) })
			}
		}()
	}
}

// carry connects a connection with what dial makes, until both directions have ended.
func carry(conn inside.HalfCloser, dial func(context.Context) (net.Conn, error)) error {
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	other, err := dial(ctx)
	if err != nil {
		inside.Reset(conn)
		return err
	}
	defer other.Close()
	cancel()
	inside.Exchange(conn, other.(inside.HalfCloser))
	return nil
}
