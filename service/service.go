package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"wolffia/internal/step"
	"wolffia/runtime"
	"wolffia/service/registry"
)

// A Service gives one sandbox to each owner, and lets nobody at another's: who
// asks for one of somebody else is [runtime.ErrDenied], for one that is not
// known [runtime.ErrNotFound]. An owner who is not named in full is
// [runtime.ErrInvalid]. It is safe for concurrent use. There is one service on a
// state directory at a time; when it is killed its sandboxes go on, and the next
// one finds them.
type Service struct {
	driver   SandboxDriver
	registry *registry.Registry
	log      *slog.Logger
	limit    time.Duration
	ttl      time.Duration
	idle     time.Duration

	making sync.RWMutex // read-locked while sandboxes are made and destroyed
	owners locks
}

// ServiceOptions are a service's. nil and the zero value are the defaults.
type ServiceOptions struct {
	// Log is told what the service does unasked; nil means nobody is.
	Log *slog.Logger
	// ProbeLimit is how long EnsureSandbox waits for a sandbox to answer before
	// it is replaced; 0 means 10 s.
	ProbeLimit time.Duration
	// TTL and IdleTimeout are those of the sandboxes that it makes, unless the
	// driver's own configuration has others; 0: none. See [runtime.Renewer].
	TTL, IdleTimeout time.Duration
}

// A prober is a driver that can tell whether a sandbox works, beside what its
// shell is busy with.
type prober interface {
	Probe(ctx context.Context, sandboxID string) error
}

// A toucher is a driver whose sandboxes may have a lifetime.
type toucher interface {
	Touch(ctx context.Context, sandboxID string, ttl *time.Duration) error
}

// A stater is a driver that knows also of sandboxes that do not run.
type stater interface {
	State(ctx context.Context, sandboxID string) (runtime.State, error)
}

// A loser is a driver that can tell what was lost of sandboxes: see [Lost].
type loser interface {
	LostSandboxes(ctx context.Context) ([]registry.Metadata, error)
}

// A gitConfigurer is a driver that can configure git later than at the start.
type gitConfigurer interface {
	ConfigureGit(ctx context.Context, sandboxID string, g *GitConfig) error
}

// A canceler is a driver whose commands can outlive their callers.
type canceler interface {
	CancelOperation(ctx context.Context, sandboxID, operationID string) error
}

