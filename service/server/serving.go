package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"wolffia/runtime"
)

// A serving is what a server accepts from, and what it has accepted. The zero value is ready.
type serving struct {
	accepting sync.RWMutex // held to read by Serve

	mu      sync.Mutex
	stopped bool // no listener is added any more
	from    map[net.Listener]struct{}
	busy    map[net.Conn]struct{} // connections that have a request, or have yet to send the first
	quiet   chan struct{}         // closed when busy is empty; nil: no call waits
}

// add adds a listener, unless the server stops.
func (a *serving) add(l net.Listener) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return false
	}
	if a.from == nil {
		a.from = map[net.Listener]struct{}{}
	}
	a.from[l] = struct{}{}
	return true
}

func (a *serving) stopping() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}

// note notes the state of a connection, for [http.Server.ConnState].
func (a *serving) note(c net.Conn, state http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if state == http.StateNew || state == http.StateActive {
		if a.busy == nil {
			a.busy = map[net.Conn]struct{}{}
		}
		a.busy[c] = struct{}{}
		return
	}
	delete(a.busy, c)
	if len(a.busy) == 0 && a.quiet != nil {
		close(a.quiet)
		a.quiet = nil
	}
}

// refuse accepts no more connections. Those that no server has accepted stay in the queue of a socket that others
// keep. It returns when what is accepted is noted.
func (a *serving) refuse() error {
	a.mu.Lock()
	a.stopped = true
	var err error
	for l := range a.from {
		err = errors.Join(err, l.Close())
	}
	a.from = nil
	a.mu.Unlock()
	a.accepting.Lock()
	defer a.accepting.Unlock()
	return err
}

// drained returns a channel that is closed when no connection is busy.
func (a *serving) drained() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	quiet := make(chan struct{})
	if len(a.busy) == 0 {
		close(quiet)
	} else {
		a.quiet = quiet
	}
	return quiet
}

// Serve accepts connections on l until Stop or Close; then it returns nil. It closes
// l.
func (s *Server) Serve(l net.Listener) error {
	s.at.accepting.RLock()
	defer s.at.accepting.RUnlock()
	if !s.at.add(l) {
		return l.Close()
	}
	err := s.http.Serve(l)
	if s.at.stopping() && (errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed)) {
		return nil
	}
	return err
}

// cutLimit is how long requests may take to end after their contexts are canceled.
const cutLimit = 5 * time.Second

// Stop accepts no more connections, and returns when all requests on the accepted ones have ended.
// After grace it cancels their contexts, with [ErrStopping] as the cause; the error says
// that some did not end even then. If ctx ends, it does not wait. Sandboxes keep
// running.
func (s *Server) Stop(ctx context.Context, grace time.Duration) error {
	defer s.stop(ErrStopping)
	gentle, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := s.at.refuse()
	if s.opts.Agents != nil {
		s.opts.Agents.Drain()
	}
	if s.opts.Console != nil {
		s.opts.Console.Drain()
	}
	// Shutdown closes connections whose request it has just read: only when none is left may it be called.
	select {
	case <-s.at.drained():
	case <-gentle.Done():
		s.stop(ErrStopping)
	}
	rest, cancel := context.WithTimeout(ctx, cutLimit)
	defer cancel()
	if s.http.Shutdown(rest) != nil {
		return errors.Join(runtime.Errorf(runtime.ErrUnavailable, "requests did not end within %v of being canceled", cutLimit), s.http.Close())
	}
	return err
}

// Close closes all connections at once.
func (s *Server) Close() error {
	s.stop(ErrStopping)
	return errors.Join(s.at.refuse(), s.http.Close())
}
