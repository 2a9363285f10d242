package attach

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/signals"
	"wolffia/internal/feed"
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
func (c *Client) attach(ctx context.Context, id string, spec *runtime.Command, stdout, stderr io.Writer) (runtime.Result, error) {
	c.Signals.Wait()
	// From here on signals are the command's.
	came := make(chan os.Signal, 16)
	if err := c.Signals.Forward(ctx, came); err != nil {
		return runtime.Result{}, err
	}
	var catching sync.WaitGroup
	catching.Go(func() { signals.Notify(came, forwarded...) }) // beside the start: see run
	// To let go of them takes as long, and mostly wolffia ends now.
	defer time.AfterFunc(time.Second, func() {
		catching.Wait()
		signal.Stop(came)
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if spec.TTY {
		if rows, cols, err := c.Size(); err == nil {
			spec.Rows, spec.Cols = rows, cols
		}
	}

	started := make(chan runtime.Process, 1)
	ended := make(chan ending, 1)
	go func() { // ends with the request, or with the program
		p, err := c.rt.StartProcess(ctx, id, spec)
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
				restore, err := c.RawMode(p.Resize)
				if err != nil {
					_ = p.Close()
					return runtime.Result{}, err
				}
				defer restore()
			}
			pass = passer(p)
			// ends with the command, or with the program
			go func() { ended <- c.join(p, spec, came, stdout, stderr) }()
		case end := <-ended:
			if will.gaveUp {
				return runtime.Result{ExitCode: console.SignalCode(cause), Signal: cause, Session: end.Session}, nil
			}
			return end.Result, end.err
		case s := <-came:
			sig := s.(syscall.Signal)
			switch will.decide(sig, time.Now()) {
			case warned:
				if !spec.TTY { // else the keys go to the command
					c.Say("the command runs on: press ctrl-c again to end it")
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
			case shuttingDown:
				return runtime.Result{}, c.left(sig)
			}
		case <-limit:
			c.Warn("the command did not end within %v: wolffia exits, and the sandbox ends the command", giveUpLimit)
			return runtime.Result{}, c.left(cause)
		}
	}
}

// left is the result of attach when it gives up waiting for the command. It closes
// nothing, since that could block as well: the end of this process does it.
func (c *Client) left(sig syscall.Signal) error {
	c.Abandon()
	return console.ExitStatus(console.SignalCode(sig))
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
func (c *Client) join(p runtime.Process, spec *runtime.Command, came chan<- os.Signal, stdout, stderr io.Writer) ending {
	over := make(chan struct{})
	defer close(over)
	hangUp := func() {
		select {
		case came <- unix.SIGHUP:
		default: // others come
		}
	}
	unread := func() error { return nil }
	switch {
	case spec.TTY:
		// ends with the terminal, or with the command
		go typing(p.Stdin(), c.asks.keys(c.Typist(over)), over, hangUp)
	case spec.OpenStdin:
		unread = feed.Start(p.Stdin(), c.asks.keys(c.Input(over)), func() { _ = p.Close() })
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
	// attach bounds the wait
	exit, err := ops.Follow(context.Background(), p, pass(stdout), pass(stderr))
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
