package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/server"
)

func (a *app) serveCommand() *cobra.Command {
	var box boxFlags
	var listen string
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "serve [--listen unix:PATH] [flags]",
		Short: "Serve sandboxes to owners, over HTTP on a unix socket",
		Long: `Serve sandboxes to owners, one to each, over HTTP on a unix socket, which only you
and root can use. The flags of create describe each new sandbox; configuration files
are not read, since they say what you want for yourself, or what a project wants.
Requests are logged to standard error, as JSON.

SIGTERM or SIGINT stops it: requests that run have --grace to end. A second one
ends it at once. Sandboxes go on, whatever becomes of the service, and the next one
finds them.`,
		Example: `  wolffia serve --codebase . &
  curl --unix-socket ~/.local/state/wolffia/service/sock -H 'Content-Type: application/json' \
    -d '{"organizationId":"acme","projectId":"web","userId":"zoe"}' http://wolffia/api/v1/ensureSandbox`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if grace < 0 {
				return runtime.Errorf(runtime.ErrInvalid, "--grace %v: it must not be negative", grace)
			}
			return a.serve(cmd.Context(), &box, listen, grace)
		},
	}
	box.fixed = true
	box.add(cmd)
	for _, name := range ofOneSandbox {
		_ = cmd.Flags().MarkHidden(name)
	}
	cmd.Flags().StringVar(&listen, "listen", "", "where to listen: unix:PATH (default unix:service/sock in the state directory)")
	cmd.Flags().DurationVar(&grace, "grace", 10*time.Second, "how long requests may go on after SIGTERM")
	return cmd
}

// ofOneSandbox are the flags of create that cannot be those of many.
var ofOneSandbox = []string{"name", "owner", "home"}

// serve opens the service and serves it until a signal stops it.
func (a *app) serve(ctx context.Context, box *boxFlags, listen string, grace time.Duration) error {
	again := make(chan os.Signal, 2)
	defer notify(again, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)() // as main does
	if box.name != "" || box.owner != "" {
		return runtime.Errorf(runtime.ErrInvalid, "serve does not take --name or --owner: ids are generated, and owners come with each request")
	}
	log := slog.New(slog.NewJSONHandler(a.err, nil))
	a.log = log
	rt, err := a.open(box.runtime)
	if err != nil {
		return err
	}
	path, err := socketPath(listen, rt.StateDir())
	if err != nil {
		return err
	}
	template, err := box.config(ctx, a) // report a wrong flag now
	if err != nil {
		return err
	}
	if err := socketApart(path, template); err != nil {
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
	service, err := service.Open(ctx, service.NewDriver(rt, &service.Options{Configure: a.template(box, null), MayReach: box.mayReach}),
		rt.StateDir(), &service.ServiceOptions{Log: log})
	if err != nil {
		return err
	}
	defer service.Close()
	l, err := server.Listen(path)
	if err != nil {
		return err
	}
	s := server.New(service, &server.Options{Log: log})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // ends with Stop or Close
	log.Info("serving", "socket", path, "stateDir", rt.StateDir(), "runtime", rt.Name(), "pid", os.Getpid())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	return a.stopServing(s, ended, again, grace, log)
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
// flags. It scans the codebase each time: new git repositories need guarding too.
func (a *app) template(box *boxFlags, null *os.File) func(context.Context, *service.CreateSandboxParams) (*runtime.SandboxConfig, error) {
	return func(ctx context.Context, _ *service.CreateSandboxParams) (*runtime.SandboxConfig, error) {
		quiet := &app{stdio: stdio{in: a.in, out: null, err: null}, stateDir: a.stateDir} // one warning is enough
		flags := *box                                                                     // several ask at the same time
		c, err := flags.config(ctx, quiet)
		err = errors.Join(err, quiet.close())
		if err != nil { // not a mistake in the request
			return nil, runtime.Errorf(runtime.ErrUnavailable, "the flags of wolffia serve do not describe a valid sandbox any more: %s", err.Error())
		}
		return c, nil
	}
}

// socketPath is where --listen says that the socket is to be.
func socketPath(listen, stateDir string) (string, error) {
	if listen == "" {
		return filepath.Join(stateDir, "service", "sock"), nil
	}
	path, is := strings.CutPrefix(listen, "unix:")
	switch {
	case !is:
		return "", runtime.Errorf(runtime.ErrUnsupported, "--listen %q: unsupported; so far it can be unix:PATH", listen)
	case path == "" || strings.HasSuffix(path, "/"):
		return "", runtime.Errorf(runtime.ErrInvalid, "--listen %q: it must be unix:PATH", listen)
	}
	return filepath.Abs(path)
}

// socketApart refuses a socket that the sandboxes would be shown: what is in there
// is the same user, and could ask for everything.
func socketApart(path string, c *runtime.SandboxConfig) error {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil { // it is not there yet; its own directory is
		if dir, err = filepath.EvalSymlinks(filepath.Dir(filepath.Dir(path))); err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "socket %s: %w", path, err)
		}
	}
	shown := []string{c.CodebasePath, c.Rootfs}
	for _, m := range c.Mounts {
		shown = append(shown, m.Source)
	}
	for _, s := range shown {
		if s == "" {
			continue
		}
		real, err := filepath.Abs(s)
		if err == nil {
			real, err = filepath.EvalSymlinks(real)
		}
		if err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "%s: %w", s, err)
		}
		if dir == real || real == "/" || strings.HasPrefix(dir, real+"/") {
			return runtime.Errorf(runtime.ErrInvalid, "socket %s is in %s, which the sandboxes are shown: choose another with --listen unix:PATH", path, s)
		}
	}
	return nil
}
