package local

import (
	"context"
	"errors"
	"io"
	"math"
	"path"
	"slices"
	"syscall"
	"time"

	"wolffia/internal/boot"
	"wolffia/internal/excerpt"
	"wolffia/internal/feed"
	"wolffia/internal/rootfs"
	"wolffia/internal/statedir"
	"wolffia/internal/step"
	"wolffia/runtime"
	"wolffia/wire"
	"wolffia/wire/client"
)

// Exec implements [runtime.Executor].
func (r *Runtime) Exec(ctx context.Context, sandboxID string, req *runtime.ExecRequest) (*runtime.ExecResult, error) {
	return r.exec(ctx, sandboxID, &runtime.ProcessSpec{
		Command: req.Command, Env: req.Env, Cwd: req.Cwd, Stdin: req.Stdin != nil, Timeout: req.Timeout,
	}, req.Stdin, req.MaxOutput, req.TailOutput)
}

// exec runs a process to its end, and keeps its output as far as limits say.
func (r *Runtime) exec(ctx context.Context, sandboxID string, spec *runtime.ProcessSpec, stdin io.Reader, maxOutput, tailOutput int) (*runtime.ExecResult, error) {
	begin := time.Now()
	keep, tail, err := runtime.OutputLimits(maxOutput, tailOutput)
	if err != nil {
		return nil, err
	}
	stdout, stderr := excerpt.New(keep, tail), excerpt.New(keep, tail)
	p, err := r.start(ctx, sandboxID, spec, func(b []byte) { _, _ = stdout.Write(b) }, func(b []byte) { _, _ = stderr.Write(b) })
	if err != nil {
		return nil, err
	}
	defer p.Close()
	unread := p.feed(stdin)
	exit, err := p.waitOrKill(ctx)
	if failed := unread(); failed != nil {
		return nil, errors.Join(ctx.Err(), failed)
	}
	if err != nil {
		return nil, err
	}
	res := &runtime.ExecResult{
		ExitCode: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut, Session: exit.Session,
		Duration: time.Since(begin), OutOfMemory: exit.OutOfMemory,
	}
	res.Stdout, res.StdoutDropped = stdout.Result()
	res.Stderr, res.StderrDropped = stderr.Result()
	if spec.Operation != "" {
		status, err := p.Process.Wait(ctx) // it has ended
		if err != nil {
			return nil, err
		}
		res.Duration = time.Duration(min(max(status.DurationMS, 0), 1<<40)) * time.Millisecond // not that of who asks again
		res.StdoutDropped = unkept(res.Stdout, res.StdoutDropped, status.StdoutEnd)
		res.StderrDropped = unkept(res.Stderr, res.StderrDropped, status.StderrEnd)
	}
	return res, nil
}

// unkept is how much is missing of a stream of total bytes, of which the guest has
// not kept all. total is the guest's word.
func unkept(kept []byte, dropped int64, total uint64) int64 {
	return max(dropped, int64(min(total, math.MaxInt64))-int64(len(kept)))
}

// feed has the process read from r, if that is not nil; see [feed.Start].
func (p *process) feed(r io.Reader) (failed func() error) {
	if r == nil {
		return func() error { return nil }
	}
	return feed.Start(p.Stdin(), r, func() { _ = p.Kill() })
}

// ExecStream implements [runtime.Executor].
func (r *Runtime) ExecStream(ctx context.Context, sandboxID string, req *runtime.ExecRequest, output chan<- []byte) error {
	return r.stream(ctx, sandboxID, &runtime.ProcessSpec{
		Command: req.Command, Env: req.Env, Cwd: req.Cwd, Stdin: req.Stdin != nil, Merge: true, Timeout: req.Timeout,
	}, req.Stdin, output)
}

// stream runs a process whose streams are merged, and closes output.
func (r *Runtime) stream(ctx context.Context, sandboxID string, spec *runtime.ProcessSpec, stdin io.Reader, output chan<- []byte) error {
	defer close(output)
	p, err := r.start(ctx, sandboxID, spec, nil, nil)
	if err != nil {
		return err
	}
	defer p.Close()
	unread := p.feed(stdin)
	stop := context.AfterFunc(ctx, func() { _ = p.Close() }) // ends the output
	defer stop()
	for buf := make([]byte, wire.MaxPayload); ; {
		n, err := p.Stdout().Read(buf)
		if n > 0 {
			select {
			case output <- slices.Clone(buf[:n]):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			break // Wait says why
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	exit, err := p.waitOrKill(ctx)
	if failed := unread(); failed != nil {
		return errors.Join(ctx.Err(), failed)
	}
	if err != nil {
		return err
	}
	if exit.Code != 0 || exit.TimedOut {
		return &runtime.ExitError{Exit: exit}
	}
	return nil
}

// StartProcess implements [runtime.Executor].
func (r *Runtime) StartProcess(ctx context.Context, sandboxID string, spec *runtime.ProcessSpec) (runtime.Process, error) {
	if spec.Session != "" {
		if err := r.ensureSession(ctx, sandboxID, spec.Session); err != nil {
			return nil, err
		}
	}
	p, err := r.start(ctx, sandboxID, spec, nil, nil)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// start asks for a process; stdout and stderr take its output, or are nil.
func (r *Runtime) start(ctx context.Context, sandboxID string, spec *runtime.ProcessSpec, stdout, stderr func([]byte)) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(spec.Command) == 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "no command given")
	}
	if spec.Operation != "" && spec.Session == "" {
		return nil, runtime.Errorf(runtime.ErrInvalid, "operation %q: only a command in a session can be one", spec.Operation)
	}
	if spec.Timeout < 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "timeout %v: it must not be negative", spec.Timeout)
	}
	box, c, err := r.find(sandboxID)
	if err != nil {
		return nil, err
	}
	req := &client.Request{
		StartRequest: wire.StartRequest{
			Args: spec.Command, Stdin: spec.Stdin, Merge: spec.Merge, TTY: spec.TTY, Rows: spec.Rows, Cols: spec.Cols,
		},
		OnStdout: stdout, OnStderr: stderr,
	}
	if spec.Timeout > 0 {
		req.TimeoutMS = uint64(max(1, spec.Timeout.Milliseconds()))
	}
	if spec.Session == "" {
		req.Env, req.Dir = environment(c, spec), cwd(c, spec.Cwd)
	} else if err := inSession(&req.StartRequest, spec); err != nil {
		return nil, err
	}
	conn, err := r.conn(box)
	if err != nil {
		return nil, err
	}
	kills, before := oomKills(box, c), int64(0)
	if kills != nil {
		before = kills()
	}
	step.Reached("exec: connected")
	var limit *overdue
	if spec.Timeout > 0 {
		limit = &overdue{timeout: spec.Timeout, session: spec.Session != ""}
		req.OnStarted = limit.begin
		stuck := time.AfterFunc(spec.Timeout+overdueGrace, func() { _ = conn.Close() }) // nobody takes the request
		defer stuck.Stop()
	}
	p, err := conn.Start(req)
	step.Reached("exec: sent")
	if long := tooLong(err); long != nil {
		return nil, long
	}
	if err != nil {
		return nil, lost(box, err)
	}
	if limit != nil {
		limit.of(p)
	}
	return &process{Process: p, box: box, session: spec.Session != "", kills: kills, before: before, limit: limit}, nil
}

