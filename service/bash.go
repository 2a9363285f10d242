package service

import (
	"context"
	"io"
	"sync"
	"time"

	"wolffia/runtime"
	"wolffia/service/registry"
)

// Inside returns a handle on a sandbox of the owner: the one that the service gives to it, or
// one of the fleet of [ServiceOptions]. One that is not running is [runtime.ErrConflict].
func (s *Service) Inside(ctx context.Context, o registry.Owner, sandboxID string) (*Inside, error) {
	b, err := s.box(ctx, o, sandboxID)
	if err != nil {
		return nil, err
	}
	return s.opts.Fleet.insideOf(b)
}

// box returns a sandbox of the owner, running or not: the one that CreateSandbox has made, or one of the service's
// Fleet.
func (s *Service) box(ctx context.Context, o registry.Owner, sandboxID string) (*FleetSandbox, error) {
	f := s.opts.Fleet
	if f == nil {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "this service has no calls for jobs, streams, rules and changes")
	}
	of, err := s.verify(ctx, o, sandboxID)
	if err != nil || of != nil {
		return of, err
	}
	if err := checkID(sandboxID); err != nil {
		return nil, err
	}
	b, err := f.rt.Get(ctx, sandboxID)
	switch {
	case err != nil:
		return nil, err
	case b.Expired != "":
		return nil, runtime.Errorf(runtime.ErrNotFound, "sandbox %s is gone: %s", sandboxID, b.Expired.Reason())
	}
	return &FleetSandbox{Sandbox: b, Owner: o}, nil
}

// Bash evaluates a command in the persistent shell as [SandboxDriver].ExecuteBash does, and
// writes its output as it comes: the result has none. Writes to stdout and stderr are
// concurrent. If one fails, or ctx ends, the command is interrupted, and that is the error.
// OperationID must be empty.
func (i *Inside) Bash(ctx context.Context, p *ExecuteBashParams, stdout, stderr io.Writer) (*runtime.Result, error) {
	begin := time.Now()
	process, err := i.fleet.rt.StartProcess(ctx, i.box.ID, p.command())
	if err != nil {
		return nil, err
	}
	defer process.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = process.Close() })()
	var copying sync.WaitGroup
	pass := func(to io.Writer, from io.Reader) {
		copying.Go(func() { // ends with the process
			if _, err := io.Copy(to, from); err != nil {
				cancel(err)
			}
		})
	}
	pass(stdout, process.Stdout())
	pass(stderr, process.Stderr())
	exit, err := process.Wait(ctx)
	if err != nil {
		_ = process.Close()
	}
	copying.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	exit.Duration = time.Since(begin)
	i.fleet.opts.Meter.ran(true, exit.Duration, &exit)
	if exit.TimedOut {
		return nil, &TimeoutError{p.Timeout, &exit}
	}
	return &exit, nil
}
