package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/signals"
	insidenet "wolffia/internal/host/inside"
	"wolffia/internal/sys/rawsock"
	"wolffia/local"
	"wolffia/runtime"
)

// forwardCommand makes a port of the host lead to a server inside.
func forwardCommand(h *host.Host) *cobra.Command {
	var wait bool
	var address string
	cmd := &cobra.Command{
		Use:   "forward SANDBOX PORT...",
		Short: "Reach servers in a sandbox at ports of this host",
		Long: `Forward listens at 127.0.0.1 and passes each connection on to the server that
listens at PORT of the sandbox's loopback, until ctrl-c. LOCAL:PORT names another
port of this host than PORT; LOCAL 0 is a free one. It works with every network,
none included. See wolffia create --publish for ports that last.

  wolffia forward web 8080              http://127.0.0.1:8080
  wolffia forward web 9000:8080         http://127.0.0.1:9000
  wolffia forward --wait web 0:8080     prints the port once the server is up

It prints one line for each port when it is ready. Open connections keep the
sandbox in use (--idle-timeout).`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signals.UntilSignal(cmd.Context(), signals.Stops...)
			defer stop()
			err := forward(ctx, h, args[0], address, args[1:], wait)
			if code, is := signals.CodeOf(ctx); is && err == nil {
				return console.ExitStatus(code)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until a server listens inside, and for each connection")
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "IP address of this host to listen at: at any other than a loopback address, other machines may reach the server")
	return cmd
}

// forward listens and carries connections until ctx or the sandbox ends.
func forward(ctx context.Context, h *host.Host, ref, address string, specs []string, wait bool) error {
	if net.ParseIP(address) == nil {
		return runtime.Errorf(runtime.ErrInvalid, "--address %q: it must be an IP address of this host", address)
	}
	var ports []runtime.Publish
	for _, s := range specs {
		p, err := sandboxflags.ParseForward(s)
		if err != nil {
			return err
		}
		p.Address = address
		ports = append(ports, p)
	}
	rt, err := h.Open("")
	if err != nil {
		return err
	}
	sb, err := rt.Get(ctx, ref)
	if err != nil {
		return err
	}
	if sb.State != runtime.StateRunning {
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is not running, it is %s: wolffia start %s", sb.ID, sb.State, sb.ID)
	}
	f := &forwarder{Host: h, rt: rt, sb: sb, ports: ports, wait: wait}
	if err := f.check(); err != nil {
		return err
	}
	given := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { // ends with ctx
		ended <- rt.AwaitEnd(ctx, sb.ID)
		cancel() // also a wait for a server
	}()
	for i := range ports {
		l, err := f.listen(ctx, &ports[i])
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil {
			break
		}
		defer l.Close()
	}
	<-ctx.Done()
	if given.Err() != nil {
		return nil // a signal
	}
	return <-ended
}

// A forwarder passes connections on to one sandbox.
type forwarder struct {
	*host.Host
	rt      *local.Runtime
	sb      *runtime.Sandbox
	ports   []runtime.Publish
	wait    bool
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

// check returns the error of a port that leads to a port of this host at which f listens itself,
// not to a server.
func (f *forwarder) check() error {
	p := runtime.Circular(f.ports)
	if p == nil || f.sb.Network != runtime.NetworkHost {
		return nil
	}
	return runtime.Errorf(runtime.ErrInvalid, "port %s: sandbox %s has network %q, so it would lead to itself: the server is at port %d of this host already", p.HostAddress(), f.sb.ID, f.sb.Network, p.Port)
}

// listen opens a port of this host, and serves it until the listener is closed.
func (f *forwarder) listen(ctx context.Context, p *runtime.Publish) (net.Listener, error) {
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
	if err := f.check(); err != nil {
		_ = l.Close()
		return nil, err
	}
	if f.wait {
		conn, err := f.dial(ctx, p.Port)
		if err != nil {
			_ = l.Close()
			return nil, err
		}
		_ = conn.Close()
	}
	if _, err := fmt.Fprintf(f.Out, "%s -> %s port %d\n", l.Addr(), f.sb.ID, p.Port); err != nil {
		_ = l.Close()
		return nil, err
	}
	go f.serve(ctx, l, p.Port) // ends with the listener
	return l, nil
}

func (f *forwarder) serve(ctx context.Context, l net.Listener, port int) {
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
func (f *forwarder) dial(ctx context.Context, port int) (net.Conn, error) {
	for pause := lookAgain; ; pause = min(2*pause, lookSeldom) {
		conn, err := f.rt.DialPort(ctx, f.sb.ID, port)
		if err == nil || !f.wait || !errors.Is(err, syscall.ECONNREFUSED) {
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
func (f *forwarder) await(ctx context.Context, client *net.TCPConn, port int, turn chan struct{}) (net.Conn, error) {
	conn, err := f.rt.DialPort(ctx, f.sb.ID, port)
	if err == nil || !f.wait || !errors.Is(err, syscall.ECONNREFUSED) {
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
func (f *forwarder) carry(ctx context.Context, conn *net.TCPConn, port int, turn chan struct{}) {
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
