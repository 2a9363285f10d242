package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"wolffia/internal/sys/step"
	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service/registry"
)

// A SandboxDriver creates sandboxes and works in them. It does not check who owns
// them. Its methods may be called concurrently. For an unknown sandbox, and for one
// that has expired, they return [runtime.ErrNotFound]; for one that is not running,
// those that work in it return [runtime.ErrConflict].
type SandboxDriver interface {
	// Name returns the driver's name.
	Name() string

	// CreateSandbox creates a sandbox and starts it. If it fails, nothing is left.
	CreateSandbox(ctx context.Context, params *Params) (*CreatedSandbox, error)

	// DestroySandbox destroys a sandbox; it returns when all of it is gone.
	DestroySandbox(ctx context.Context, sandboxID string) error

	// State returns the state of a sandbox, running or not.
	State(ctx context.Context, sandboxID string) (runtime.State, error)

	// Probe returns nil if the sandbox can run a command, whether or not its shell
	// is busy, or if only one of its limits is in the way.
	Probe(ctx context.Context, sandboxID string) error

	// Copied reports whether the sandbox works on a copy of its codebase: see [runtime.Workspace].
	Copied(ctx context.Context, sandboxID string) (bool, error)

	// Restart ends all processes of the sandbox, if it runs, and starts it. What it has changed stays.
	Restart(ctx context.Context, sandboxID string) error

	// Touch restarts the sandbox's idle time. If ttl is not nil, it also sets the
	// time to live, from now on; 0 means none.
	Touch(ctx context.Context, sandboxID string, ttl *time.Duration) error

	// ConfigureGit configures git in the sandbox.
	ConfigureGit(ctx context.Context, sandboxID string, g *GitConfig) error

	// ExecuteBash evaluates a command, which is one text, in the sandbox's persistent
	// shell, after all earlier commands. A non-zero exit code is not an error; a command
	// that has timed out is a [*TimeoutError]. With an Operation the command outlives its
	// caller: another call with the same command, also of another service, returns its
	// result. See [runtime.SessionManager].
	ExecuteBash(ctx context.Context, sandboxID string, cmd *runtime.Command) (*runtime.Result, error)

	// CancelOperation interrupts the command with this Operation. An unknown one is
	// [runtime.ErrNotFound]; one that has ended is no error.
	CancelOperation(ctx context.Context, sandboxID, operationID string) error

	// ReadFile returns the content of a file, which it reads as a process in the
	// sandbox; for the path see [ops.Files.FilePath]. A missing file is [runtime.ErrNotFound], one
	// without read permission [runtime.ErrDenied], one that is not a regular file or
	// is larger than [ops.MaxFile] [runtime.ErrInvalid].
	ReadFile(ctx context.Context, sandboxID, path string) ([]byte, error)

	// WriteFiles writes files by path, as a process in the sandbox, and
	// creates missing directories. Each file keeps its old content or gets all of
	// the new, whether or not others fail; only where the rules allow no other file
	// in the directory, the end of the sandbox can leave a file half written.
	// updated is the number of files written. After the end of ctx it begins no
	// other file.
	WriteFiles(ctx context.Context, sandboxID string, files map[string]File) (updated int, err error)

	// ScanRunningSandboxes returns the running sandboxes whose owner labels are
	// complete and valid.
	ScanRunningSandboxes(ctx context.Context) ([]registry.Metadata, error)

	// LostSandboxes returns the sandboxes that a container engine still has though
	// the state directory has lost them: see [Lost].
	LostSandboxes(ctx context.Context) ([]registry.Metadata, error)
}

// A CreatedSandbox is a sandbox that is running.
type CreatedSandbox struct {
	SandboxID     string
	ContainerName string
	CreatedAt     time.Time // to the millisecond
}

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

var _ SandboxDriver = (*Fleet)(nil)

// Name implements [SandboxDriver]: it returns the runtime's name.
func (f *Fleet) Name() string { return f.rt.Name() }

// undoLimit is how long the undoing of a failed call may take, whose context may
// have ended.
const undoLimit = 30 * time.Second

