package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"wolffia/runtime"
	"wolffia/shim"
)

// forwarded are the signals that are passed on to the command.
var forwarded = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}

// attach runs a command with our own standard streams and returns how it
// ended. With a terminal, that is put into raw mode for the time, so that every
// key reaches the command.
func (a *app) attach(ctx context.Context, rt *shim.Runtime, id string, spec *runtime.ProcessSpec) (runtime.Exit, error) {
	// From here on signals are the command's.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	ctx = context.WithoutCancel(ctx)

	if spec.TTY {
		cols, rows, err := term.GetSize(int(a.out.Fd()))
		if err == nil {
			spec.Rows, spec.Cols = uint16(rows), uint16(cols)
		}
	}
	p, err := rt.StartProcess(ctx, id, spec)
	if err != nil {
		return runtime.Exit{}, err
	}
	defer p.Close()
	if spec.TTY {
		restore, err := a.rawMode(p)
		if err != nil {
			return runtime.Exit{}, err
		}
		defer restore()
	}
	go func() { // ends with the program
		for sig := range signals {
			_ = p.Signal(sig.(syscall.Signal))
		}
	}()
	if spec.Stdin {
		go func() { // ends with the input, or with the program
			_, _ = io.Copy(p.Stdin(), a.in)
			_ = p.Stdin().Close()
		}()
	}
	var copying sync.WaitGroup
	var lost [2]error
	for i, c := range []struct {
		to   io.Writer
		from io.Reader
	}{{a.out, p.Stdout()}, {a.err, p.Stderr()}} {
		copying.Go(func() {
			if _, lost[i] = io.Copy(c.to, c.from); lost[i] != nil {
				_ = p.Close() // a full disk: else the command would wait for us
			}
		})
	}
	exit, err := p.Wait(ctx)
	copying.Wait()
	if failed := errors.Join(lost[:]...); failed != nil {
		return runtime.Exit{}, runtime.Errorf(runtime.ErrUnavailable, "the command's output: %w", failed)
	}
	if exit.OutOfMemory {
		a.warn("the sandbox's limit of memory was reached, and the kernel killed for it")
	}
	return exit, err
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

// A commandResult is what --json prints of a command.
type commandResult struct {
	SandboxID     string `json:"sandboxId"`
	ExitCode      int    `json:"exitCode"`
	Signal        int    `json:"signal"`
	TimedOut      bool   `json:"timedOut"`
	Stdout        string `json:"stdout"`
	Stderr        string `json:"stderr"`
	StdoutDropped int64  `json:"stdoutDropped"`
	StderrDropped int64  `json:"stderrDropped"`
	DurationMS    int64  `json:"durationMs"`
	// OutOfMemory says that it failed, and that the kernel had killed for --memory.
	OutOfMemory bool `json:"outOfMemory,omitempty"`
	// Limits says what keeps the limits of a new sandbox, for run.
	Limits *runtime.LimitsState `json:"limits,omitempty"`
	// StartError says why there was nothing to run; then ExitCode is 125 to 127.
	StartError string `json:"startError,omitempty"`
	// Session says what became of the session, for exec --session.
	Session *runtime.SessionStatus `json:"session,omitempty"`
}

// execJSON runs a command to its end and prints the whole result.
func (a *app) execJSON(id string, limits *runtime.LimitsState, run func() (*runtime.ExecResult, error)) error {
	begin := time.Now()
	res, err := run()
	out := commandResult{SandboxID: id, Limits: limits, DurationMS: time.Since(begin).Milliseconds()}
	if failed, ok := asStartError(err); ok {
		out.ExitCode, out.StartError = failed.Code, failed.Message
	} else if err != nil {
		return err
	} else {
		out = commandResult{
			SandboxID: id, ExitCode: res.ExitCode, Signal: int(res.Signal), TimedOut: res.TimedOut,
			Stdout: string(res.Stdout), Stderr: string(res.Stderr),
			StdoutDropped: res.StdoutDropped, StderrDropped: res.StderrDropped,
			DurationMS: res.Duration.Milliseconds(), Session: res.Session,
			OutOfMemory: res.OutOfMemory, Limits: limits,
		}
	}
	if err := json.NewEncoder(a.out).Encode(out); err != nil {
		return err
	}
	if out.StartError != "" {
		return exitStatus{out.ExitCode}
	}
	return statusOf(runtime.Exit{Code: res.ExitCode, TimedOut: res.TimedOut})
}
