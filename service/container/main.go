package container

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wolffia/internal/shellword"
	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service"
)

// gone reports whether the error of a look at a main process says that it has ended: it, or its
// sandbox, does not exist any more. Another error, as of a caller who did not wait, says nothing.
func gone(err error) bool {
	return errors.Is(err, runtime.ErrNotFound) || errors.Is(err, runtime.ErrConflict)
}

// startGrace is how long a main process may take to begin.
const startGrace = time.Minute

// starting reports whether another call may be starting the main process, which does not exist
// yet.
func (c *Container) starting() bool { return time.Since(c.Started) < startGrace && c.Holder.alive() }

// exitOf returns how the main process has ended; running: it has not, as far as is known.
func (c *Container) exitOf(ctx context.Context) (exit Exit, running bool) {
	switch {
	case c.record.Exit != nil:
		return *c.record.Exit, false
	case c.Kind == "":
		return Exit{lost, time.Now()}, c.starting()
	}
	if exit, running = c.ended(ctx); !running { // the error may be that of a pause
		b, err := c.engine.service.Get(ctx, everyone, c.Sandbox.ID)
		running = err == nil && standsStill(b)
	}
	return exit, running
}

// ended is exitOf for a main process whose end is not recorded.
func (c *Container) ended(ctx context.Context) (exit Exit, running bool) {
	exit = Exit{lost, time.Now()}
	in, err := c.inside(ctx)
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
		if r, err := c.await(ctx); err == nil {
			exit.Code = CodeOf(&r, nil)
		}
	case byJob:
		j, err := in.Jobs(mainJob).Get(ctx, mainJob)
		if err != nil || j.EndedAt.IsZero() {
			return exit, !gone(err) || c.starting()
		}
		if exit.At = j.EndedAt; j.ExitCode != nil {
			exit.Code = *j.ExitCode
		}
	}
	return exit, false
}

// await waits for the end of a main process.
func (c *Container) await(ctx context.Context) (runtime.Result, error) {
	v, err := c.view(ctx, look{})
	if err != nil {
		return runtime.Result{}, err
	}
	return ops.Follow(ctx, v, discard, discard)
}

// CodeOf returns docker's exit code for a result, or the error that is there instead.
func CodeOf(r *runtime.Result, err error) int {
	if err != nil {
		return StartCode(err)
	}
	if r.Signal != 0 {
		return 128 + int(r.Signal)
	}
	return r.ExitCode
}

// finish records how a main process has ended, and removes a container that is to be removed then.
func (c *Container) finish(ctx context.Context, exit Exit) {
	ctx = context.WithoutCancel(ctx)
	first := false
	err := c.change(ctx, func(r *record) error {
		if first = r.Exit == nil && r.Started.Equal(c.Started); first {
			r.Exit = &exit
		}
		return nil
	})
	if first {
		c.engine.events.tell("die", c, map[string]string{"exitCode": strconv.Itoa(exit.Code)})
	}
	c.engine.mu.Lock()
	m := c.engine.live[c.Sandbox.ID]
	if m != nil && !isClosed(m.started) {
		m = nil // of the next start
	} else if c.HostConfig.AutoRemove || errors.Is(err, runtime.ErrNotFound) { // else its output stays
		delete(c.engine.live, c.Sandbox.ID)
	}
	c.engine.mu.Unlock()
	if c.HostConfig.AutoRemove {
		_ = c.destroy(ctx, true)
	}
	if m != nil {
		m.end(exit.Code)
	}
}

