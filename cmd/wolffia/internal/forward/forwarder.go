// Package forward passes connections to ports of this host on to servers in a sandbox.
package forward

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	insidenet "wolffia/internal/host/inside"
	"wolffia/internal/sys/rawsock"
	"wolffia/local"
	"wolffia/runtime"
)

// A Forwarder passes connections on to one sandbox.
type Forwarder struct {
	*host.Host
	RT      *local.Runtime
	Sandbox *runtime.Sandbox
	Ports   []runtime.Publish // for Check
	Wait    bool              // until a server listens, also for each connection
	refused sync.Once
}

const (
	// maxForwarded bounds the connections of a port at once; more wait in the kernel's queue.
	maxForwarded = 512
	// lookAgain is the time between two attempts to reach a server that is not up, longer each
	// time up to lookSeldom. No event replaces it: sock_diag(7) reports the end of sockets only,
	// not that one listens, and gVisor has none of it.
	lookAgain  = 10 * time.Millisecond
	lookSeldom = 250 * time.Millisecond
)

// Check returns the error of a port that leads to a port of this host at which f listens itself,
// not to a server.
func (f *Forwarder) Check() error {
	p := runtime.Circular(f.Ports)
	if p == nil || f.Sandbox.Network != runtime.NetworkHost {
		return nil
	}
	return runtime.Errorf(runtime.ErrInvalid, "port %s: sandbox %s has network %q, so it would lead to itself: the server is at port %d of this host already", p.HostAddress(), f.Sandbox.ID, f.Sandbox.Network, p.Port)
}

// Listen opens a port of this host, and serves it until the listener is closed, which the caller
// does. It sets p.Local.
func (f *Forwarder) Listen(ctx context.Context, p *runtime.Publish) (net.Listener, error) {
	l, err := net.Listen("tcp", p.HostAddress())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, runtime.Errorf(runtime.ErrConflict, "port %s: another program of this host listens there: choose another with LOCAL:%d", p.HostAddress(), p.Port)
	case errors.Is(err, syscall.EACCES):
		return nil, runtime.Errorf(runtime.ErrInvalid, "port %s: ports below 1024 are root's: choose a higher one with LOCAL:%d", p.HostAddress(), p.Port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, runtime.Errorf(runtime.ErrInvalid, "--address %s: it is not an address of this host", p.Address)
	case err != nil:
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	p.Local = l.Addr().(*net.TCPAddr).Port // of LOCAL 0, which may be PORT too
	if err := f.Check(); err != nil {
		_ = l.Close()
		return nil, err
	}
	if f.Wait {
		conn, err := f.dial(ctx, p.Port)
		if err != nil {
			_ = l.Close()
			return nil, err
		}
		_ = conn.Close()
	}
	go f.serve(ctx, l, p.Port) // ends with the listener
	return l, nil
}

func (f *Forwarder) serve(ctx context.Context, l net.Listener, port int) {
	turn := make(chan struct{}, 1)
	for slots := make(chan struct{}, maxForwarded); ; {
		slots <- struct{}{}
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-slots
			time.Sleep(lookSeldom) // no descriptor is left
			continue
		}
		go func() { // ends with the connection
			defer func() { <-slots }()
			f.carry(ctx, conn.(*net.TCPConn), port, turn)
		}()
	}
}

// dial connects to a server inside. With wait it tries until the server is up.
func (f *Forwarder) dial(ctx context.Context, port int) (net.Conn, error) {
	for pause := lookAgain; ; pause = min(2*pause, lookSeldom) {
		conn, err := f.RT.DialPort(ctx, f.Sandbox.ID, port)
		if err == nil || !f.Wait || !errors.Is(err, syscall.ECONNREFUSED) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// await is dial for a client. With wait, only one of a port's clients tries until the server is
// up, the one that has the turn. A client that sends no more meanwhile is taken for one that has
// given up.
func (f *Forwarder) await(ctx context.Context, client *net.TCPConn, port int, turn chan struct{}) (net.Conn, error) {
	conn, err := f.RT.DialPort(ctx, f.Sandbox.ID, port)
	if err == nil || !f.Wait || !errors.Is(err, syscall.ECONNREFUSED) {
		return conn, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() {
		if rawsock.AwaitHangUp(client) == nil {
			cancel()
		}
	})
	defer func() {
		_ = client.SetReadDeadline(time.Unix(1, 0)) // ends the watching
		watching.Wait()
		_ = client.SetReadDeadline(time.Time{})
	}()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
		return f.dial(ctx, port)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// carry passes one connection on.
func (f *Forwarder) carry(ctx context.Context, conn *net.TCPConn, port int, turn chan struct{}) {
	defer conn.Close()
	server, err := f.await(ctx, conn, port, turn)
	if err != nil {
		insidenet.Reset(conn)
		if errors.Is(err, syscall.ECONNREFUSED) {
			f.refused.Do(func() { f.Warn("%s; it may not be up yet: --wait waits for it", console.Printable(err.Error())) })
		}
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = conn.Close(), server.Close() })
	defer stop()
	insidenet.Exchange(conn, server.(insidenet.HalfCloser))
}
