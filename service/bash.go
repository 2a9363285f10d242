package service

import (
	"context"
	"io"

	"wolffia/ops"
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
	return s.fleet.insideOf(b)
}

// box returns a sandbox of the owner, running or not: the one that CreateSandbox has made, or one of its
// [Fleet].
func (s *Service) box(ctx context.Context, o registry.Owner, sandboxID string) (*FleetSandbox, error) {
	f := s.fleet
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
func (i *Inside) Bash(ctx context.Context, cmd *runtime.Command, stdout, stderr io.Writer) (*runtime.Result, error) {
	r, err := ops.Run(ctx, i.fleet.rt, i.box.ID, inShell(cmd), ops.To(stdout), ops.To(stderr))
	if err == nil {
		i.fleet.opts.Meter.ran(true, r.Duration, r)
	}
	return inTime(cmd, r, err)
}
