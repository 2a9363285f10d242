package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/service/registry"
)

// A Service keeps at most one sandbox per owner. For another owner a sandbox does not exist ([runtime.ErrNotFound]); an
// incomplete owner is [runtime.ErrInvalid]. A Service is safe for concurrent use. A state directory has one service at a
// time; when it is killed its sandboxes keep running, and the next service finds them.
//
// If its driver is a [Fleet], calls about a sandbox also take another one of the Fleet that is the owner's; otherwise
// [Service.Inside] and [Service.Review] are [runtime.ErrUnsupported].
type Service struct {
	driver   SandboxDriver
	fleet    *Fleet // the driver; nil: it is another one
	registry *registry.Registry
	log      *slog.Logger
	opts     ServiceOptions

	reconciling sync.RWMutex // read-locked while sandboxes are created and destroyed
	owners      locks[registry.Owner]
}

// ServiceOptions are a service's options. nil and the zero value are the defaults.
type ServiceOptions struct {
	// Log receives what the service does without a request; nil disables logging.
	Log *slog.Logger
	// ProbeLimit is how long EnsureSandbox waits for a sandbox to answer before it
	// replaces it; 0 means 10 s.
	ProbeLimit time.Duration
	// TTL and IdleTimeout are those of new sandboxes, where the driver's own
	// configuration has none; 0 means none. See [runtime.Runtime].
	TTL, IdleTimeout time.Duration
}

// Open returns a service over a driver, which the caller closes, and a state
// directory, which must exist. It reconciles before it returns, and replaces a damaged
// registry. If another service uses the directory, the error wraps
// [registry.ErrInUse]. The caller closes the service.
func Open(ctx context.Context, driver SandboxDriver, stateDir string, opts *ServiceOptions) (_ *Service, err error) {
	if opts == nil {
		opts = &ServiceOptions{}
	}
	fleet, _ := driver.(*Fleet)
	s := &Service{driver: driver, fleet: fleet, log: cmp.Or(opts.Log, slog.New(slog.DiscardHandler)), opts: *opts}
	s.opts.ProbeLimit = cmp.Or(opts.ProbeLimit, 10*time.Second)
	if err := errors.Join(runtime.CheckLifetime(opts.TTL), runtime.CheckLifetime(opts.IdleTimeout)); err != nil {
		return nil, err
	}
	s.registry, err = registry.Open(stateDir, s.log)
	if err != nil {
		return nil, err
	}
	if err := s.Reconcile(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close releases the state directory. The sandboxes keep running.
func (s *Service) Close() error { return s.registry.Close() }

// CreateSandbox creates the owner's sandbox. If the owner has one, the error is a
// [*registry.ConflictError], of class [runtime.ErrConflict]; of any number of
// concurrent callers one succeeds. more may be nil.
func (s *Service) CreateSandbox(ctx context.Context, o registry.Owner, more *Params) (registry.Metadata, error) {
	unlock, err := s.lock(ctx, o)
	if err != nil {
		return registry.Metadata{}, err
	}
	defer unlock()
	has, err := s.registry.FindByOwner(o)
	switch {
	case err == nil && s.exists(ctx, has.SandboxID):
		return registry.Metadata{}, &registry.ConflictError{SandboxID: has.SandboxID}
	case err == nil:
		if err := s.registry.Unregister(has.SandboxID); err != nil {
			return registry.Metadata{}, err
		}
		s.log.Info(stale, "sandboxId", has.SandboxID)
	case !errors.Is(err, runtime.ErrNotFound):
		return registry.Metadata{}, err
	}
	return s.provision(ctx, o, more)
}

// EnsureSandbox returns the owner's sandbox, and created = true if it had to create
// it: the owner had none, or it did not answer and was replaced. One with a copied codebase is
// not replaced, since its changes would be lost: it is started anew, and is [runtime.ErrUnavailable] if
// it does not answer then. Nothing is replaced while the service lacks descriptors or memory: see [runtime.Exhausted]. more may be nil. Its GitConfig is also configured in a sandbox that existed, whose
// network stays as it is; with the setting cow, one that works on the host's directory itself is [runtime.ErrConflict].
func (s *Service) EnsureSandbox(ctx context.Context, o registry.Owner, more *Params) (m registry.Metadata, created bool, err error) {
	unlock, err := s.lock(ctx, o)
	if err != nil {
		return registry.Metadata{}, false, err
	}
	defer unlock()
	m, err = s.registry.FindByOwner(o)
	if errors.Is(err, runtime.ErrNotFound) {
		m, err = s.provision(ctx, o, more)
		return m, err == nil, err
	}
	if err != nil {
		return registry.Metadata{}, false, err
	}
	unhealthy := error(runtime.Errorf(runtime.ErrNotFound, "the sandbox is gone"))
	if s.exists(ctx, m.SandboxID) {
		probing, cancel := context.WithTimeout(ctx, s.opts.ProbeLimit)
		unhealthy = s.driver.Probe(probing, m.SandboxID)
		cancel()
	}
	copied := false
	if ctx.Err() == nil && !errors.Is(unhealthy, runtime.ErrNotFound) {
		copied, err = s.driver.Copied(ctx, m.SandboxID) // false with an error: a damaged sandbox cannot be started anew
	}
	switch {
	case ctx.Err() != nil: // the caller gave up: the sandbox may be healthy
		return registry.Metadata{}, false, ctx.Err()
	case runtime.Exhausted(unhealthy): // the service lacks descriptors or memory: likewise
		return registry.Metadata{}, false, unhealthy
	case runtime.Exhausted(err), unhealthy == nil && err != nil:
		return registry.Metadata{}, false, err
	case unhealthy == nil && !copied && more != nil && more.Settings.Truth("cow"):
		return registry.Metadata{}, false, runtime.Errorf(runtime.ErrConflict, "sandbox %s works on the host's directory itself: destroy it to get one with cow", m.SandboxID)
	case unhealthy != nil && copied:
		if unhealthy = s.revive(ctx, m.SandboxID, unhealthy); unhealthy != nil {
			return registry.Metadata{}, false, unhealthy
		}
		fallthrough
	case unhealthy == nil:
		m, err = s.configureGit(ctx, m, more.git())
		return m, false, err
	}
	s.log.Warn("a sandbox does not answer and is replaced", "sandboxId", m.SandboxID, "error", unhealthy)
	if err := s.destroy(ctx, m.SandboxID); err != nil { // its owner must not have two
		return registry.Metadata{}, false, err
	}
	m, err = s.provision(ctx, o, more)
	return m, err == nil, err
}

// revive starts a sandbox anew that does not answer.
func (s *Service) revive(ctx context.Context, id string, unhealthy error) error {
	s.log.Warn("a sandbox does not answer and is started anew: it has changes of its own", "sandboxId", id, "error", unhealthy)
	err := s.driver.Restart(ctx, id)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, s.opts.ProbeLimit)
		defer cancel()
		err = s.driver.Probe(ctx, id)
	}
	if err != nil && ctx.Err() == nil {
		err = runtime.Errorf(runtime.ErrUnavailable, "sandbox %s does not answer, and is not replaced, since its changes would be lost: look at them with the call changes, or destroy it: %w", id, err)
	}
	return err
}

