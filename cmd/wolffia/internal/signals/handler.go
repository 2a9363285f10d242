// Package signals has signals end a command line in order.
package signals

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"wolffia/cmd/wolffia/internal/console"

	"golang.org/x/sys/unix"
)

// Stops are the signals that end a command line in order.
var Stops = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP}

// attended returns the signals that this process was not started to ignore. Nohup(1)
// makes it ignore SIGHUP, and a shell SIGINT for what it runs in the background.
func attended(signals ...os.Signal) []os.Signal {
	var handled []os.Signal
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			handled = append(handled, sig)
		}
	}
	return handled
}

// Notify sends the attended ones of signals to c, until stop is called.
func Notify(c chan<- os.Signal, signals ...os.Signal) (stop func()) {
	if handled := attended(signals...); len(handled) > 0 { // none would mean all
		signal.Notify(c, handled...)
	}
	return func() { signal.Stop(c) }
}

// A signaled is the cause of the end of a context that a signal has ended.
type signaled struct{ syscall.Signal }

func (s signaled) Error() string { return s.String() }

// UntilSignal returns a context that ends with a [signaled] as its cause when one of
// the signals comes.
func UntilSignal(ctx context.Context, signals ...os.Signal) (_ context.Context, stop func()) {
	came := make(chan os.Signal, 1)
	silence := Notify(came, signals...)
	ctx, h := newHandler(ctx, came)
	return ctx, func() {
		silence()
		close(came)
		h.End(context.Canceled)
	}
}

// A Handler handles the signals that stop a command line. Each ends the Handler's context and,
// after Forward, goes to a channel too.
type Handler struct {
	End   context.CancelCauseFunc
	ready sync.WaitGroup // until signals end the context

	mu sync.Mutex
	to chan<- os.Signal // set by Forward, or nil; guarded by mu
}

// Watch returns a context that ends with a [signaled] as its cause when one of Stops comes, and
// the Handler of the signals. It does not wait until they are handled: see [Handler.Wait].
func Watch(ctx context.Context) (context.Context, *Handler) {
	came := make(chan os.Signal, 16)
	ctx, h := newHandler(ctx, came)
	// a third of a millisecond: Go's runtime changes threads four times for each
	h.ready.Go(func() { Notify(came, Stops...) })
	return ctx, h
}

// Wait waits until signals end the context. A nil Handler does not wait.
func (h *Handler) Wait() {
	if h != nil {
		h.ready.Wait()
	}
}

// newHandler returns a context that ends with a [signaled] as its cause when a signal comes, and
// the Handler of the signals.
func newHandler(ctx context.Context, came <-chan os.Signal) (context.Context, *Handler) {
	ctx, end := context.WithCancelCause(ctx)
	h := &Handler{End: end}
	go func() { // ends when came is closed, or with the program
		for sig := range came {
			h.handle(sig)
		}
	}()
	return ctx, h
}

func (h *Handler) handle(sig os.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.End(signaled{sig.(syscall.Signal)})
	select {
	case h.to <- sig:
	default: // no receiver, or its channel is full
	}
}

// Forward sends all signals from now on to c as well. It returns the error of ctx if one has come
// before, so that none is lost between.
func (h *Handler) Forward(ctx context.Context, c chan<- os.Signal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.to = c
	return ctx.Err()
}

// CodeOf is the exit code if a signal has ended ctx.
func CodeOf(ctx context.Context) (code int, is bool) {
	var s signaled
	if !errors.As(context.Cause(ctx), &s) {
		return 0, false
	}
	return console.SignalCode(s.Signal), true
}
