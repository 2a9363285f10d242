package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"wolffia/internal/step"
	"wolffia/runtime"
	"wolffia/service/registry"
)

// A SandboxDriver makes sandboxes and works in them. It does not ask whose they
// are. Its methods may be called concurrently. A sandbox that is not there is
// [runtime.ErrNotFound], one that does not run [runtime.ErrConflict].
type SandboxDriver interface {
	// Name is the driver's name.
	Name() string

	// CreateSandbox makes a sandbox and starts it. If it fails nothing is left.
	CreateSandbox(ctx context.Context, params *CreateSandboxParams) (*CreatedSandbox, error)

	// DestroySandbox ends a sandbox; it returns when all of it is gone.
	DestroySandbox(ctx context.Context, sandboxID string) error

	// ExecuteBash evaluates a command in the sandbox's persistent shell, after
	// those that came before it. A command that ends with another code than 0
	// is no error; one that has timed out is a [*TimeoutError].
	ExecuteBash(ctx context.Context, params *ExecuteBashParams) (*BashResult, error)

	// ReadFile returns a file as a process in the sandbox reads it: see Path.
	// One that is not there is [runtime.ErrNotFound], one that may not be read
	// [runtime.ErrDenied], what is no file or larger than MaxFile
	// [runtime.ErrInvalid].
	ReadFile(ctx context.Context, sandboxID, path string) ([]byte, error)

	// WriteFiles writes files as a process in the sandbox does, by path: see
	// Path. Directories that are missing are made. Each file is as it was or has
	// all of its new content, unless its sandbox is killed while a file is written
	// in a directory that may not be; the others are written whether or not one fails.
	// updated is how many were. When ctx ends no other file is begun.
	WriteFiles(ctx context.Context, sandboxID string, files map[string]File) (updated int, err error)

	// ScanRunningSandboxes returns whose the running sandboxes are, of those
	// only of which it is known in full.
	ScanRunningSandboxes(ctx context.Context) ([]registry.Metadata, error)
}

// CreateSandboxParams say what sandbox to make.
type CreateSandboxParams struct {
	SandboxID string // has the form of an id: see [runtime.IsID]
	registry.Owner
	GitConfig *GitConfig // nil: git is not configured
	// TTL and IdleTimeout are as in [runtime.SandboxConfig], where
	// Options.Configure says nothing of them.
	TTL, IdleTimeout time.Duration
}

// A CreatedSandbox is one that runs.
type CreatedSandbox struct {
	SandboxID     string
	ContainerName string
	CreatedAt     time.Time // to the millisecond
}

// ExecuteBashParams ask for a command.
type ExecuteBashParams struct {
	SandboxID string
	Command   string // what the shell evaluates: see [runtime.SessionExecRequest]
	Cwd       string // for this command only; empty: where the shell is
	// Timeout interrupts the command, then ends it, and keeps the shell; 0 means
	// never.
	Timeout time.Duration
	// OperationID, if it is not empty, makes the command outlive who asks for it:
	// who asks for the same again, of another service too, has its result. See
	// [runtime.OperationManager].
	OperationID string
}

// A BashResult says how a command ended and what it said.
type BashResult struct {
	Stdout, Stderr []byte
	ExitCode       int
	Cwd            string // where the shell is now
	Duration       time.Duration
	Truncated      bool // it said more than is kept: see [runtime.DefaultMaxOutput]
	SessionEnded   bool // the shell ended with it: the next command has a new one
	Restored       string
}

// A TimeoutError says that a command has been ended because its time was over.
// errors.Is(err, context.DeadlineExceeded) holds.
type TimeoutError struct {
	After  time.Duration
	Result *BashResult // what it said until then
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the command has not ended in %v and was stopped", e.After)
}

// Unwrap returns context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Options are a driver's. nil and the zero value are the defaults.
type Options struct {
	// Configure returns the configuration of a new sandbox, without id and
	// owner; nil means an empty one. Package policy makes rules for its codebase,
	// which should be made anew each time. An error is CreateSandbox's, as is ctx. It is
	// called by several goroutines.
	Configure func(ctx context.Context, params *CreateSandboxParams) (*runtime.SandboxConfig, error)
}