// wholeLimit is how long a change in several steps may take, from its first step on.
const wholeLimit = 2 * time.Minute

// whole returns a context for a change in several steps: one that has begun is completed, though its
// caller has gone.
func whole(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), wholeLimit)
}

// CreateSandbox implements [SandboxDriver].
func (f *Fleet) CreateSandbox(ctx context.Context, p *Params) (_ *CreatedSandbox, err error) {
	begin := time.Now()
	defer func() { f.opts.Meter.started(time.Since(begin), err) }()
	if err := p.validateOwned(); err != nil {
		return nil, err
	}
	config, err := f.configure(ctx, p)
	if err != nil {
		return nil, err
	}
	config.ID = p.SandboxID
	config.TTL, config.IdleTimeout = cmp.Or(config.TTL, p.TTL), cmp.Or(config.IdleTimeout, p.IdleTimeout)
	SetOwner(config, p.Owner, p.GitConfig != nil)
	s, err := f.make(ctx, config, func(s *runtime.Sandbox) error {
		step.Reached("driver: created")
		if err := f.rt.Start(ctx, s.ID); err != nil {
			return err
		}
		step.Reached("driver: started")
		if p.GitConfig == nil {
			return nil
		}
		return f.ConfigureGit(ctx, s.ID, p.GitConfig)
	})
	if err != nil {
		return nil, err
	}
	return &CreatedSandbox{s.ID, s.ContainerName(), s.CreatedAt}, nil
}

// make creates a sandbox and has start start it. If that fails, nothing is left.
func (f *Fleet) make(
	ctx context.Context, config *runtime.SandboxConfig, start func(*runtime.Sandbox) error,
) (*runtime.Sandbox, error) {
	s, err := f.rt.Create(ctx, config)
	if err != nil {
		return nil, err
	}
	if err = start(s); err == nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	return nil, undone(s.ID, err, f.rt.Destroy(ctx, s.ID))
}

// connect gives a configuration the network that the caller has chosen, if FleetOptions.MayReach permits it.
func (f *Fleet) connect(c *runtime.SandboxConfig, params *Params) error {
	p := *params
	if p.Network == "" && p.Egress != nil {
		p.Network = runtime.NetworkFiltered
	}
	switch {
	case p.Network == "":
		return nil
	case p.Network == runtime.NetworkNone && p.Egress == nil:
	case f.opts.MayReach == nil:
		return runtime.Errorf(runtime.ErrDenied,
			"network %q: this service does not let its callers choose a network: leave network and egress out", p.Network)
	default:
		if err := f.opts.MayReach(&p); err != nil {
			return err
		}
	}
	c.Network, c.Egress = p.Network, p.Egress
	return nil
}

// validateOwned is validate for the one sandbox of an owner.
func (p *Params) validateOwned() error {
	if !runtime.IsID(p.SandboxID) {
		return runtime.Errorf(runtime.ErrInvalid, "sandbox id %q: an id is twelve of a-z and 0-9", p.SandboxID)
	}
	if err := p.Owner.Validate(); err != nil {
		return err
	}
	if p.GitConfig != nil {
		return p.GitConfig.validate()
	}
	return nil
}

// checkID returns an error unless id has the form of an id. A runtime would also
// take a name, or the beginning of an id.
func checkID(id string) error {
	if !runtime.IsID(id) {
		return runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", id)
	}
	return nil
}

// DestroySandbox implements [SandboxDriver].
func (f *Fleet) DestroySandbox(ctx context.Context, sandboxID string) error {
	if err := checkID(sandboxID); err != nil {
		return err
	}
	return f.rt.Destroy(ctx, sandboxID)
}

// sessionName is the name of the persistent shell; wolffia shell attaches to it.
const sessionName = "main"