// configureGit configures git in a sandbox that existed, and records it.
func (s *Service) configureGit(ctx context.Context, m registry.Metadata, git *GitConfig) (registry.Metadata, error) {
	if git == nil {
		return m, nil
	}
	if err := s.driver.ConfigureGit(ctx, m.SandboxID, git); err != nil {
		return m, err
	}
	m.GitConfigured = true
	return m, s.registry.Register(m)
}

// exists reports whether a registered sandbox still exists, running or not. It
// returns true if the driver cannot tell.
func (s *Service) exists(ctx context.Context, id string) bool {
	_, err := s.driver.State(ctx, id)
	return !errors.Is(err, runtime.ErrNotFound)
}

// provision creates a sandbox for an owner whose lock the caller holds. Until it runs
// it is reserved, so that the next service destroys what a crash leaves.
func (s *Service) provision(ctx context.Context, o registry.Owner, more *Params) (_ registry.Metadata, err error) {
	params := Params{}
	if more != nil {
		params = *more
	}
	id := s.fleet.newID(&params)
	params.SandboxID, params.Owner, params.TTL, params.IdleTimeout = id, o, s.opts.TTL, s.opts.IdleTimeout
	m := registry.Metadata{SandboxID: id, ContainerName: id, Owner: o, CreatedAt: time.Now().UnixMilli(), GitConfigured: params.GitConfig != nil}
	var conflict *registry.ConflictError
	if err = s.registry.Reserve(m); errors.As(err, &conflict) {
		// No other call creates one for this owner now: it was left half created.
		if err = s.clear(ctx, conflict.SandboxID); err == nil {
			err = s.registry.Reserve(m)
		}
	}
	if err != nil {
		return registry.Metadata{}, err
	}
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		if undo := s.destroy(ctx, id); undo != nil { // it stays reserved for the next attempt
			s.log.Error("cannot destroy a sandbox that failed to start", "sandboxId", id, "error", undo)
		}
	}()
	step.Reached("service: reserved")
	created, err := s.driver.CreateSandbox(ctx, &params)
	if err != nil {
		return registry.Metadata{}, err
	}
	step.Reached("service: made")
	m.ContainerName, m.CreatedAt = created.ContainerName, created.CreatedAt.UnixMilli()
	if err := s.registry.Register(m); err != nil {
		return registry.Metadata{}, err
	}
	step.Reached("service: registered")
	return m, nil
}