// change changes the record of a container.
func (c *Container) change(ctx context.Context, edit func(*record) error) error {
	return c.engine.service.ChangeRecord(ctx, everyone, c.Sandbox.ID, func(labels map[string]string) error {
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

var errRunning = runtime.Errorf(runtime.ErrExists, "the container is already running")

// claim makes a container one that runs, before its main process begins: no other caller of any
// process can then, nor stop its sandbox. A container that runs is [runtime.ErrExists].
func (c *Container) claim(ctx context.Context, by kind) error {
	switch c.State {
	case Running:
		return errRunning
	case Paused:
		return runtime.Errorf(runtime.ErrConflict, "container %s is paused: unpause it instead", c.ID())
	}
	was, now := c.record, time.Now().Round(0)
	err := c.change(ctx, func(r *record) error {
		if !r.Started.Equal(was.Started) {
			return errRunning
		}
		r.Started, r.Exit, r.Kind, r.Session, r.Holder = now, nil, "", "", self()
		return nil
	})
	if err != nil {
		return err
	}
	failed := c.renew(ctx)
	return errors.Join(failed, c.change(context.WithoutCancel(ctx), func(r *record) error {
		switch {
		case !r.Started.Equal(now) || r.Exit != nil:
			return runtime.Errorf(runtime.ErrConflict, "container %s: its start took too long", c.ID())
		case failed != nil:
			*r = was
		default:
			r.Kind = by
		}
		return nil
	}))
}

// renew has the sandbox run, with nothing of an earlier main process.
func (c *Container) renew(ctx context.Context) error {
	s, id := c.engine.service, c.Sandbox.ID
	if c.State == Exited && c.Sandbox.State.Runs() {
		if err := s.Stop(ctx, everyone, id); err != nil && !errors.Is(err, runtime.ErrConflict) {
			return err
		}
	}
	if c.State == Exited || c.Sandbox.State != runtime.StateRunning {
		if err := s.Start(ctx, everyone, id); err != nil && !errors.Is(err, runtime.ErrConflict) {
			return err
		}
	}
	return nil
}

// Start starts a container's main process. hold nil: the main process outlives the caller.
// Otherwise hold runs it, as its caller's own, and returns its exit code when it has ended, which
// Start waits for. A container that runs already is [runtime.ErrExists], a program that certainly
// does not exist a [*runtime.StartError].
func (c *Container) Start(ctx context.Context, hold func(*runtime.Command) (code int, err error)) (err error) {
	by, m := byJob, c.engine.main(c.Sandbox.ID)
	switch {
	case hold != nil, m.awaited():
		by = byHolder
	case c.Tty:
		by = byTerminal
	case c.OpenStdin && c.engine.opts.Own:
		return runtime.Errorf(runtime.ErrUnsupported,
			"a container with standard input and without a terminal runs attached only: add -t, or leave -i or -d out")
	case c.OpenStdin:
		by = byHolder
	}
	if err := c.claim(ctx, by); err != nil {
		return err
	}
	cmd := &runtime.Command{Command: c.Argv, OpenStdin: c.OpenStdin, TTY: c.Tty}
	if hold != nil {
		c.engine.events.tell("start", c, nil)
		code, err := hold(cmd)
		c.finish(ctx, Exit{code, time.Now()})
		return err
	}
	defer func() {
		if err != nil {
			c.engine.drop(c.Sandbox.ID, StartCode(err))
			c.finish(ctx, Exit{StartCode(err), time.Now()})
		}
	}()
	in, err := c.inside(ctx)
	if err != nil {
		return err
	}
	if by == byHolder {
		return c.hold(ctx, in, cmd)
	}
	if err := findProgram(ctx, in, c.Argv[0]); err != nil {
		return err
	}
	line := "exec " + shellword.Join(c.Argv)
	if by == byTerminal {
		err = c.startTerminal(ctx, in, line)
	} else {
		_, err = in.Jobs(mainJob).Start(ctx, mainJob, &runtime.Command{Command: []string{line}})
	}
	if err == nil {
		if c.engine.events.tell("start", c, nil); m != nil {
			m.begin(nil)
		}
		if !c.engine.opts.Own {
			c.watch()
		}
	}
	return err
}

// hold starts a main process that ends with this process, which keeps its output.
func (c *Container) hold(ctx context.Context, in *service.Inside, cmd *runtime.Command) error {
	began := make(chan struct{})
	cmd.Rows, cmd.Cols, cmd.Started = 24, 80, func(int) { close(began) }
	p, err := in.Start(context.WithoutCancel(ctx), cmd)
	if err != nil {
		return StartError(err)
	}
	m, ended, failed := c.engine.next(c.Sandbox.ID), make(chan struct{}), error(nil)
	exit := Exit{Code: lost}
	go func() { // ends with the process
		defer close(ended)
		var r runtime.Result
		if r, failed = ops.Follow(context.Background(), p, m.take(0), m.take(1)); failed == nil {
			exit.Code = CodeOf(&r, nil)
		}
	}()
	select {
	case <-began:
	case <-ended:
		if failed != nil {
			return StartError(failed)
		}
	}
	m.begin(p)
	c.engine.events.tell("start", c, nil)
	go func() { // ends with the process
		<-ended
		exit.At = time.Now()
		c.finish(context.Background(), exit)
	}()
	return nil
}

// startTerminal starts a main process at the terminal of a session.
func (c *Container) startTerminal(ctx context.Context, in *service.Inside, line string) error {
	session, err := in.CreateTerminal(ctx, "", line)
	if err != nil {
		return err
	}
	if err := c.change(ctx, func(r *record) error { r.Session = session; return nil }); err != nil {
		return err
	}
	t, err := in.View(ctx, session, &runtime.AttachRequest{Rows: 24, Cols: 80})
	if err != nil {
		return err
	}
	return t.Close()
}

// StartCode returns docker's exit code for the error of a start: 126, 127, or 125 if the program
// is not the reason.
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
		Command: []string{"sh", "-c", `command -v -- "$1"`, "sh", program}, Timeout: startLimit,
	})
	if _, is := errors.AsType[*runtime.StartError](err); is {
		return runtime.Errorf(runtime.ErrUnsupported,
			"the image has no shell sh: a container that no client is attached to needs one: run it attached, without -d")
	}
	if err == nil && (r.ExitCode == 1 || r.ExitCode == 127) {
		return StartError(&runtime.StartError{Code: 127, Message: "exec: " + strconv.Quote(program) + ": not found"})
	}
	return nil
}