// ExecuteBash implements [SandboxDriver].
func (f *Fleet) ExecuteBash(ctx context.Context, sandboxID string, cmd *runtime.Command) (*runtime.Result, error) {
	if err := checkID(sandboxID); err != nil {
		return nil, err
	}
	begin := time.Now()
	r, err := f.rt.Exec(ctx, sandboxID, inShell(cmd))
	if r, err = inTime(cmd, r, err); err == nil {
		f.opts.Meter.ran(true, time.Since(begin), r)
	}
	return r, err
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

// CancelOperation implements [SandboxDriver].
func (f *Fleet) CancelOperation(ctx context.Context, sandboxID, operationID string) error {
	if err := checkID(sandboxID); err != nil {
		return err
	}
	err := f.rt.CancelOperation(ctx, runtime.SessionIn(sandboxID, sessionName), operationID)
	if errors.Is(err, runtime.ErrNotFound) {
		return runtime.Errorf(runtime.ErrNotFound, "no operation %q", operationID)
	}
	return err
}

// ScanRunningSandboxes implements [SandboxDriver].
func (f *Fleet) ScanRunningSandboxes(ctx context.Context) ([]registry.Metadata, error) {
	return Scan(ctx, f.rt)
}

// LostSandboxes implements [SandboxDriver].
func (f *Fleet) LostSandboxes(ctx context.Context) ([]registry.Metadata, error) {
	return Lost(ctx, f.rt)
}

// State implements [SandboxDriver].
func (f *Fleet) State(ctx context.Context, sandboxID string) (runtime.State, error) {
	if err := checkID(sandboxID); err != nil {
		return "", err
	}
	s, err := f.rt.Get(ctx, sandboxID)
	if err != nil {
		return "", err
	}
	if s.Expired != "" {
		return "", runtime.Errorf(runtime.ErrNotFound, "sandbox %s is gone: %s", sandboxID, s.Expired.Reason())
	}
	return s.State, nil
}

// Copied implements [SandboxDriver].
func (f *Fleet) Copied(ctx context.Context, sandboxID string) (bool, error) {
	if err := checkID(sandboxID); err != nil {
		return false, err
	}
	s, err := f.rt.Get(ctx, sandboxID)
	return err == nil && s.CopyOnWrite, err
}

// Restart implements [SandboxDriver].
func (f *Fleet) Restart(ctx context.Context, sandboxID string) error {
	state, err := f.State(ctx, sandboxID)
	if err != nil {
		return err
	}
	ctx, cancel := whole(ctx)
	defer cancel()
	if state == runtime.StateRunning {
		if err := f.rt.Stop(ctx, sandboxID); err != nil {
			return err
		}
	}
	return f.rt.Start(ctx, sandboxID)
}

// Touch implements [SandboxDriver].
func (f *Fleet) Touch(ctx context.Context, sandboxID string, ttl *time.Duration) error {
	if err := checkID(sandboxID); err != nil {
		return err
	}
	if ttl == nil {
		return f.rt.Touch(ctx, sandboxID)
	}
	_, err := f.rt.Renew(ctx, sandboxID, *ttl)
	return err
}

// Probe implements [SandboxDriver].
func (f *Fleet) Probe(ctx context.Context, sandboxID string) error {
	if err := checkID(sandboxID); err != nil {
		return err
	}
	r, err := f.rt.Exec(ctx, sandboxID, &runtime.Command{Command: []string{"sh", "-c", "echo alive"}, Cwd: ownDir, Timeout: insideLimit})
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
func (f *Fleet) inside(ctx context.Context, sandboxID string, stdin []byte, command ...string) (*runtime.Result, error) {
	req := &runtime.Command{Command: command, Cwd: ownDir, Timeout: insideLimit, MaxOutput: ops.MaxFile}
	if stdin != nil {
		req.Stdin = bytes.NewReader(stdin)
	}
	r, err := f.rt.Exec(ctx, sandboxID, req)
	if start, ok := errors.AsType[*runtime.StartError](err); ok {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s cannot run %s: %s", sandboxID, command[0], start.Message)
	}
	if err == nil && r.TimedOut {
		err = runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %s did not end within %v", sandboxID, command[0], insideLimit)
	}
	return r, err
}
