package local

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"wolffia/internal/excerpt"
	"wolffia/internal/feed"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/local/conns"
	"wolffia/local/defaults"
	"wolffia/local/reposync"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/wire"
	"wolffia/wire/client"
)

// executor is the part of a Runtime that runs commands.
type executor struct {
	*catalog
	conns *conns.Conns
	gits  *reposync.Syncer
}

// Exec implements [runtime.Executor].
func (e *executor) Exec(ctx context.Context, sandboxID string, cmd *runtime.Command) (*runtime.Result, error) {
	c, err := e.command(sandboxID, cmd, false)
	if err != nil {
		return nil, err
	}
	return e.collect(ctx, c, cmd)
}

// ExecStream implements [runtime.Executor].
func (e *executor) ExecStream(ctx context.Context, sandboxID string, cmd *runtime.Command, output chan<- []byte) error {
	defer close(output)
	if cmd.Operation != "" {
		return runtime.Errorf(runtime.ErrUnsupported, "operation %q: its output cannot be streamed", cmd.Operation)
	}
	c, err := e.command(sandboxID, cmd, false)
	if err != nil {
		return err
	}
	return e.stream(ctx, c, cmd.Stdin, output)
}

// StartProcess implements [runtime.Executor].
func (e *executor) StartProcess(ctx context.Context, sandboxID string, cmd *runtime.Command) (runtime.Process, error) {
	c, err := e.command(sandboxID, cmd, true)
	if err != nil {
		return nil, err
	}
	p, err := e.start(ctx, c)
	if err != nil {
		return nil, err // not a nil *process
	}
	return p, nil
}

// A command is a request for a process, as the guest gets it, and where it goes.
type command struct {
	client.Request
	rec     *statedir.Record
	config  *statedir.Config
	timeout time.Duration    // 0: none
	queued  func(waits bool) // or nil
	started func(pid int)    // or nil
	// unwatched says that the command is a part of a synchronisation of git directories, which
	// must not begin another one.
	unwatched bool
}

// command returns the request for a command; process is as in [runtime.Command.Check].
func (e *executor) command(sandboxID string, cmd *runtime.Command, process bool) (*command, error) {
	if err := cmd.Check(process); err != nil {
		return nil, err
	}
	session, err := evaluation(cmd)
	if err != nil {
		return nil, err
	}
	rec, config, err := e.header(sandboxID)
	if err != nil {
		return nil, err
	}
	if cmd.Adopt != 0 {
		c := &command{rec: rec, config: config, started: cmd.Started, unwatched: true}
		c.Kept = &wire.KeptRequest{PID: uint32(max(cmd.Adopt, 0))}
		return c, nil
	}
	c := &command{rec: rec, config: config, timeout: cmd.Timeout, queued: cmd.Queued, started: cmd.Started}
	c.Keep = cmd.Keep
	c.Session, c.Args, c.Stdin, c.Merge = session, cmd.Command, cmd.OpenStdin || cmd.Stdin != nil, cmd.Merge
	c.TTY, c.Rows, c.Cols, c.Umask = cmd.TTY, cmd.Rows, cmd.Cols, e.umask
	if session == nil {
		c.Env, c.Dir = defaults.Environment(config, cmd.Env), cwd(config, cmd.Cwd)
	} else {
		c.Env, c.Dir = defaults.Pairs(cmd.Env), cmd.Cwd // beside the session's own
		if session.Create != nil {
			*session.Create = sessionStart(config)
		}
	}
	if err := checkUser(config, cmd.User); err != nil {
		return nil, err
	}
	if session != nil {
		session.User, session.SameUser = userOf(cmp.Or(cmd.User, config.RunAs)), cmd.User != ""
	}
	// the guest's program copies files, as root
	if session == nil && (cmd.User != "" || cmd.Command[0] != launch.GuestPath) {
		c.Args = append(become(cmp.Or(cmd.User, config.RunAs)), cmd.Command...)
	}
	if cmd.Timeout > 0 {
		c.TimeoutMS = uint64(max(1, cmd.Timeout.Milliseconds()))
	}
	return c, nil
}

// checkUser returns the error of a sandbox that has no such user.
func checkUser(c *statedir.Config, who string) error {
	if who != "" && !c.Root {
		return runtime.Errorf(runtime.ErrUnsupported, "user %q: the sandbox has one user only; others need root inside: make it with --root", who)
	}
	return nil
}

// become returns the beginning of a command that is run as a user of a sandbox with root
// inside: the guest's program becomes the command.
func become(who string) []string {
	if who = userOf(who); who == "" {
		return nil
	}
	return []string{launch.GuestPath, launch.BecomeArg, who}
}

// userOf returns a user other than PID 1's, which is root; else an empty string.
func userOf(who string) string {
	if user, group, _ := strings.Cut(who, ":"); isRoot(user) && isRoot(group) {
		return ""
	}
	return who
}

func isRoot(name string) bool { return name == "" || name == "root" || name == "0" }

// cwd returns the directory that a process starts in; a relative dir is taken from the
// sandbox's default.
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