// startLimit bounds a look into a sandbox.
const startLimit = 10 * time.Second

// lookAgain is how often a container is looked at that another program may resume, or start.
const lookAgain = time.Second

// Wait waits until a container's main process has ended, and returns its exit code. A container
// that does not run has ended; one that is paused, or is about to start, has not.
func (c *Container) Wait(ctx context.Context) (int, error) {
	for c.State == Paused || c.State == Running && c.Kind == "" {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(lookAgain):
		}
		now, err := c.Now(ctx)
		if err != nil {
			return 0, err
		}
		*c = *now
	}
	if !c.State.Runs() {
		return c.Exit.Code, nil
	}
	r, err := c.await(ctx)
	if c.Kind == byHolder && !gone(err) || ctx.Err() != nil {
		return r.ExitCode, err
	}
	exit := Exit{CodeOf(&r, nil), time.Now()}
	if err != nil {
		var running bool
		if exit, running = c.exitOf(ctx); running {
			return 0, runtime.Errorf(runtime.ErrUnavailable,
				"container %s is being started, or cannot be asked: try again: %w", c.ID(), err)
		}
	}
	c.finish(ctx, exit)
	return exit.Code, nil
}

// Next returns what waits for the end of a container's main process: of its next start, if it does
// not run. That is expected from the call of Next on.
func (c *Container) Next() (wait func(context.Context) (int, error)) {
	if c.State.Runs() {
		return func(ctx context.Context) (int, error) { return c.Wait(ctx) }
	}
	return c.engine.next(c.Sandbox.ID).wait
}

