//go:build !small

package serving

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/signals"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/agent"
	"wolffia/service/opensandbox"
	"wolffia/service/server"
)

// serve opens the service and serves it until a signal stops it.
func serve(ctx context.Context, h *host.Host, flags *sandboxflags.Sandbox, where *serveFlags) error {
	again, reload := make(chan os.Signal, 2), make(chan os.Signal, 1)
	stops := signals.Stops
	if where.Text("api-keys") != "" {
		stops = []os.Signal{unix.SIGINT, unix.SIGTERM}
		h.Signals.Wait()
		signal.Reset(unix.SIGHUP) // main's
		signal.Notify(reload, unix.SIGHUP)
		defer signal.Stop(reload)
	}
	defer signals.Notify(again, stops...)()
	if flags.Text("name") != "" || flags.Text("owner") != "" {
		return runtime.Errorf(runtime.ErrInvalid, "serve does not take --name or --owner: ids are generated, and owners come with each request")
	}
	log := slog.New(slog.NewJSONHandler(h.Err, nil))
	h.Log, h.Umask = log, nil
	rt, err := h.Open(flags.Text("runtime"))
	if err != nil {
		return err
	}
	template, err := flags.Config(ctx, h) // report a wrong flag now
	if err != nil {
		return err
	}
	if err := rt.CheckLimits(template); err != nil {
		return err
	}
	if err := where.resolve(); err != nil {
		return err
	}
	at, err := newSite(where, rt.StateDir(), where.shown(template))
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
	warm, err := newWarmPool(ctx, h, rt, template, flags.Text("image"), int(where.Whole("warm")), log)
	if err != nil {
		return err
	}
	service, err := service.Open(ctx, rt, rt.StateDir(), &service.Options{
		NewID: warm.newID,
		Log:   log, Meter: meter, Configure: sandboxTemplate(h, flags, &where.choiceFlags, null), Chosen: true, Roots: where.volumes,
		MayReach: flags.MayReach, AllowApply: where.Truth("allow-apply"),
		Config: func(ctx context.Context, id string) (*runtime.SandboxConfig, error) {
			d, err := rt.Inspect(ctx, id)
			if err != nil {
				return nil, err
			}
			return &d.Config, nil
		},
	})
	if err != nil {
		return err
	}
	defer service.Close()
	l, admit, err := at.open(ctx)
	if err != nil {
		return err
	}
	agents := agent.New(&agent.Options{Runtime: rt, Service: service, Allow: h.AddTo, AllowHost: h.AllowTo, Version: h.Version, Copied: template.CopyOnWrite})
	defer agents.Close()
	s := server.New(service, &server.Options{
		Pool: warm.counter(), Log: log, Gate: admit, Meter: meter, Count: service.Count, OpenSandbox: opensandbox.New(service, &opensandbox.Options{Log: log}), Agents: agents,
	})
	defer warm.keep(ctx)()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // ends with Stop or Close
	defer recoverCommands(ctx, service, log)()
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
		return stopServing(h, s, ended, again, where.grace, log)
	}
}

// recoverCommands recovers the commands of sandboxes in the background: a sandbox that does not
// answer keeps the service from nothing. The function that it returns ends it, and returns when it
// has ended.
func recoverCommands(ctx context.Context, service *service.Service, log *slog.Logger) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		if err := service.Recover(ctx); err != nil && ctx.Err() == nil {
			log.Warn("cannot recover the background commands of sandboxes", "error", err.Error())
		}
	}()
	return func() {
		stop()
		<-done
	}
}

// stopServing ends a service in good order, or at once when a signal comes again.
func stopServing(h *host.Host, s *server.Server, ended <-chan error, again <-chan os.Signal, grace time.Duration, log *slog.Logger) error {
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
			return console.ExitStatus(128 + int(sig.(unix.Signal)))
		}
	}
}
