//go:build !small

package serving

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"wolffia/service"
)

// The messages to a service manager (sd_notify(3)).
const (
	daemonReady    = daemon.SdNotifyReady
	daemonStopping = daemon.SdNotifyStopping
)

// A manager is the service manager that has started this process: systemd, or none.
type manager struct {
	log  *slog.Logger
	ping <-chan time.Time // when alive is due; nil: never
	each time.Duration
}

func newManager(log *slog.Logger) *manager {
	m := &manager{log: log}
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("WATCHDOG_USEC of the service manager cannot be read: it is not told that the service is alive", "error", err.Error())
	}
	if limit > 0 {
		m.each = limit / 2
		m.ping = time.Tick(m.each)
	}
	return m
}

// tell tells the manager a state. Without a manager it does nothing.
func (m *manager) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.log.Warn("cannot notify the service manager", "error", err.Error())
	}
}

// reloading tells that the settings are being read; daemonReady ends it.
func (m *manager) reloading() { m.tell(daemon.SdNotifyReloading) }

// alive tells that the service is alive, if it can read its state directory in time.
func (m *manager) alive(ctx context.Context, s *service.Service) {
	ctx, cancel := context.WithTimeout(ctx, m.each)
	defer cancel()
	if _, err := s.List(ctx, service.Caller{All: true}); err != nil {
		m.log.Error("the service manager is not told that the service is alive: the sandboxes cannot be listed", "error", err.Error())
		return
	}
	m.tell(daemon.SdNotifyWatchdog)
}
