package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service"
)

// mainJob is the session, and the job in it, that is a main process.
const mainJob = "main"

// jobs returns the jobs among which a main process is.
func jobs(in *service.Inside) ops.Jobs { return in.Jobs(mainJob) }

// gone reports whether the error of a look at a main process says that it has ended: it, or its
// sandbox, is not there any more. Another error, as of a caller who did not wait, says nothing.
func gone(err error) bool {
	return errors.Is(err, runtime.ErrNotFound) || errors.Is(err, runtime.ErrConflict)
}

// startGrace is how long a main process may take to begin.
const startGrace = time.Minute

// starting reports whether another call may be starting the main process, which is not there yet.
func (c *Container) starting() bool { return time.Since(c.Started) < startGrace && c.Holder.alive() }

// exitOf returns how a container's main process has ended; running: it has not, as far as is known.
func (e *Engine) exitOf(ctx context.Context, caller service.Caller, c *Container) (exit Exit, running bool) {
	exit = Exit{lost, time.Now()}
	if c.record.Exit != nil {
		return *c.record.Exit, false
	}
	in, err := e.service.Inside(ctx, caller, c.Sandbox.ID)
	if err != nil {
		return exit, !gone(err)
	}
	switch c.Kind {
	case byHolder:
		return exit, c.Holder.alive()
	case byTerminal:
		s, err := in.Session(ctx, c.Session)
		if err != nil || s.Terminal != nil {
			return exit, !gone(err) || c.starting()
		}
		if r, err := terminalEnd(ctx, in, c.Session); err == nil {
			exit.Code = codeOf(&r)
		}
	case byJob:
		j, err := jobs(in).Get(ctx, mainJob)
		if err != nil || j.EndedAt.IsZero() {
			return exit, !gone(err) || c.starting()
		}
		exit.At = j.EndedAt
		if j.ExitCode != nil {
			exit.Code = *j.ExitCode
		}
	}
	return exit, false
}

// codeOf returns the exit code of a result as docker has it.
func codeOf(r *runtime.Result) int {
	if r.Signal != 0 {
		return 128 + int(r.Signal)
	}
	return r.ExitCode
}

// terminalEnd waits for the end of a terminal's program.
func terminalEnd(ctx context.Context, in *service.Inside, session string) (runtime.Result, error) {
	t, err := in.View(ctx, session, &runtime.AttachRequest{Offset: runtime.FromEnd})
	if err != nil {
		return runtime.Result{}, err
	}
	defer t.Close()
	defer context.AfterFunc(ctx, func() { _ = t.Close() })()
	return ops.Follow(ctx, t, discard, discard)
}

// finish records how a main process has ended, and removes a container that is to be removed then.
func (e *Engine) finish(ctx context.Context, caller service.Caller, c *Container, exit Exit) {
	ctx = context.WithoutCancel(ctx)
	first := false
	err := e.change(ctx, caller, c, func(r *record) error {
		if first = r.Exit == nil && r.Started.Equal(c.Started); first {
			r.Exit = &exit
		}
		return nil
	})
	if first {
		e.events.tell("die", c, map[string]string{"exitCode": strconv.Itoa(exit.Code)})
	}
	m := e.main(c.Sandbox.ID) // destroy forgets it
	if m != nil {
		m.settle(exit.Code)
	}
	if c.HostConfig.AutoRemove {
		_ = e.destroy(ctx, caller, c, true)
	}
	if m != nil && isClosed(m.started) {
		m.end(exit.Code)
	}
	if errors.Is(err, runtime.ErrNotFound) { // another process has removed it
		e.drop(c.Sandbox.ID)
	}
}

// change changes the record of a container.
func (e *Engine) change(ctx context.Context, caller service.Caller, c *Container, edit func(*record) error) error {
	return e.service.ChangeRecord(ctx, caller, c.Sandbox.ID, func(labels map[string]string) error {
		r := recordOf(labels)
		if r == nil {
			return runtime.Errorf(runtime.ErrConflict, "container %s has lost its record", c.ID())
		}
		if err := edit(r); err != nil {
			return err
		}
		c.record = *r
		return r.put(labels)
	})
}

// claim makes a container one that runs, before its main process begins; another caller cannot
// then. A container that runs is [runtime.ErrExists].
func (e *Engine) claim(ctx context.Context, caller service.Caller, c *Container, by kind) error {
	if c.State == Running {
		return errRunning
	}
	id, was := c.Sandbox.ID, c.Started
	if c.State == Exited && c.Sandbox.State == runtime.StateRunning { // nothing of the last run stays
		if err := e.service.Stop(ctx, caller, id); err != nil && !errors.Is(err, runtime.ErrConflict) {
			return err
		}
	}
	if c.State == Exited || c.Sandbox.State != runtime.StateRunning {
		if err := e.service.Start(ctx, caller, id); err != nil && !errors.Is(err, runtime.ErrConflict) {
			return err
		}
	}
	return e.change(ctx, caller, c, func(r *record) error {
		if !r.Started.Equal(was) {
			return errRunning
		}
		r.Started, r.Exit, r.Kind, r.Session, r.Holder = time.Now().Round(0), nil, by, "", self()
		return nil
	})
}