// DestroySandbox destroys the owner's sandbox; it returns when all of it is gone.
func (s *Service) DestroySandbox(ctx context.Context, o registry.Owner, sandboxID string) error {
	unlock, err := s.lock(ctx, o)
	if err != nil {
		return err
	}
	defer unlock()
	of, err := s.verify(ctx, o, sandboxID)
	if err != nil {
		return err
	}
	if of != nil {
		return s.fleet.Destroy(ctx, Caller{Owner: o}, sandboxID)
	}
	return s.destroy(ctx, sandboxID)
}

// destroy destroys a sandbox and removes its entry; one that is gone is no error. It
// reserves the sandbox first: no call finds it any more, and the next service destroys
// what a crash leaves.
func (s *Service) destroy(ctx context.Context, id string) error {
	m, err := s.registry.GetMetadata(id)
	registered := err == nil
	if registered {
		err = s.registry.Reserve(m)
	}
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	step.Reached("service: no longer found")
	err = s.driver.DestroySandbox(ctx, id)
	step.Reached("service: destroyed")
	switch {
	case err == nil || errors.Is(err, runtime.ErrNotFound):
		return s.registry.Unregister(id)
	case registered:
		err = errors.Join(err, s.registry.Register(m))
	}
	return err
}

// FindSandbox returns the owner's sandbox; [runtime.ErrNotFound] if the owner has none,
// or it is gone.
func (s *Service) FindSandbox(ctx context.Context, o registry.Owner) (registry.Metadata, error) {
	if err := o.Validate(); err != nil {
		return registry.Metadata{}, err
	}
	m, err := s.registry.FindByOwner(o)
	if err == nil && !s.exists(ctx, m.SandboxID) {
		return registry.Metadata{}, runtime.Errorf(runtime.ErrNotFound, "the owner's sandbox is gone")
	}
	return m, err
}

// TouchSandbox is [SandboxDriver].Touch for the owner's sandbox.
func (s *Service) TouchSandbox(ctx context.Context, o registry.Owner, sandboxID string, ttl *time.Duration) error {
	if _, err := s.verify(ctx, o, sandboxID); err != nil {
		return err
	}
	return s.driver.Touch(ctx, sandboxID, ttl)
}

// ScanRunningSandboxes is [SandboxDriver].ScanRunningSandboxes. It returns the
// sandboxes of all owners: the caller must be allowed to know them.
func (s *Service) ScanRunningSandboxes(ctx context.Context) ([]registry.Metadata, error) {
	return s.driver.ScanRunningSandboxes(ctx)
}

// ExecuteBash is [SandboxDriver].ExecuteBash in the owner's sandbox.
func (s *Service) ExecuteBash(ctx context.Context, o registry.Owner, sandboxID string, cmd *runtime.Command) (*runtime.Result, error) {
	if _, err := s.verify(ctx, o, sandboxID); err != nil {
		return nil, err
	}
	return s.driver.ExecuteBash(ctx, sandboxID, cmd)
}

// CancelOperation is [SandboxDriver].CancelOperation in the owner's sandbox.
func (s *Service) CancelOperation(ctx context.Context, o registry.Owner, sandboxID, operationID string) error {
	if _, err := s.verify(ctx, o, sandboxID); err != nil {
		return err
	}
	return s.driver.CancelOperation(ctx, sandboxID, operationID)
}

// ReadFile is [SandboxDriver].ReadFile in the owner's sandbox.
func (s *Service) ReadFile(ctx context.Context, o registry.Owner, sandboxID, path string) ([]byte, error) {
	if _, err := s.verify(ctx, o, sandboxID); err != nil {
		return nil, err
	}
	return s.driver.ReadFile(ctx, sandboxID, path)
}

// WriteFiles is [SandboxDriver].WriteFiles in the owner's sandbox.
func (s *Service) WriteFiles(ctx context.Context, o registry.Owner, sandboxID string, files map[string]File) (updated int, err error) {
	if _, err := s.verify(ctx, o, sandboxID); err != nil {
		return 0, err
	}
	return s.driver.WriteFiles(ctx, sandboxID, files)
}

// verify returns an error unless the sandbox is the owner's. The error for another
// owner's sandbox is that for one which does not exist. It returns a sandbox of the service's Fleet, and nil for the one
// that CreateSandbox has made.
func (s *Service) verify(ctx context.Context, o registry.Owner, sandboxID string) (*FleetSandbox, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	m, err := s.registry.GetMetadata(sandboxID)
	switch {
	case errors.Is(err, runtime.ErrNotFound) && s.fleet != nil:
		return s.fleet.Get(ctx, Caller{Owner: o}, sandboxID)
	case errors.Is(err, runtime.ErrNotFound), err == nil && m.Owner != o:
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", sandboxID)
	}
	return nil, err
}

// lock keeps other calls from creating and destroying the owner's sandbox.
func (s *Service) lock(ctx context.Context, o registry.Owner) (unlock func(), err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	release, err := s.owners.lock(ctx, o)
	if err != nil {
		return nil, err
	}
	s.reconciling.RLock()
	return func() {
		s.reconciling.RUnlock()
		release()
	}, nil
}
