package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/agent"
	"wolffia/service/opensandbox"
	"wolffia/service/server"
)

func (a *app) serveCommand() *cobra.Command {
	var box boxFlags
	var where serveFlags
	cmd := &cobra.Command{
		Use:   "serve [--listen unix:PATH|HOST:PORT] [flags]",
		Short: "Serve sandboxes to owners, over HTTP on a unix socket or TCP",
		Long: `Serve sandboxes to owners over HTTP: on a unix socket, which only you and root can use,
or on TCP. The flags of create describe each new sandbox; configuration files are not
read, since they say what you want for yourself, or what a project wants. Requests are logged to standard error, as JSON.

On a loopback address (--listen 127.0.0.1:8080) only processes of yours and of root
are served. Other addresses, and sandboxes with --network host, --add-host, --upstream-proxy or --expose, need API keys: --api-keys FILE, of mode 0600,
has a key in each line, of 16 characters or more. With an owner after it, ORG/PROJECT/USER,
a key is for that owner's sandboxes only. SIGHUP reads the file again. The service speaks
no TLS: put a front end that does before an address that other machines can reach.

The calls of wolffia are below /api/v1/, those of OpenSandbox below /v1/, and /mcp speaks
the Model Context Protocol, for agents.

SIGTERM or SIGINT (and SIGHUP, without --api-keys) stops it: requests that run have --grace to end. A second one
ends it at once. Sandboxes go on, whatever becomes of the service, and the next one
finds them.`,
		Example: `  wolffia serve --codebase . &
  curl --unix-socket ~/.local/state/wolffia/service/sock -H 'Content-Type: application/json' \
    -d '{"organizationId":"acme","projectId":"web","userId":"zoe"}' http://wolffia/api/v1/ensureSandbox`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if where.grace < 0 {
				return runtime.Errorf(runtime.ErrInvalid, "--grace %v: it must not be negative", where.grace)
			}
			return a.serve(cmd.Context(), &box, &where)
		},
	}
	box.fixed = true
	box.add(cmd)
	for _, name := range ofOneSandbox {
		_ = cmd.Flags().MarkHidden(name)
	}
	cmd.Flags().StringVar(&where.listen, "listen", "", "where to listen: unix:PATH or HOST:PORT (default unix:service/sock in the state directory)")
	cmd.Flags().StringVar(&where.keys, "api-keys", "", "file with API keys, one in each line, for HOST:PORT")
	where.choices.add(cmd)
	cmd.Flags().BoolVar(&where.apply, "allow-apply", false, "let requests apply the changes of sandboxes with cow to the codebase on this host")
	cmd.Flags().IntVar(&where.warm, "warm", 0, "keep so many sandboxes started ahead, for requests that choose no other runtime or image (default: none)")
	cmd.Flags().DurationVar(&where.grace, "grace", 10*time.Second, "how long requests may go on after SIGTERM")
	return cmd
}

// ofOneSandbox are the flags of create that cannot be those of many.
var ofOneSandbox = []string{"name", "owner", "home"}

// serveFlags say where and how to serve.
type serveFlags struct {
	listen string
	keys   string // file with API keys; empty: none
	grace  time.Duration
	warm   int  // how many spares to keep
	apply  bool // callers may change the host's directories by applying changes

	choices choiceFlags
}

