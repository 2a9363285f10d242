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

// A manager is the service manager that has started this process: systemd, or none. It may be slow to read what it is
// told, or not read it at all: only close waits for it.
type manager struct {
	log   *slog.Logger
	ping  <-chan time.Time // when alive is due; nil: never
	each  time.Duration
	news  chan string   // what it is to be told
	ended chan struct{} // it has been told
}

// newManager returns the manager. The caller closes it.
func newManager(log *slog.Logger) *manager {
	m := &manager{log: log, news: make(chan string, 16), ended: make(chan struct{})}
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("WATCHDOG_USEC of the service manager cannot be read: it is not told that the service is alive", "error", err.Error())
	}
	if limit > 0 {
		m.each = limit / 2
		m.ping = time.Tick(m.each)
	}
	go m.send() // ends with close, or the process
	return m
}

// send tells the manager what is new. Without a manager it does nothing.
func (m *manager) send() {
	defer close(m.ended)
	for state := range m.news {
		if _, err := daemon.SdNotify(false, state); err != nil {
			m.log.Warn("cannot notify the service manager", "error", err.Error())
		}
	}
}

// tell tells the manager a state.
func (m *manager) tell(state string) {
	select {
	case m.news <- state:
	default:
		m.log.Warn("the service manager does not read what it is told", "state", state)
	}
}

// close waits a moment until the manager has been told all.
func (m *manager) close() {
	close(m.news)
	select {
	case <-m.ended:
	case <-time.After(time.Second):
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
