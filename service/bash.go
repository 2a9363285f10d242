package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service/registry"
)

// A TimeoutError is the error for a command that has timed out.
// errors.Is(err, context.DeadlineExceeded) holds.
type TimeoutError struct {
	After  time.Duration
	Result *runtime.Result // its output until then
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the command has not ended in %v and was stopped", e.After)
}

// Unwrap returns context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// sessionName is the name of the persistent shell; wolffia shell attaches to it.
const sessionName = "main"

// ExecuteBash evaluates a command, which is one text, in the persistent shell of the owner's
// sandbox, after all earlier commands. A non-zero exit code is not an error; a command
// that has timed out is a [*TimeoutError]. With an Operation the command outlives its
// caller: another call with the same command, also of another service, returns its
// result. See [runtime.SessionManager].
func (own Owned) ExecuteBash(ctx context.Context, o registry.Owner, sandboxID string, cmd *runtime.Command) (*runtime.Result, error) {
	if err := own.verify(ctx, o, sandboxID); err != nil {
		return nil, err
	}
	return own.bash(ctx, sandboxID, cmd)
}

func (own Owned) bash(ctx context.Context, id string, cmd *runtime.Command) (*runtime.Result, error) {
	begin := time.Now()
	r, err := own.s.rt.Exec(ctx, id, inShell(cmd))
	if r, err = inTime(cmd, r, err); err == nil {
		own.s.ran(ctx, id, nil, true, cmd.Command, time.Since(begin), r)
	}
	return r, err
}

// Bash evaluates a command in the persistent shell as [Owned.ExecuteBash] does, and
// writes its output as it comes: the result has none. Writes to stdout and stderr are
// concurrent. If one fails, or ctx ends, the command is interrupted, and that is the error.
func (i *Inside) Bash(ctx context.Context, cmd *runtime.Command, stdout, stderr io.Writer) (*runtime.Result, error) {
	r, err := ops.Run(ctx, i.service.rt, i.box.ID, inShell(cmd), ops.To(stdout), ops.To(stderr))
	if err == nil {
		i.service.ran(ctx, i.box.ID, i.box.Sandbox, true, cmd.Command, r.Duration, r)
	}
	return inTime(cmd, r, err)
}

// ExecTo runs a program as [Inside.Exec] does, and writes its output as it comes, as Bash
// does. Stdin of cmd must be nil.
func (i *Inside) ExecTo(ctx context.Context, cmd *runtime.Command, stdout, stderr io.Writer) (*runtime.Result, error) {
	r, err := ops.Run(ctx, i.service.rt, i.box.ID, cmd, ops.To(stdout), ops.To(stderr))
	if err == nil {
		i.service.ran(ctx, i.box.ID, i.box.Sandbox, false, cmd.Command, r.Duration, r)
	}
	return inTime(cmd, r, err)
}

// inShell returns a command as one for the persistent shell.
func inShell(cmd *runtime.Command) *runtime.Command {
	own := *cmd
	own.Session, own.Create = sessionName, true
	return &own
}

// inTime returns a [*TimeoutError] for a command that has timed out, else r and err.
func inTime(cmd *runtime.Command, r *runtime.Result, err error) (*runtime.Result, error) {
	if err == nil && r.TimedOut {
		return nil, &TimeoutError{cmd.Timeout, r}
	}
	return r, err
}

// CancelOperation interrupts the command with this Operation. An unknown one is
// [runtime.ErrNotFound]; one that has ended is no error.
func (own Owned) CancelOperation(ctx context.Context, o registry.Owner, sandboxID, operationID string) error {
	if err := own.verify(ctx, o, sandboxID); err != nil {
		return err
	}
	err := own.s.rt.CancelOperation(ctx, runtime.SessionIn(sandboxID, sessionName), operationID)
	if errors.Is(err, runtime.ErrNotFound) {
		return runtime.Errorf(runtime.ErrNotFound, "no operation %q", operationID)
	}
	return err
}

// probe returns nil if the sandbox can run a command, whether or not its shell
// is busy, or if only one of its limits is in the way.
func probe(ctx context.Context, rt Runtime, sandboxID string) error {
	r, err := rt.Exec(ctx, sandboxID, &runtime.Command{Command: []string{"sh", "-c", "echo alive"}, Cwd: ownDir, Timeout: insideLimit})
	var start *runtime.StartError
	switch {
	case errors.As(err, &start) && runtime.Class(err) == runtime.ErrNotFound:
		return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s has no shell: %s", sandboxID, start.Message)
	case errors.As(err, &start), err == nil && r.OutOfMemory:
		return nil // PID 1 answers
	case err != nil:
		return err
	case r.ExitCode != 0 || string(r.Stdout) != "alive\n":
		return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: a test command failed with exit code %d", sandboxID, r.ExitCode)
	}
	return nil
}

// insideLimit is how long a program of the driver's may take in a sandbox.
const insideLimit = time.Minute

// ownDir is the working directory of the driver's programs: the sandbox's may be gone, or closed.
const ownDir = "/"

// inside runs a program of the driver's in the sandbox, with the rights of any
// process there. The result must not be trusted: the sandbox can forge it.
func inside(ctx context.Context, rt Runtime, sandboxID string, stdin []byte, command ...string) (*runtime.Result, error) {
	req := &runtime.Command{Command: command, Cwd: ownDir, Timeout: insideLimit, MaxOutput: ops.MaxFile}
	if stdin != nil {
		req.Stdin = bytes.NewReader(stdin)
	}
	r, err := rt.Exec(ctx, sandboxID, req)
	if start, ok := errors.AsType[*runtime.StartError](err); ok {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s cannot run %s: %s", sandboxID, command[0], start.Message)
	}
	if err == nil && r.TimedOut {
		err = runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %s did not end within %v", sandboxID, command[0], insideLimit)
	}
	return r, err
}
