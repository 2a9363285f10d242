package service

import (
	"context"
	"errors"
	"time"

	"wolffia/runtime"
	"wolffia/service/registry"
)

// A SandboxDriver creates sandboxes and works in them. It does not check who owns
// them: that is for its caller, with a [SandboxRegistry]. Its methods may be called concurrently. For an unknown
// sandbox they return [runtime.ErrNotFound]; for one that is not running,
// those that work in it return [runtime.ErrConflict].
type SandboxDriver interface {
	// Name returns the driver's name.
	Name() string

	// CreateSandbox creates a sandbox with the SandboxID of params, and starts it. If it fails, nothing is left.
	CreateSandbox(ctx context.Context, params *Params) (*CreatedSandbox, error)

	// DestroySandbox destroys a sandbox; it returns when all of it is gone.
	DestroySandbox(ctx context.Context, sandboxID string) error

	// ExecuteBash is [Owned.ExecuteBash].
	ExecuteBash(ctx context.Context, sandboxID string, cmd *runtime.Command) (*runtime.Result, error)

	// ReadFile is [Owned.ReadFile].
	ReadFile(ctx context.Context, sandboxID, path string) ([]byte, error)

	// WriteFiles is [Owned.WriteFiles].
	WriteFiles(ctx context.Context, sandboxID string, files map[string]File) (updated int, err error)

	// ScanRunningSandboxes returns the running sandboxes whose owner labels are
	// complete and valid.
	ScanRunningSandboxes(ctx context.Context) ([]registry.Metadata, error)
}

// A CreatedSandbox is a sandbox that is running.
type CreatedSandbox struct {
	SandboxID     string
	ContainerName string
	CreatedAt     time.Time // to the millisecond
}

// A SandboxRegistry is the index of a [SandboxDriver]'s sandboxes.
type SandboxRegistry interface {
	Register(m registry.Metadata) error
	Unregister(sandboxID string) error
	GetMetadata(sandboxID string) (registry.Metadata, error)
	FindByOwner(o registry.Owner) (registry.Metadata, error)
	Reconcile(found []registry.Metadata) (*registry.Changes, error)
}

var _ SandboxRegistry = (*registry.Registry)(nil)

// Driver returns the sandboxes of a service as a driver, whose caller must be allowed to use those of all owners.
func (s *Service) Driver() SandboxDriver { return driver{s} }

type driver struct{ s *Service }

func (d driver) Name() string { return d.s.rt.Name() }

func (d driver) CreateSandbox(ctx context.Context, p *Params) (*CreatedSandbox, error) {
	if !runtime.IsID(p.SandboxID) {
		return nil, runtime.Errorf(runtime.ErrInvalid, "sandbox id %q: an id is twelve of a-z and 0-9", p.SandboxID)
	}
	if err := errors.Join(p.Owner.Validate(), p.GitConfig.validate()); err != nil {
		return nil, err
	}
	b, err := d.s.create(ctx, p, nil)
	if err != nil {
		return nil, err
	}
	return &CreatedSandbox{b.ID, b.ContainerName(), b.CreatedAt}, nil
}

func (d driver) DestroySandbox(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return d.s.destroyed(ctx, id)
}

func (d driver) ExecuteBash(ctx context.Context, id string, cmd *runtime.Command) (*runtime.Result, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return d.s.Owned().bash(ctx, id, cmd)
}

func (d driver) ReadFile(ctx context.Context, id, path string) ([]byte, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return d.s.Owned().read(ctx, id, path)
}

func (d driver) WriteFiles(ctx context.Context, id string, files map[string]File) (updated int, err error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	return d.s.Owned().write(ctx, id, files)
}

func (d driver) ScanRunningSandboxes(ctx context.Context) ([]registry.Metadata, error) {
	return Scan(ctx, d.s.rt)
}