// serve opens the service and serves it until a signal stops it.
func (a *app) serve(ctx context.Context, box *boxFlags, where *serveFlags) error {
	again, reload := make(chan os.Signal, 2), make(chan os.Signal, 1)
	stops := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} // as main does
	if where.keys != "" {
		stops = stops[:2]
		signal.Reset(unix.SIGHUP) // main's
		signal.Notify(reload, unix.SIGHUP)
		defer signal.Stop(reload)
	}
	defer notify(again, stops...)()
	if box.name != "" || box.owner != "" {
		return runtime.Errorf(runtime.ErrInvalid, "serve does not take --name or --owner: ids are generated, and owners come with each request")
	}
	log := slog.New(slog.NewJSONHandler(a.err, nil))
	a.log = log
	rt, err := a.open(box.runtime)
	if err != nil {
		return err
	}
	template, err := box.config(ctx, a) // report a wrong flag now
	if err != nil {
		return err
	}
	if err := where.choices.resolve(); err != nil {
		return err
	}
	at, err := newSite(where, rt.StateDir(), where.choices.shown(template))
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	if template.Resources.BestEffort {
		log.Warn("limits are best effort: wolffia inspect SANDBOX shows which ones this host enforces")
	}
	meter := new(service.Meter)
	warm, err := a.warmPool(ctx, rt, template, box.image, where.warm, log)
	if err != nil {
		return err
	}
	fleet := service.NewFleet(rt, &service.FleetOptions{
		NewID: warm.fleetID,
		Log:   log, Meter: meter, Configure: a.fleetTemplate(box, &where.choices, null), Chosen: true, Roots: where.choices.volumes,
		MayReach: box.mayReach, AllowApply: where.apply,
		Config: func(ctx context.Context, id string) (*runtime.SandboxConfig, error) {
			d, err := rt.Inspect(ctx, id)
			if err != nil {
				return nil, err
			}
			return &d.Config, nil
		},
	})
	service, err := service.Open(ctx, service.NewDriver(rt, &service.Options{Configure: a.template(box, null), MayReach: box.mayReach}),
		rt.StateDir(), &service.ServiceOptions{NewID: warm.ownerID, Log: log, Meter: meter, Fleet: fleet})
	if err != nil {
		return err
	}
	defer service.Close()
	if err := fleet.Recover(ctx); err != nil {
		return err
	}
	l, admit, err := at.open(ctx)
	if err != nil {
		return err
	}
	agents := agent.New(&agent.Options{Runtime: rt, Service: service, Fleet: fleet, Allow: a.addTo, Version: version, Copied: template.CopyOnWrite})
	defer agents.Close()
	s := server.New(service, &server.Options{
		Pool: warm.counter(), Log: log, Gate: admit, Meter: meter, Count: fleet.Count, OpenSandbox: opensandbox.New(fleet, &opensandbox.Options{Log: log}), Agents: agents,
	})
	defer warm.keep(ctx)()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // ends with Stop or Close
	log.Info("serving", at.attr(l), "stateDir", rt.StateDir(), "runtime", rt.Name(), "pid", os.Getpid())
	if at.remote(l) {
		log.Warn("other machines can reach the service, and it speaks no TLS: put a front end with TLS before it")
	}
	for {
		select {
		case err := <-ended:
			return err
		case <-reload:
			at.reload(admit, log)
			continue
		case <-ctx.Done():
		}
		return a.stopServing(s, ended, again, where.grace, log)
	}
}

// stopServing ends a service in good order, or at once when a signal comes again.
func (a *app) stopServing(s *server.Server, ended <-chan error, again <-chan os.Signal, grace time.Duration, log *slog.Logger) error {
	log.Info("stopping", "graceMs", grace.Milliseconds())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(ctx, grace) }() // ends with ctx, or within its limits
	first := true                                 // the signal that stops us may be here, too
	for {
		select {
		case err := <-stopped:
			err = errors.Join(err, <-ended)
			log.Info("stopped")
			return err
		case sig := <-again:
			if first {
				first = false
				continue
			}
			_ = s.Close()
			<-ended
			log.Warn("ended at once", "signal", sig.String())
			return exitStatus{128 + int(sig.(unix.Signal))}
		}
	}
}

// template returns a function that makes the configuration of a new sandbox from the
// flags.
func (a *app) template(box *boxFlags, null *os.File) func(context.Context, *service.CreateSandboxParams) (*runtime.SandboxConfig, error) {
	return func(ctx context.Context, _ *service.CreateSandboxParams) (*runtime.SandboxConfig, error) {
		return stillValid(a.again(ctx, *box, null))
	}
}

// stillValid gives an error in flags that were valid when the service started its class: it
// is not a mistake in the request.
func stillValid(c *runtime.SandboxConfig, err error) (*runtime.SandboxConfig, error) {
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the flags of wolffia serve do not describe a valid sandbox any more: %s", err.Error())
	}
	return c, nil
}

// ofRegistry returns an error unless a request may name an image: one in files is of this host.
func ofRegistry(image string) error {
	if _, err := store.Canonical(image); err != nil || store.Local(image) {
		return runtime.Errorf(runtime.ErrInvalid, "image %q: a request can name an image of a registry only", image)
	}
	return nil
}

// again makes the configuration of a new sandbox from the flags. It scans the codebase each
// time: new git repositories need guarding too.
func (a *app) again(ctx context.Context, flags boxFlags, null *os.File) (*runtime.SandboxConfig, error) {
	quiet := &app{stdio: stdio{in: a.in, out: null, err: null}, stateDir: a.stateDir} // one warning is enough
	c, err := flags.config(ctx, quiet)
	return c, errors.Join(err, quiet.close())
}
