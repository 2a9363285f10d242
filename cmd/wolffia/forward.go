package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/forward"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/signals"
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
			err := forwardPorts(ctx, h, args[0], address, args[1:], wait)
			if code, is := signals.CodeOf(ctx); is && err == nil {
				return console.ExitStatus(code)
			}
			return err
		},
	}
	h.AddResume(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until a server listens inside, and for each connection")
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "IP address of this host to listen at: at any other than a loopback address, other machines may reach the server")
	return cmd
}

// forwardPorts listens and carries connections until ctx or the sandbox ends.
func forwardPorts(ctx context.Context, h *host.Host, ref, address string, specs []string, wait bool) error {
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
	if !sb.State.Runs() {
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is not running, it is %s: wolffia start %s", sb.ID, sb.State, sb.ID)
	}
	f := &forward.Forwarder{Host: h, RT: rt, Sandbox: sb, Ports: ports, Wait: wait}
	if err := f.Check(); err != nil {
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
		l, err := f.Listen(ctx, &ports[i])
		if err == nil {
			defer l.Close()
			_, err = fmt.Fprintf(h.Out, "%s -> %s port %d\n", l.Addr(), sb.ID, ports[i].Port)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil {
			break
		}
	}
	<-ctx.Done()
	if given.Err() != nil {
		return nil // a signal
	}
	return <-ended
}