var errRunning = runtime.Errorf(runtime.ErrExists, "the container is already running")

// words returns a command as the words of a shell's line.
func words(command []string) string {
	quoted := make([]string, len(command))
	for n, w := range command {
		quoted[n] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// Start starts a container's main process, which outlives the caller. A container that runs already
// is [runtime.ErrExists]. A program that certainly does not exist is a [*runtime.StartError].
func (e *Engine) Start(ctx context.Context, caller service.Caller, c *Container) (err error) {
	by := byJob
	m := e.main(c.Sandbox.ID)
	switch {
	case m != nil && m.awaited():
		by = byHolder
	case c.Tty:
		by = byTerminal
	case c.OpenStdin && e.opts.Own:
		return runtime.Errorf(runtime.ErrUnsupported,
			"a container with standard input and without a terminal runs attached only: add -t, or leave -i or -d out")
	case c.OpenStdin:
		by = byHolder
	}
	if err := e.claim(ctx, caller, c, by); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			e.finish(ctx, caller, c, Exit{StartCode(err), time.Now()})
			e.drop(c.Sandbox.ID)
		}
	}()
	in, err := e.service.Inside(ctx, caller, c.Sandbox.ID)
	if err != nil {
		return err
	}
	if by == byHolder {
		return e.startHeld(ctx, caller, c, in)
	}
	if err := findProgram(ctx, in, c.Argv[0]); err != nil {
		return err
	}
	line := "exec " + words(c.Argv)
	if by == byTerminal {
		err = e.startTerminal(ctx, caller, c, in, line)
	} else {
		_, err = jobs(in).Start(ctx, mainJob, &runtime.Command{Command: []string{line}})
	}
	if err == nil {
		e.events.tell("start", c, nil)
		if m != nil {
			m.begin(nil)
		}
		if !e.opts.Own {
			e.watch(caller, c)
		}
	}
	return err
}

// startTerminal starts a main process at the terminal of a session.
func (e *Engine) startTerminal(ctx context.Context, caller service.Caller, c *Container, in *service.Inside,
	line string,
) error {
	session, err := in.CreateTerminal(ctx, "", line)
	if err != nil {
		return err
	}
	if err := e.change(ctx, caller, c, func(r *record) error { r.Session = session; return nil }); err != nil {
		return err
	}
	t, err := in.View(ctx, session, &runtime.AttachRequest{Rows: 24, Cols: 80})
	if err != nil {
		return err
	}
	return t.Close()
}

// StartCode returns docker's exit code for the error of a start: 126, 127, or 125 if the program is
// not why.
func StartCode(err error) int {
	if failed, ok := errors.AsType[*runtime.StartError](err); ok {
		return failed.Code
	}
	return 125
}

// StartError returns the error of a start in docker's words, from which its command line takes the
// exit code.
func StartError(err error) error {
	failed, is := errors.AsType[*runtime.StartError](err)
	if !is {
		return err
	}
	own := *failed
	program := strings.TrimSuffix(strings.TrimPrefix(own.Message, "exec: "), ": not found")
	switch {
	case own.Code == 127 && !strings.Contains(own.Message, "executable file not found"):
		own.Message = "exec: " + program + ": executable file not found in $PATH"
	case own.Code == 126 && !strings.Contains(own.Message, "permission denied"):
		own.Message = "exec: " + own.Message + ": permission denied"
	}
	return &own
}

// findProgram returns an error if a sandbox certainly does not have a program.
func findProgram(ctx context.Context, in *service.Inside, program string) error {
	r, err := in.Exec(ctx, &runtime.Command{
		Command: []string{"sh", "-c", `command -v -- "$1"`, "sh", program},
		Timeout: startLimit,
	})
	if _, is := errors.AsType[*runtime.StartError](err); is {
		return runtime.Errorf(runtime.ErrUnsupported,
			"the image has no shell sh: a container that no client is attached to needs one: run it attached, without -d")
	}
	if err == nil && (r.ExitCode == 1 || r.ExitCode == 127) {
		return &runtime.StartError{
			Code:    127,
			Message: "exec: " + strconv.Quote(program) + ": executable file not found in $PATH",
		}
	}
	return nil
}

// startLimit bounds a look into a sandbox.
const startLimit = 10 * time.Second

// Hold records that this process starts the main process itself, as a command of the sandbox. done,
// which is called once, records its end.
func (e *Engine) Hold(ctx context.Context, caller service.Caller, c *Container) (done func(code int), err error) {
	if err := e.claim(ctx, caller, c, byHolder); err != nil {
		return nil, err
	}
	e.events.tell("start", c, nil)
	return func(code int) { e.finish(ctx, caller, c, Exit{code, time.Now()}) }, nil
}