// Open returns the service over a driver and the state directory, which
// must be there. It reconciles before it returns; an index that is damaged is
// made anew. If another service has the directory, the error wraps
// [registry.ErrInUse]. The caller closes it; the driver stays the caller's.
func Open(ctx context.Context, driver SandboxDriver, stateDir string, opts *ServiceOptions) (_ *Service, err error) {
	if opts == nil {
		opts = &ServiceOptions{}
	}
	s := &Service{driver: driver, log: cmp.Or(opts.Log, slog.New(slog.DiscardHandler)), limit: cmp.Or(opts.ProbeLimit, 10*time.Second), ttl: opts.TTL, idle: opts.IdleTimeout}
	if err := errors.Join(runtime.CheckLifetime(s.ttl), runtime.CheckLifetime(s.idle)); err != nil {
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

// Close lets go of the state directory. The sandboxes go on.
func (s *Service) Close() error { return s.registry.Close() }

// CreateSandbox makes the owner's sandbox. An owner that has one already is a
// [*registry.ConflictError], which is a [runtime.ErrConflict]; of any number of
// callers one succeeds.
func (s *Service) CreateSandbox(ctx context.Context, o registry.Owner, git *GitConfig) (registry.Metadata, error) {
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
		if err := s.forget(has, "its sandbox is gone"); err != nil {
			return registry.Metadata{}, err
		}
	case !errors.Is(err, runtime.ErrNotFound):
		return registry.Metadata{}, err
	}
	return s.provision(ctx, o, git)
}

// EnsureSandbox returns the owner's sandbox. If there is none, or it does not
// answer, it is made, in the place of the one that does not; created says so. git,
// if it is not nil, is configured also in one that was there.
func (s *Service) EnsureSandbox(ctx context.Context, o registry.Owner, git *GitConfig) (m registry.Metadata, created bool, err error) {
	unlock, err := s.lock(ctx, o)
	if err != nil {
		return registry.Metadata{}, false, err
	}
	defer unlock()
	m, err = s.registry.FindByOwner(o)
	if errors.Is(err, runtime.ErrNotFound) {
		m, err = s.provision(ctx, o, git)
		return m, err == nil, err
	}
	if err != nil {
		return registry.Metadata{}, false, err
	}
	unhealthy := error(runtime.Errorf(runtime.ErrNotFound, "it is gone"))
	if s.exists(ctx, m.SandboxID) {
		unhealthy = s.probe(ctx, m.SandboxID)
	}
	switch {
	case ctx.Err() != nil: // that the caller has no time says nothing of the sandbox
		return registry.Metadata{}, false, ctx.Err()
	case unhealthy == nil:
		m, err = s.configureGit(ctx, m, git)
		return m, false, err
	}
	s.log.Warn("a sandbox does not answer and is replaced", "sandboxId", m.SandboxID, "error", unhealthy)
	if err := s.destroy(ctx, m.SandboxID); err != nil { // or there would be two
		return registry.Metadata{}, false, err
	}
	m, err = s.provision(ctx, o, git)
	return m, err == nil, err
}

// probe reports why a sandbox does not work; nil: it does.
func (s *Service) probe(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if p, is := s.driver.(prober); is {
		return p.Probe(ctx, id)
	}
	_, err := s.driver.ExecuteBash(ctx, &ExecuteBashParams{SandboxID: id, Command: ":"})
	return err
}

// configureGit configures git in a sandbox that was there, and notes it.
func (s *Service) configureGit(ctx context.Context, m registry.Metadata, git *GitConfig) (registry.Metadata, error) {
	if git == nil {
		return m, nil
	}
	g, is := s.driver.(gitConfigurer)
	if !is {
		return m, runtime.Errorf(runtime.ErrUnsupported, "%s configures git only in a new sandbox", s.driver.Name())
	}
	if err := g.ConfigureGit(ctx, m.SandboxID, git); err != nil {
		return m, err
	}
	m.GitConfigured = true
	return m, s.registry.Register(m)
}

// exists reports whether a sandbox that is registered is still there, running or
// not. If that cannot be told, it is.
func (s *Service) exists(ctx context.Context, id string) bool {
	if st, is := s.driver.(stater); is {
		_, err := st.State(ctx, id)
		return !errors.Is(err, runtime.ErrNotFound)
	}
	return true
}

// provision makes a sandbox for an owner whose lock is held. While it is made it
// is reserved, so that what a crash leaves is known to be half made.
func (s *Service) provision(ctx context.Context, o registry.Owner, git *GitConfig) (_ registry.Metadata, err error) {
	id := runtime.NewID()
	m := registry.Metadata{SandboxID: id, ContainerName: id, Owner: o, CreatedAt: time.Now().UnixMilli(), GitConfigured: git != nil}
	var conflict *registry.ConflictError
	if err = s.registry.Reserve(m); errors.As(err, &conflict) {
		// Nobody else makes one for this owner now: it was left half made.
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
		if undo := s.destroy(ctx, id); undo != nil { // it stays reserved, to be cleared later
			s.log.Error("a sandbox that failed to start is left", "sandboxId", id, "error", undo)
		}
	}()
	step.Reached("service: reserved")
	made, err := s.driver.CreateSandbox(ctx, &CreateSandboxParams{SandboxID: id, Owner: o, GitConfig: git, TTL: s.ttl, IdleTimeout: s.idle})
	if err != nil {
		return registry.Metadata{}, err
	}
	step.Reached("service: made")
	m.ContainerName, m.CreatedAt = made.ContainerName, made.CreatedAt.UnixMilli()
	if err := s.registry.Register(m); err != nil {
		return registry.Metadata{}, err
	}
	step.Reached("service: registered")
	return m, nil
}

// DestroySandbox ends the owner's sandbox; it returns when all of it is gone.
func (s *Service) DestroySandbox(ctx context.Context, o registry.Owner, sandboxID string) error {
	unlock, err := s.lock(ctx, o)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := s.verify(o, sandboxID); err != nil {
		return err
	}
	return s.destroy(ctx, sandboxID)
}

// destroy ends a sandbox, and then forgets it; one that is gone is no error. From
// its beginning on nobody finds it, and what a crash leaves is half made.
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

// FindSandbox returns the owner's sandbox; [runtime.ErrNotFound] if there is
// none, or none any more.
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

// TouchSandbox is a use of the owner's sandbox: its idle time begins anew. If ttl
// is not nil, that is its time to live from now on, 0 none.
func (s *Service) TouchSandbox(ctx context.Context, o registry.Owner, sandboxID string, ttl *time.Duration) error {
	if _, err := s.verify(o, sandboxID); err != nil {
		return err
	}
	t, is := s.driver.(toucher)
	if !is {
		return runtime.Errorf(runtime.ErrUnsupported, "%s has no lifetimes", s.driver.Name())
	}
	return t.Touch(ctx, sandboxID, ttl)
}

// ScanRunningSandboxes is [SandboxDriver].ScanRunningSandboxes: of all owners, and
// so for who may know of all.
func (s *Service) ScanRunningSandboxes(ctx context.Context) ([]registry.Metadata, error) {
	return s.driver.ScanRunningSandboxes(ctx)
}

// ExecuteBash is [SandboxDriver].ExecuteBash in the owner's sandbox.
func (s *Service) ExecuteBash(ctx context.Context, o registry.Owner, params *ExecuteBashParams) (*BashResult, error) {
	if _, err := s.verify(o, params.SandboxID); err != nil {
		return nil, err
	}
	return s.driver.ExecuteBash(ctx, params)
}

// CancelOperation interrupts a command of the owner's sandbox that was asked for
// with this [ExecuteBashParams].OperationID. One that is over is no error, one
// that is not known [runtime.ErrNotFound].
func (s *Service) CancelOperation(ctx context.Context, o registry.Owner, sandboxID, operationID string) error {
	if _, err := s.verify(o, sandboxID); err != nil {
		return err
	}
	c, is := s.driver.(canceler)
	if !is {
		return runtime.Errorf(runtime.ErrUnsupported, "commands of %s do not outlive their callers", s.driver.Name())
	}
	return c.CancelOperation(ctx, sandboxID, operationID)
}

// ReadFile is [SandboxDriver].ReadFile in the owner's sandbox.
func (s *Service) ReadFile(ctx context.Context, o registry.Owner, sandboxID, path string) ([]byte, error) {
	if _, err := s.verify(o, sandboxID); err != nil {
		return nil, err
	}
	return s.driver.ReadFile(ctx, sandboxID, path)
}

// WriteFiles is [SandboxDriver].WriteFiles in the owner's sandbox.
func (s *Service) WriteFiles(ctx context.Context, o registry.Owner, sandboxID string, files map[string]File) (updated int, err error) {
	if _, err := s.verify(o, sandboxID); err != nil {
		return 0, err
	}
	return s.driver.WriteFiles(ctx, sandboxID, files)
}

// verify sees to it that a sandbox is the owner's. What it says of any other is
// the same for all of them.
func (s *Service) verify(o registry.Owner, sandboxID string) (registry.Metadata, error) {
	if err := o.Validate(); err != nil {
		return registry.Metadata{}, err
	}
	m, err := s.registry.GetMetadata(sandboxID)
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		return registry.Metadata{}, runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", sandboxID)
	case err != nil:
		return registry.Metadata{}, err
	case m.Owner != o:
		return registry.Metadata{}, runtime.Errorf(runtime.ErrDenied, "sandbox %s is not yours", m.SandboxID)
	}
	return m, nil
}

// lock keeps others from making and destroying the owner's sandbox.
func (s *Service) lock(ctx context.Context, o registry.Owner) (unlock func(), err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	release, err := s.owners.lock(ctx, o)
	if err != nil {
		return nil, err
	}
	s.making.RLock()
	return func() {
		s.making.RUnlock()
		release()
	}, nil
}
