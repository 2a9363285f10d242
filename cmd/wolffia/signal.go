package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stops are the signals that end a command line in order.
var stops = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP}

// attended returns the signals that this process was not started to ignore. Nohup(1)
// makes it ignore SIGHUP, and a shell SIGINT for what it runs in the background.
func attended(signals ...os.Signal) []os.Signal {
	var heeded []os.Signal
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			heeded = append(heeded, sig)
		}
	}
	return heeded
}

// notify sends the attended ones of signals to c, until stop is called.
func notify(c chan<- os.Signal, signals ...os.Signal) (stop func()) {
	if heeded := attended(signals...); len(heeded) > 0 { // none would mean all
		signal.Notify(c, heeded...)
	}
	return func() { signal.Stop(c) }
}

// A signaled is the cause of the end of a context that a signal has ended.
type signaled struct{ syscall.Signal }

func (s signaled) Error() string { return s.String() }

// untilSignal returns a context that ends with a [signaled] as its cause when one of
// the signals comes.
func untilSignal(ctx context.Context, signals ...os.Signal) (_ context.Context, stop func()) {
	came := make(chan os.Signal, 1)
	silence := notify(came, signals...)
	ctx, h := newHeed(ctx, came)
	return ctx, func() {
		silence()
		close(came)
		h.end(context.Canceled)
	}
}

// A heed is what becomes of the signals that stop a command line: each ends its context and, from the moment on at which somebody
// takes them, goes there too.
type heed struct {
	end context.CancelCauseFunc

	mu sync.Mutex
	to chan<- os.Signal // nil: nobody takes them; guarded by mu
}

// newHeed returns a context that ends with a [signaled] as its cause when a signal comes, and what hands the signals on.
func newHeed(ctx context.Context, came <-chan os.Signal) (context.Context, *heed) {
	ctx, end := context.WithCancelCause(ctx)
	h := &heed{end: end}
	go func() { // ends when came is closed, or with the program
		for sig := range came {
			h.handle(sig)
		}
	}()
	return ctx, h
}

func (h *heed) handle(sig os.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(signaled{sig.(syscall.Signal)})
	select {
	case h.to <- sig:
	default: // nobody takes it, or it is one of very many
	}
}

// take has all signals from now on go to c as well, or returns the error of ctx if one has come before: none is lost between.
func (h *heed) take(ctx context.Context, c chan<- os.Signal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.to = c
	return ctx.Err()
}

// signalCode is the exit code for the end by sig, as shells have it.
func signalCode(sig syscall.Signal) int { return 128 + int(sig) }

// codeOf is the exit code if a signal has ended ctx.
func codeOf(ctx context.Context) (code int, is bool) {
	var s signaled
	if !errors.As(context.Cause(ctx), &s) {
		return 0, false
	}
	return signalCode(s.Signal), true
}

// A verdict is what happens to a signal that arrives while a command runs.
type verdict int

const (
	ignored verdict = iota
	passed          // the command gets it
	warned          // the command gets it, and the next one ends us
	givenUp         // the command is ended as if we were gone, and we wait for that
	leaving         // we end at once, and the sandbox ends the command
)

const (
	// sameEvent is how long a second SIGTERM or SIGHUP counts as the first: timeout(1)
	// sends two, and so do a shell and the kernel when a terminal is closed.
	sameEvent = time.Second
	// impatient is the time within which the third SIGINT means us: a person reads what the
	// second one prints.
	impatient = 5 * time.Second
	// giveUpLimit is how long what was given up may take to end: the guest takes 2.5 s,
	// on a host that lets it run.
	giveUpLimit = 10 * time.Second
)

// A patience decides what becomes of signals while a command runs. The rest of a
// session's text must not run when its caller has to end, whatever the program in
// the foreground does with a signal; any other program is the whole command, and gets
// the signal itself.
type patience struct {
	session bool // the command is a text in a session
	started bool // there is a command to pass signals to
	gaveUp  bool
	first   time.Time    // when the first SIGTERM or SIGHUP came; zero: none has
	presses [2]time.Time // when the last SIGINTs came, the older one first
}

// decide says what becomes of a signal that has come now.
func (p *patience) decide(sig syscall.Signal, now time.Time) verdict {
	switch sig {
	case unix.SIGTERM, unix.SIGHUP:
		before := p.first
		switch {
		case before.IsZero() && !p.gaveUp:
			p.first = now
			if !p.session && p.started {
				return passed
			}
		case before.IsZero(), now.Sub(before) >= sameEvent:
			return leaving
		case p.gaveUp:
			return ignored
		default:
			return passed
		}
	case unix.SIGINT:
		older := p.presses[0]
		p.presses = [2]time.Time{p.presses[1], now}
		switch {
		case p.gaveUp, !older.IsZero() && now.Sub(older) < impatient:
			return leaving
		case p.started && !p.presses[0].IsZero() && now.Sub(p.presses[0]) < impatient:
			return warned
		case p.started:
			return passed
		}
	case unix.SIGQUIT:
		switch {
		case p.gaveUp:
			return leaving
		case p.started:
			return passed
		}
	default:
		return passed
	}
	p.gaveUp = true
	return givenUp
}