// tooLong is the error for a request that is larger than the protocol allows, so that
// nothing was sent; it is nil if err says something else.
func tooLong(err error) error {
	var long *wire.TooLongError
	if !errors.As(err, &long) {
		return nil
	}
	return runtime.Errorf(runtime.ErrInvalid, "%w: write it to a file in the sandbox, or pass it by standard input", long)
}

// environment is what a process starts with: nothing of the caller's.
func environment(c *statedir.Config, spec *runtime.ProcessSpec) []string {
	vars := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": rootfs.Home(c), "USER": c.User, "LOGNAME": c.User,
		"LANG": "C.UTF-8", "SHELL": "/bin/sh",
	}
	for _, more := range []map[string]string{c.Env, spec.Env} {
		for k, v := range more {
			vars[k] = v
		}
	}
	env := make([]string, 0, len(vars))
	for k, v := range vars {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	return env
}

// cwd is where a process starts; a relative path is taken from the sandbox's
// own default.
func cwd(c *statedir.Config, dir string) string {
	base := c.Cwd
	if base == "" {
		base = c.MountPointOrDefault()
	}
	switch {
	case dir == "":
		return base
	case path.IsAbs(dir):
		return dir
	}
	return path.Join(base, dir)
}

// A process is one in a sandbox.
type process struct {
	*client.Process
	box     *statedir.Box
	session bool // it is a command in a session
	// kills counts what the limit of memory has had killed, before it was before;
	// nil: there is no such limit.
	kills  func() int64
	before int64
	limit  *overdue // nil: it has no time-out
}

var _ runtime.Process = (*process)(nil)

// Wait implements [runtime.Process].
func (p *process) Wait(ctx context.Context) (runtime.Exit, error) {
	status, err := p.Process.Wait(ctx)
	step.Reached("exec: ended")
	if p.limit != nil && (err == nil || ctx.Err() == nil) {
		p.limit.stop()
	}
	var failed *client.StartError
	switch {
	case errors.As(err, &failed):
		return runtime.Exit{}, orOver(p.box, sessionError(failed))
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return runtime.Exit{}, err
	case err != nil:
		return runtime.Exit{}, lost(p.box, err)
	}
	exit := exitOf(&status, p.session)
	if exit.Code > 128 && !exit.TimedOut {
		// Whatever has killed it, if there is no sandbox any more that is why.
		if gone := overNow(p.box); gone != nil {
			return runtime.Exit{}, gone
		}
	}
	exit.OutOfMemory = exit.Code != 0 && p.kills != nil && p.kills() > p.before
	return exit, nil
}

// exitOf is what the guest says of an end.
func exitOf(s *wire.ExitStatus, session bool) runtime.Exit {
	exit := runtime.Exit{Code: s.Code, Signal: syscall.Signal(s.Signal), TimedOut: s.TimedOut}
	if session {
		exit.Session = sessionStatus(s)
	}
	return exit
}

// waitOrKill waits for the process; if ctx ends first it kills it.
func (p *process) waitOrKill(ctx context.Context) (runtime.Exit, error) {
	exit, err := p.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		_ = p.Kill()
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), boot.KillLimit)
		defer cancel()
		_, _ = p.Process.Wait(gone) // so that nobody writes to the result any more
	}
	return exit, err
}

// Close implements [runtime.Process].
func (p *process) Close() error { return p.Kill() }

// lost explains why the connection to a sandbox has broken.
func lost(box *statedir.Box, err error) error {
	// The shim records why before it lets the lock go; or there is one that answers,
	// perhaps another.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	go func() { // ends with ctx
		if answers(ctx, box) {
			cancel()
		}
	}()
	_ = box.WaitUnlocked(ctx, time.Second)
	if gone := overNow(box); gone != nil {
		return gone
	}
	state, reason, serr := box.State()
	switch {
	case errors.Is(serr, runtime.ErrNotFound), serr == nil && state == runtime.StateStopped:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s was stopped: %w", box.ID(), err)
	case serr == nil && state == runtime.StateDead:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is dead: %s", box.ID(), reason)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "lost the connection to sandbox %s, and what was asked of it: %w", box.ID(), err)
}