// Wait waits until a container's main process has ended, and returns its exit code. A container
// that does not run has ended.
func (e *Engine) Wait(ctx context.Context, caller service.Caller, c *Container) (int, error) {
	switch c.State {
	case Exited:
		return c.Exit.Code, nil
	case Created:
		return 0, nil
	}
	in, err := e.service.Inside(ctx, caller, c.Sandbox.ID)
	if err != nil {
		return lost, nil
	}
	var r runtime.Result
	switch c.Kind {
	case byHolder:
		if m := e.main(c.Sandbox.ID); m != nil {
			return m.wait(ctx)
		}
		return 0, runtime.Errorf(runtime.ErrUnsupported,
			"container %s is attached to another client, which gets its exit code", c.ID())
	case byTerminal:
		r, err = terminalEnd(ctx, in, c.Session)
	default:
		_, err = jobs(in).Runtime.WaitJob(ctx, jobs(in).Session, mainJob)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	exit := Exit{codeOf(&r), time.Now()}
	if c.Kind == byJob || err != nil {
		var running bool
		if exit, running = e.exitOf(ctx, caller, c); running {
			return 0, runtime.Errorf(runtime.ErrUnavailable,
				"container %s is being started, or cannot be asked: try again: %w", c.ID(), err)
		}
	}
	e.finish(ctx, caller, c, exit)
	return exit.Code, nil
}

// Signal sends a signal, such as KILL, to the processes of a container's main process.
func (e *Engine) Signal(ctx context.Context, caller service.Caller, c *Container, sig syscall.Signal) error {
	in, err := e.Running(ctx, caller, c)
	if err != nil {
		return err
	}
	e.events.tell("kill", c, map[string]string{"signal": strconv.Itoa(int(sig))})
	switch c.Kind {
	case byHolder:
		p, err := e.process(c)
		if err == nil && p == nil { // its client ends with it
			return e.service.Stop(ctx, caller, c.Sandbox.ID)
		}
		if err != nil {
			return err
		}
		return p.Signal(sig)
	case byTerminal:
		t, err := in.View(ctx, c.Session, &runtime.AttachRequest{Offset: runtime.FromEnd})
		if err != nil {
			return err
		}
		defer t.Close()
		return t.Signal(sig)
	}
	return jobs(in).Runtime.SignalJob(ctx, jobs(in).Session, mainJob, sig)
}

// stopTimeout is how long a main process may take to end after docker's stop.
const stopTimeout = 10 * time.Second

// Stop ends a container's main process: by its stop signal, and after the time-out by SIGKILL.
// limit nil: the container's own. One that does not run is left as it is.
func (e *Engine) Stop(ctx context.Context, caller service.Caller, c *Container, limit *time.Duration) error {
	if c.State != Running {
		return nil
	}
	sig := syscall.SIGTERM
	if s := signalOf(c.StopSignal); s != 0 {
		sig = s
	}
	patience := stopTimeout
	switch {
	case limit != nil:
		patience = *limit
	case c.StopTimeout != nil:
		patience = time.Duration(*c.StopTimeout) * time.Second
	}
	if err := e.Signal(ctx, caller, c, sig); err != nil && !errors.Is(err, runtime.ErrConflict) &&
		!errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if patience >= 0 { // else it waits for ever
		waiting, cancel = context.WithTimeout(ctx, patience)
	}
	_, err := e.Wait(waiting, caller, c)
	cancel()
	if err != nil && ctx.Err() == nil {
		err = e.Kill(ctx, caller, c)
	}
	if err == nil {
		e.events.tell("stop", c, nil)
	}
	return err
}

// Kill ends a container's main process by SIGKILL, and waits for the end.
func (e *Engine) Kill(ctx context.Context, caller service.Caller, c *Container) error {
	if err := e.Signal(ctx, caller, c, syscall.SIGKILL); err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	_, err := e.Wait(ctx, caller, c)
	return err
}

// signalOf returns the signal of a name or number; 0: unknown, or none.
func signalOf(name string) syscall.Signal {
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n < 65 {
		return syscall.Signal(n)
	}
	if name == "" {
		return 0
	}
	return ops.Signal(name)
}

// SignalNamed sends the signal of a name or number, as docker kill does: empty is SIGKILL, which
// waits for the end.
func (e *Engine) SignalNamed(ctx context.Context, caller service.Caller, c *Container, name string) error {
	switch sig := signalOf(cmp.Or(name, "KILL")); sig {
	case 0:
		return invalid("invalid signal: %s", name)
	case syscall.SIGKILL:
		return e.Kill(ctx, caller, c)
	default:
		return e.Signal(ctx, caller, c, sig)
	}
}

// Background runs a command in a running container without a client. Its output is not kept.
func Background(ctx context.Context, in *service.Inside, cmd *runtime.Command) error {
	own := *cmd
	own.Command, own.OpenStdin, own.TTY, own.User = []string{"exec " + words(cmd.Command) + " >/dev/null 2>&1"},
		false, false, ""
	list := in.Jobs("exec")
	if cmd.User != "" { // a session has one user
		list = in.Jobs(fmt.Sprintf("exec-%.30x", cmd.User))
		list.User = cmd.User
	}
	_, err := list.Start(ctx, "", &own)
	return err
}