// Signal sends a signal, such as KILL, to the processes of a container's main process.
func (c *Container) Signal(ctx context.Context, sig syscall.Signal) error {
	c.engine.events.tell("kill", c, map[string]string{"signal": strconv.Itoa(int(sig))})
	return c.running(ctx, func(v runtime.Process, err error) error {
		switch {
		case errors.Is(err, errElsewhere): // its client ends with it
			err = c.engine.service.Stop(ctx, everyone, c.Sandbox.ID)
		case err == nil:
			err = v.Signal(sig)
		}
		return err
	})
}

// Resize sets the size of a container's terminal.
func (c *Container) Resize(ctx context.Context, rows, cols uint16) error {
	return c.running(ctx, func(v runtime.Process, err error) error {
		if err == nil {
			err = v.Resize(rows, cols)
		}
		return err
	})
}

// running does something with a view of a main process that runs.
func (c *Container) running(ctx context.Context, do func(runtime.Process, error) error) error {
	if _, err := c.Running(ctx); err != nil {
		return err
	}
	v, err := c.view(ctx, look{})
	if err == nil {
		defer v.Close()
	}
	return do(v, err)
}

// Pause has the processes of a running container stand still until Unpause, its main process too.
// [runtime.ErrUnsupported] if its sandbox has neither a control group nor a kernel of its own.
func (c *Container) Pause(ctx context.Context) error {
	in, err := c.Running(ctx)
	if err == nil {
		err = in.Pause(ctx)
	}
	if err == nil {
		c.State = Paused
		c.engine.events.tell("pause", c, nil)
	}
	return err
}

// Unpause ends a pause. A container that is not paused is [runtime.ErrConflict].
func (c *Container) Unpause(ctx context.Context) error {
	if c.State != Paused {
		return runtime.Errorf(runtime.ErrConflict, "container %s is not paused", c.ID())
	}
	if _, err := c.engine.service.Thaw(ctx, everyone, c.Sandbox.ID); err != nil {
		return err
	}
	c.State = Running
	c.engine.events.tell("unpause", c, nil)
	if !c.engine.opts.Own { // this service may have begun during the pause
		c.watch()
	}
	return nil
}

// stopTimeout is how long a main process may take to end after docker's stop.
const stopTimeout = 10 * time.Second

// Stop ends a container's main process: by its stop signal, and after the time-out by SIGKILL.
// limit nil: the container's own. One that does not run is left as it is.
func (c *Container) Stop(ctx context.Context, limit *time.Duration) error {
	if !c.State.Runs() {
		return nil
	}
	if c.State == Paused {
		if err := c.Unpause(ctx); err != nil {
			return err
		}
	}
	patience := stopTimeout
	switch {
	case limit != nil:
		patience = *limit
	case c.StopTimeout != nil:
		patience = time.Duration(*c.StopTimeout) * time.Second
	}
	if err := c.Signal(ctx, cmp.Or(signalOf(c.StopSignal), syscall.SIGTERM)); err != nil && !gone(err) {
		return err
	}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if patience >= 0 { // else it waits for ever
		waiting, cancel = context.WithTimeout(ctx, patience)
	}
	_, err := c.Wait(waiting)
	cancel()
	if err != nil && ctx.Err() == nil {
		err = c.kill(ctx)
	}
	if err == nil {
		c.engine.events.tell("stop", c, nil)
	}
	return err
}

// kill ends a container's main process by SIGKILL, and waits for the end.
func (c *Container) kill(ctx context.Context) error {
	if c.State == Paused { // no signal ends what stands still
		if err := c.Unpause(ctx); err != nil {
			return err
		}
	}
	if err := c.Signal(ctx, syscall.SIGKILL); err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	_, err := c.Wait(ctx)
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

// Kill sends the signal of a name or number, as docker kill does: empty is SIGKILL, whose effect
// Kill waits for.
func (c *Container) Kill(ctx context.Context, name string) error {
	switch sig := signalOf(cmp.Or(name, "KILL")); sig {
	case 0:
		return invalid("invalid signal: %s", name)
	case syscall.SIGKILL:
		return c.kill(ctx)
	default:
		return c.Signal(ctx, sig)
	}
}
