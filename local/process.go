package local

import (
	"context"
	"errors"
	"syscall"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/local/conns"
	"wolffia/local/reposync"
	"wolffia/runtime"
	"wolffia/wire"
	"wolffia/wire/client"
)

// A process is a command that a sandbox was asked for.
type process struct {
	*client.Process
	rec     *statedir.Record
	session bool // it is a command in a session
	// kills counts the processes killed by the memory limit; before is their number
	// when the command began; nil: no such limit.
	kills  func() int64
	before int64
	limit  *overdue // nil: it has no timeout
	// denials returns what was denied since the command began; nil: no filter tells.
	denials func(context.Context) *runtime.Denials
	// refusals is the same of the network; nil: no names filter it.
	refusals func(context.Context) *runtime.Refusals
	// nil: the sandbox has no git directories of its own, or the command does not count
	git *reposync.Use
}

var _ runtime.Process = (*process)(nil)

// Wait implements [runtime.Process].
func (p *process) Wait(ctx context.Context) (runtime.Result, error) {
	exit, _, err := p.wait(ctx)
	return exit, err
}

// wait is Wait that also returns what the guest says of the end.
func (p *process) wait(ctx context.Context) (runtime.Result, *wire.ExitStatus, error) {
	status, err := p.Process.Wait(ctx)
	step.Reached("exec: ended")
	if p.limit != nil && (err == nil || ctx.Err() == nil) {
		p.limit.stop()
	}
	var failed *client.StartError
	switch {
	case errors.As(err, &failed):
		return runtime.Result{}, nil, conns.OrExpired(p.rec, guestError(failed))
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return runtime.Result{}, nil, err
	case err != nil:
		return runtime.Result{}, nil, conns.Lost(context.Background(), p.rec, err)
	}
	exit := exitOf(&status, p.session)
	if exit.ExitCode > 128 && !exit.TimedOut {
		// If the sandbox has expired, that is what killed it.
		if gone := conns.Expired(p.rec); gone != nil {
			return runtime.Result{}, nil, gone
		}
	}
	if p.denials != nil {
		if d := p.denials(ctx); d != nil {
			exit.Denied, exit.DeniedMore = d.List, d.More
		}
	}
	if p.refusals != nil {
		if r := p.refusals(ctx); r != nil {
			exit.Refused, exit.RefusedMore = r.List, r.More
		}
	}
	p.git.Finish(ctx, &exit)
	exit.OutOfMemory = exit.ExitCode != 0 && p.kills != nil && p.kills() > p.before
	return exit, &status, nil
}

// finish waits for the end, and kills the process if ctx ends first. If its input could not
// be read, which unread tells, that is the error.
func (p *process) finish(ctx context.Context, unread func() error) (runtime.Result, *wire.ExitStatus, error) {
	exit, status, err := p.wait(ctx)
	if err != nil && ctx.Err() != nil {
		_ = p.Kill()
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), boot.KillLimit)
		defer cancel()
		_, _ = p.Process.Wait(gone) // from then on nothing writes to the result
	}
	if failed := unread(); failed != nil {
		return runtime.Result{}, nil, errors.Join(ctx.Err(), failed)
	}
	return exit, status, err
}

// Close implements [runtime.Process].
func (p *process) Close() error {
	defer p.git.End()
	return p.Kill()
}

// exitOf returns what the guest says of an end.
func exitOf(s *wire.ExitStatus, session bool) runtime.Result {
	exit := runtime.Result{ExitCode: s.Code, Signal: syscall.Signal(s.Signal), TimedOut: s.TimedOut, StdoutEnd: s.StdoutEnd, StderrEnd: s.StderrEnd}
	if session {
		exit.Session = &runtime.SessionStatus{
			Cwd: string(s.Cwd), Ended: s.SessionEnded, Restored: s.Restored, ShellCode: s.ShellCode, StatusLost: s.StatusLost,
			WantedTerminal: s.WantedTerminal,
		}
	}
	return exit
}

// guestErrors are the classes of error by their names in the protocol.
var guestErrors = map[string]error{
	wire.ClassInvalid: runtime.ErrInvalid, wire.ClassNotFound: runtime.ErrNotFound, wire.ClassExists: runtime.ErrExists,
	wire.ClassConflict: runtime.ErrConflict, wire.ClassUnavailable: runtime.ErrUnavailable, wire.ClassUnsupported: runtime.ErrUnsupported,
}

// guestError gives an error of the guest its class.
func guestError(err error) error {
	var failed *client.StartError
	if !errors.As(err, &failed) {
		return err
	}
	if class := guestErrors[failed.Class]; class != nil {
		return runtime.Errorf(class, "%s", failed.Message)
	}
	return &runtime.StartError{Code: failed.Code, Message: failed.Message}
}
