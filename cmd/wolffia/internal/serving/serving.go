//go:build !small

package serving

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/signals"
	"wolffia/service"
	"wolffia/service/server"
)

// serve opens the service and serves it until a signal stops it.
func serve(cmd *cobra.Command, h *host.Host) error {
	ctx, typed := cmd.Context(), cmd.Flags()
	again, reload := make(chan os.Signal, 2), make(chan os.Signal, 1)
	stops := signals.Stops
	if typed.Changed("api-keys") || typed.Changed("config") {
		stops = []os.Signal{unix.SIGINT, unix.SIGTERM}
		h.Signals.Wait()
		signal.Reset(unix.SIGHUP) // main's
		signal.Notify(reload, unix.SIGHUP)
		defer signal.Stop(reload)
	}
	defer signals.Notify(again, stops...)()
	i := &instance{Host: h, typed: typed, log: slog.New(slog.NewJSONHandler(h.Err, nil))}
	h.Log, h.Umask = i.log, nil
	if err := i.open(ctx); err != nil {
		return err
	}
	defer i.close()
	ended := make(chan error, 1)
	go func() { ended <- i.server.Serve(i.listener) }() // ends with Stop or Close
	defer recoverCommands(ctx, i.service, i.log)()
	i.log.Info("serving", i.site.attr(i.listener), "stateDir", i.rt.StateDir(), "runtime", i.rt.Name(), "pid", os.Getpid())
	if i.site.remote(i.listener) {
		i.log.Warn("other machines can reach the service, and it speaks no TLS: put a front end with TLS before it")
	}
	manager := newManager(i.log)
	defer manager.close()
	manager.tell(daemonReady)
	for {
		select {
		case err := <-ended:
			return err
		case <-reload:
			manager.reloading()
			i.reload(ctx)
			manager.tell(daemonReady)
			continue
		case <-manager.ping:
			manager.alive(ctx, i.service)
			continue
		case <-ctx.Done():
		}
		manager.tell(daemonStopping)
		return stopServing(h, i.server, ended, again, i.now.grace, i.log)
	}
}

// recoverCommands recovers the commands of sandboxes in the background: a sandbox that does not
// answer keeps the service from nothing. The function that it returns ends it, and returns when it
// has ended.
func recoverCommands(ctx context.Context, service *service.Service, log *slog.Logger) (end func()) {
	return background(ctx, func(ctx context.Context) {
		if err := service.Recover(ctx); err != nil && ctx.Err() == nil {
			log.Warn("cannot recover the background commands of sandboxes", "error", err.Error())
		}
	})
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