// A Driver is the SandboxDriver over a runtime. ExecuteBash and Probe need a shell in
// the sandbox, a [GitConfig] needs git too; files need no program there.
type Driver struct {
	rt   runtime.RuntimeWithSession
	opts Options
}

var _ SandboxDriver = (*Driver)(nil)

// NewDriver returns the driver over a runtime, which stays the caller's.
func NewDriver(rt runtime.RuntimeWithSession, opts *Options) *Driver {
	if opts == nil {
		opts = &Options{}
	}
	return &Driver{rt, *opts}
}

// Name implements [SandboxDriver]: it is the runtime's.
func (d *Driver) Name() string { return d.rt.Name() }

// undoLimit bounds what undoes a failed call, whose context may be over.
const undoLimit = 30 * time.Second

// CreateSandbox implements [SandboxDriver].
func (d *Driver) CreateSandbox(ctx context.Context, params *CreateSandboxParams) (_ *CreatedSandbox, err error) {
	if err := params.validate(); err != nil {
		return nil, err
	}
	config := new(runtime.SandboxConfig)
	if d.opts.Configure != nil {
		given, err := d.opts.Configure(ctx, params)
		if err != nil {
			return nil, err
		}
		*config = *given
	}
	config.ID = params.SandboxID
	config.TTL, config.IdleTimeout = cmp.Or(config.TTL, params.TTL), cmp.Or(config.IdleTimeout, params.IdleTimeout)
	SetOwner(config, params.Owner, params.GitConfig != nil)
	s, err := d.rt.Create(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
			defer cancel()
			err = errors.Join(err, d.DestroySandbox(ctx, s.ID))
		}
	}()
	step.Reached("driver: created")
	if err := d.rt.Start(ctx, s.ID); err != nil {
		return nil, err
	}
	step.Reached("driver: started")
	if params.GitConfig != nil {
		if err := d.ConfigureGit(ctx, s.ID, params.GitConfig); err != nil {
			return nil, err
		}
	}
	return &CreatedSandbox{s.ID, s.ContainerName(), s.CreatedAt}, nil
}

func (p *CreateSandboxParams) validate() error {
	if err := checkID(p.SandboxID); err != nil {
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

// checkID sees to it that nothing but an id gets to the runtime, which takes
// names, and beginnings of ids, too.
func checkID(id string) error {
	if !runtime.IsID(id) {
		return runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", id)
	}
	return nil
}

// DestroySandbox implements [SandboxDriver].
func (d *Driver) DestroySandbox(ctx context.Context, sandboxID string) error {
	if err := checkID(sandboxID); err != nil {
		return err
	}
	return d.rt.Destroy(ctx, sandboxID)
}

// sessionName is the name of the persistent shell; wolffia shell attaches to it.
const sessionName = "main"

// ExecuteBash implements [SandboxDriver].
func (d *Driver) ExecuteBash(ctx context.Context, params *ExecuteBashParams) (*BashResult, error) {
	if err := checkID(params.SandboxID); err != nil {
		return nil, err
	}
	if params.Timeout < 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "timeout %v: it must not be negative", params.Timeout)
	}
	if _, is := d.rt.(runtime.OperationManager); params.OperationID != "" && !is {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "commands of %s do not outlive their callers", d.Name())
	}
	exec := func() (*runtime.ExecResult, error) {
		return d.rt.SessionExec(ctx, params.SandboxID+"/"+sessionName, &runtime.SessionExecRequest{
			Command: params.Command, Cwd: params.Cwd, Timeout: params.Timeout, Operation: params.OperationID,
		})
	}
	r, err := exec()
	if errors.Is(err, runtime.ErrNotFound) { // the first command, or nobody's sandbox
		_, err = d.rt.CreateSession(ctx, params.SandboxID, &runtime.SessionConfig{Name: sessionName})
		if err == nil || errors.Is(err, runtime.ErrExists) {
			r, err = exec()
		}
	}
	if err != nil {
		return nil, err
	}
	result := &BashResult{
		Stdout: r.Stdout, Stderr: r.Stderr, ExitCode: r.ExitCode, Duration: r.Duration, Truncated: r.Truncated(),
	}
	if r.Session != nil {
		result.Cwd, result.SessionEnded, result.Restored = r.Session.Cwd, r.Session.Ended, r.Session.Restored
	}
	if r.TimedOut {
		return nil, &TimeoutError{params.Timeout, result}
	}
	return result, nil
}

