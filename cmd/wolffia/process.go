package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"wolffia/internal/feed"
	"wolffia/local"
	"wolffia/ops"
	"wolffia/runtime"
)

// forwarded are the signals that are passed on to the command beside [stops]; see [patience].
var forwarded = []os.Signal{unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}

// attach runs a command with our standard input, if spec asks for input, and returns
// how it ended. With a terminal, that is put into raw mode for the time, so that every
// key reaches the command. If a signal has us give the command up, the exit is that
// signal's. It returns also if nothing answers, after the signals that patience asks for:
// the error is then an exitStatus, and stdout and stderr may still be written to.
func (a *app) attach(ctx context.Context, rt *local.Runtime, id string, spec *runtime.Command, stdout, stderr io.Writer) (runtime.Result, error) {
	a.heeding.Wait()
	// From here on signals are the command's.
	signals := make(chan os.Signal, 16)
	if err := a.heed.take(ctx, signals); err != nil {
		return runtime.Result{}, err
	}
	var catching sync.WaitGroup
	catching.Go(func() { notify(signals, forwarded...) }) // beside the start: see run
	// To let go of them takes as long, and mostly wolffia ends now.
	defer time.AfterFunc(time.Second, func() {
		catching.Wait()
		signal.Stop(signals)
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if spec.TTY {
		cols, rows, err := term.GetSize(int(a.out.Fd()))
		if err == nil {
			spec.Rows, spec.Cols = uint16(rows), uint16(cols)
		}
	}

	started := make(chan runtime.Process, 1)
	ended := make(chan ending, 1)
	go func() { // ends with the request, or with the program
		p, err := rt.StartProcess(ctx, id, spec)
		if err != nil {
			ended <- ending{err: err}
			return
		}
		started <- p
	}()
	var p runtime.Process
	will := patience{session: spec.Session != ""}
	var cause syscall.Signal // of our giving up
	var limit <-chan time.Time
	pass := func(syscall.Signal) {}
	for {
		select {
		case p = <-started:
			will.started = true
			if will.gaveUp {
				go p.Close()
			}
			if spec.TTY {
				restore, err := a.rawMode(p)
				if err != nil {
					_ = p.Close()
					return runtime.Result{}, err
				}
				defer restore()
			}
			pass = passer(p)
			go func() { ended <- a.join(p, spec, signals, stdout, stderr) }() // ends with the command, or with the program
		case end := <-ended:
			if will.gaveUp {
				return runtime.Result{ExitCode: signalCode(cause), Signal: cause, Session: end.Session}, nil
			}
			return end.Result, end.err
		case s := <-signals:
			sig := s.(syscall.Signal)
			switch will.decide(sig, time.Now()) {
			case warned:
				if !spec.TTY { // else the keys go to the command
					fmt.Fprintln(a.err, "wolffia: the command runs on: press ctrl-c again to end it")
				}
				pass(sig)
			case passed:
				pass(sig)
				if sig == unix.SIGHUP && spec.TTY {
					cause, limit = sig, time.After(giveUpLimit)
				}
			case givenUp:
				cause, limit = sig, time.After(giveUpLimit)
				cancel()
				if p != nil {
					go p.Close() // it may wait for a shim that does not read
				}
			case leaving:
				return runtime.Result{}, a.left(sig)
			}
		case <-limit:
			a.warn("the command did not end within %v: wolffia exits, and the sandbox ends the command", giveUpLimit)
			return runtime.Result{}, a.left(cause)
		}
	}
}

// left is the result of attach when it gives up waiting for the command. It closes
// nothing, since that could block as well: the end of this process does it.
func (a *app) left(sig syscall.Signal) error {
	a.closers = nil
	return exitStatus{signalCode(sig)}
}

// passer returns what passes signals on to a process, in order, and does not wait.
func passer(p runtime.Process) func(syscall.Signal) {
	queue := make(chan syscall.Signal, 16)
	go func() { // ends with the program
		for sig := range queue {
			_ = p.Signal(sig)
		}
	}()
	return func(sig syscall.Signal) {
		select {
		case queue <- sig:
		default: // the sandbox takes none of them
		}
	}
}

// An ending is how a command has ended, or why that is not known.
type ending struct {
	runtime.Result
	err error
}

// join joins a command's streams with ours until it has ended. A terminal of ours that
// is closed is a SIGHUP among signals.
func (a *app) join(p runtime.Process, spec *runtime.Command, signals chan<- os.Signal, stdout, stderr io.Writer) ending {
	over := make(chan struct{})
	defer close(over)
	hangUp := func() {
		select {
		case signals <- unix.SIGHUP:
		default: // others come
		}
	}
	unread := func() error { return nil }
	switch {
	case spec.TTY:
		go typing(p.Stdin(), &typist{keys: a.keys(), over: over}, over, hangUp) // ends with the terminal, or with the command
	case spec.OpenStdin:
		unread = feed.Start(p.Stdin(), a.input(over), func() { _ = p.Close() })
	}
	pass := func(to io.Writer) ops.Sink {
		return func(from io.Reader) error {
			_, err := io.Copy(to, from)
			switch {
			case err == nil:
				return nil
			case spec.TTY:
				hangUp()
				return ops.To(io.Discard)(from)
			}
			// A full disk: else the command would wait for us.
			return runtime.Errorf(runtime.ErrUnavailable, "the command's output: %w", err)
		}
	}
	exit, err := ops.Follow(context.Background(), p, pass(stdout), pass(stderr)) // attach bounds the wait
	if failed := unread(); failed != nil {
		err = failed
	}
	return ending{exit, err}
}

// typing passes on what is typed on our terminal, which is in raw mode: its end is that
// of the terminal, and no end of input for the command, which is over when the channel is closed.
func typing(to io.Writer, from io.Reader, over <-chan struct{}, hangUp func()) {
	_, err := io.Copy(to, from)
	select {
	case <-over:
	default:
		if err == nil { // else the command takes no more
			hangUp()
		}
	}
}

// input is our standard input, for a command that is over when the channel is closed.
func (a *app) input(over <-chan struct{}) io.Reader {
	if term.IsTerminal(int(a.in.Fd())) {
		return &typist{keys: a.keys(), over: over}
	}
	return a.in
}

// rawMode hands the terminal over to p: every byte goes there, and its size
// too. The returned function puts it back.
func (a *app) rawMode(p runtime.Process) (restore func(), err error) {
	fd := int(a.in.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, unix.SIGWINCH)
	go func() { // ends with restore
		for range sizes {
			if cols, rows, err := term.GetSize(int(a.out.Fd())); err == nil {
				_ = p.Resize(uint16(rows), uint16(cols))
			}
		}
	}()
	return func() {
		signal.Stop(sizes)
		close(sizes)
		_ = term.Restore(fd, state)
	}, nil
}

// isTerminal reports whether we talk to a person, both ways.
func (a *app) isTerminal() bool {
	return term.IsTerminal(int(a.in.Fd())) && term.IsTerminal(int(a.out.Fd()))
}