// start sends a request.
func (e *executor) start(ctx context.Context, c *command) (_ *process, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn, err := e.conns.To(ctx, c.rec)
	if err != nil {
		return nil, err
	}
	p := &process{rec: c.rec, session: c.Session != nil, kills: oomKills(c.rec, c.config)}
	if !c.unwatched {
		p.git = e.gits.Begin(ctx, c.rec, c.config)
		defer func() {
			if err != nil {
				p.git.End()
			}
		}()
	}
	if p.kills != nil {
		p.before = p.kills()
	}
	p.denials, p.refusals = denialsBefore(c.rec, c.config), refusalsBefore(ctx, c.rec, c.config)
	step.Reached("exec: connected")
	if c.timeout > 0 {
		p.limit = &overdue{timeout: c.timeout, session: p.session, paused: func() time.Duration { return statedir.PauseOf(c.rec.Run()).Paused() }}
		c.OnStarted = func(int) { p.limit.begin() }
		// the shim does not take the request
		stuck := time.AfterFunc(withGrace(c.timeout), func() { _ = conn.Close() })
		defer stuck.Stop()
	}
	if queued := c.queued; queued != nil {
		c.OnQueued = func() { queued(true) }
		c.OnStarted = both(func(int) { queued(false) }, c.OnStarted)
	}
	if c.started != nil {
		c.OnStarted = both(c.started, c.OnStarted)
	}
	p.Process, err = conn.Start(&c.Request)
	step.Reached("exec: sent")
	if long := tooLong(err); long != nil {
		return nil, long
	}
	if err != nil {
		return nil, conns.Lost(context.Background(), c.rec, err)
	}
	if p.limit != nil {
		p.limit.of(p.Process)
	}
	return p, nil
}

// both returns a function that calls first and then second. A nil second is left out.
func both(first, second func(pid int)) func(pid int) {
	if second == nil {
		return first
	}
	return func(pid int) { first(pid); second(pid) }
}

// tooLong returns the error for a request that is larger than the protocol allows, of
// which nothing was sent; nil if err is another one.
func tooLong(err error) error {
	var long *wire.TooLongError
	if !errors.As(err, &long) {
		return nil
	}
	return runtime.Errorf(runtime.ErrInvalid, "%w: write it to a file in the sandbox, or pass it by standard input", long)
}

// collect runs a command to its end, and keeps its output up to the limits.
func (e *executor) collect(ctx context.Context, c *command, cmd *runtime.Command) (*runtime.Result, error) {
	begin := time.Now()
	keep, tail, err := cmd.OutputLimits()
	if err != nil {
		return nil, err
	}
	stdout, stderr := excerpt.New(keep, tail), excerpt.New(keep, tail)
	c.OnStdout, c.OnStderr = func(b []byte) { _, _ = stdout.Write(b) }, func(b []byte) { _, _ = stderr.Write(b) }
	p, err := e.start(ctx, c)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	exit, status, err := p.finish(ctx, p.feed(cmd.Stdin))
	if err != nil {
		return nil, err
	}
	res := &exit
	res.Duration, res.StdoutEnd, res.StderrEnd = time.Since(begin), 0, 0
	res.Stdout, res.StdoutDropped = stdout.Result()
	res.Stderr, res.StderrDropped = stderr.Result()
	if c.Session != nil && c.Session.Keep { // this request may not be the first for it
		res.Duration = time.Duration(min(max(status.DurationMS, 0), 1<<40)) * time.Millisecond
		res.StdoutDropped = unkept(res.Stdout, res.StdoutDropped, status.StdoutEnd)
		res.StderrDropped = unkept(res.Stderr, res.StderrDropped, status.StderrEnd)
	}
	return res, nil
}

// unkept returns how many bytes are missing of a stream of total bytes, which the guest has
// not kept in full. The total is the guest's word.
func unkept(kept []byte, dropped int64, total uint64) int64 {
	return max(dropped, int64(min(total, math.MaxInt64))-int64(len(kept)))
}

// stream runs a command to its end, and sends its merged output.
func (e *executor) stream(ctx context.Context, c *command, stdin io.Reader, output chan<- []byte) error {
	c.Merge = true
	p, err := e.start(ctx, c)
	if err != nil {
		return err
	}
	defer p.Close()
	unread := p.feed(stdin)
	stop := context.AfterFunc(ctx, func() { _ = p.Close() }) // ends the output
	defer stop()
	_, _ = io.Copy(pieces{ctx, output}, p.Stdout()) // finish returns why it ended
	if err := ctx.Err(); err != nil {
		return err
	}
	exit, _, err := p.finish(ctx, unread)
	if err == nil && (exit.ExitCode != 0 || exit.TimedOut) {
		err = &runtime.ExitError{Result: exit}
	}
	return err
}

// pieces sends what is written to it to a channel, until the context ends.
type pieces struct {
	ctx context.Context
	to  chan<- []byte
}

func (p pieces) Write(b []byte) (int, error) { return p.Keep(slices.Clone(b)) }

// Keep implements [client.Keeper].
func (p pieces) Keep(b []byte) (int, error) {
	select {
	case p.to <- b:
		return len(b), nil
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	}
}

// feed copies r, if it is not nil, to the process; see [feed.Start].
func (p *process) feed(r io.Reader) (failed func() error) {
	if r == nil {
		return func() error { return nil }
	}
	return feed.Start(p.Stdin(), r, func() { _ = p.Kill() })
}