// CancelOperation interrupts a command that was asked for with an OperationID.
func (d *Driver) CancelOperation(ctx context.Context, sandboxID, operationID string) error {
	if err := checkID(sandboxID); err != nil {
		return err
	}
	m, is := d.rt.(runtime.OperationManager)
	if !is {
		return runtime.Errorf(runtime.ErrUnsupported, "commands of %s do not outlive their callers", d.Name())
	}
	err := m.CancelOperation(ctx, sandboxID+"/"+sessionName, operationID)
	if errors.Is(err, runtime.ErrNotFound) {
		return runtime.Errorf(runtime.ErrNotFound, "no operation %q", operationID)
	}
	return err
}

// ScanRunningSandboxes implements [SandboxDriver].
func (d *Driver) ScanRunningSandboxes(ctx context.Context) ([]registry.Metadata, error) {
	return Scan(ctx, d.rt)
}

// LostSandboxes is [Lost].
func (d *Driver) LostSandboxes(ctx context.Context) ([]registry.Metadata, error) {
	return Lost(ctx, d.rt)
}

// State is where the sandbox is in its life; one whose lifetime is over is
// [runtime.ErrNotFound].
func (d *Driver) State(ctx context.Context, sandboxID string) (runtime.State, error) {
	if err := checkID(sandboxID); err != nil {
		return "", err
	}
	s, err := d.rt.Get(ctx, sandboxID)
	if err != nil {
		return "", err
	}
	if s.Expired != "" {
		return "", runtime.Errorf(runtime.ErrNotFound, "sandbox %s is gone: %s", sandboxID, s.Expired.Why())
	}
	return s.State, nil
}

// Touch is a use of a sandbox: its idle time begins anew. If ttl is not nil, that
// is its time to live from now on, 0 none.
func (d *Driver) Touch(ctx context.Context, sandboxID string, ttl *time.Duration) error {
	if err := checkID(sandboxID); err != nil {
		return err
	}
	rt, is := d.rt.(runtime.Renewer)
	switch {
	case !is:
		return runtime.Errorf(runtime.ErrUnsupported, "%s has no lifetimes", d.Name())
	case ttl == nil:
		return rt.Touch(ctx, sandboxID)
	}
	_, err := rt.Renew(ctx, sandboxID, *ttl)
	return err
}

// Probe finds out whether commands can be run in a sandbox, beside what its shell
// may be busy with; nil: they can.
func (d *Driver) Probe(ctx context.Context, sandboxID string) error {
	if err := checkID(sandboxID); err != nil {
		return err
	}
	r, err := d.inside(ctx, sandboxID, nil, "sh", "-c", "echo alive")
	if err != nil {
		return err
	}
	if r.ExitCode != 0 || string(r.Stdout) != "alive\n" {
		return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s does not run commands as it should", sandboxID)
	}
	return nil
}

// insideLimit is how long a program of the driver's may take in a sandbox.
const insideLimit = time.Minute

// inside runs a program of the driver's in the sandbox, with the rights of any
// process there. The result is the sandbox's word.
func (d *Driver) inside(ctx context.Context, sandboxID string, stdin []byte, command ...string) (*runtime.ExecResult, error) {
	req := &runtime.ExecRequest{Command: command, Timeout: insideLimit, MaxOutput: MaxFile}
	if stdin != nil {
		req.Stdin = bytes.NewReader(stdin)
	}
	r, err := d.rt.Exec(ctx, sandboxID, req)
	var start *runtime.StartError
	if errors.As(err, &start) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s cannot run %s: %s", sandboxID, command[0], start.Message)
	}
	if err == nil && r.TimedOut {
		err = runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %s has not ended in %v", sandboxID, command[0], insideLimit)
	}
	return r, err
}
