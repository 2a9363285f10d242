package service

import (
	"context"
	"errors"
	"time"

	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/service/registry"
)

// own locks an owner's own sandbox.
func (s *Service) own(ctx context.Context, o registry.Owner) (unlock func(), err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return s.lock(ctx, keyOf{owner: o})
}

// CreateSandbox creates the owner's own sandbox. If the owner has one, the error is a
// [*registry.ConflictError], of class [runtime.ErrConflict]; of any number of
// concurrent callers one succeeds. more may be nil.
func (s *Service) CreateSandbox(ctx context.Context, o registry.Owner, more *Params) (registry.Metadata, error) {
	unlock, err := s.own(ctx, o)
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

// EnsureSandbox returns the owner's own sandbox, and created = true if it had to create
// it: the owner had none, or it did not answer and was replaced. One with a copied codebase is
// not replaced, since its changes would be lost: it is started anew, and is [runtime.ErrUnavailable] if
// it does not answer then. Nothing is replaced while the service lacks descriptors or memory: see [runtime.Exhausted]. more may be nil. Its GitConfig is also configured in a sandbox that existed. If that has not
// all the settings that more sets, also after a restart of the service, the error is of class [runtime.ErrConflict].
func (s *Service) EnsureSandbox(ctx context.Context, o registry.Owner, more *Params) (m registry.Metadata, created bool, err error) {
	unlock, err := s.own(ctx, o)
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
	b, err := s.look(ctx, m.SandboxID)
	unhealthy := err
	if !errors.Is(err, runtime.ErrNotFound) { // it exists, or that cannot be told
		probing, cancel := context.WithTimeout(ctx, s.options().ProbeLimit)
		unhealthy = probe(probing, s.rt, m.SandboxID)
		cancel()
	}
	copied := err == nil && b.CopyOnWrite // a damaged sandbox cannot be started anew
	switch {
	case ctx.Err() != nil: // the caller gave up: the sandbox may be healthy
		return registry.Metadata{}, false, ctx.Err()
	case runtime.Exhausted(unhealthy): // the service lacks descriptors or memory: likewise
		return registry.Metadata{}, false, unhealthy
	case runtime.Exhausted(err), unhealthy == nil && err != nil:
		return registry.Metadata{}, false, err
	}
	if more != nil && (unhealthy == nil || copied) { // else it is replaced
		if err := differs(b, more); err != nil {
			return registry.Metadata{}, false, err
		}
	}
	switch {
	case unhealthy != nil && copied:
		if unhealthy = s.revive(ctx, m.SandboxID, unhealthy); unhealthy != nil {
			return registry.Metadata{}, false, unhealthy
		}
		fallthrough
	case unhealthy == nil:
		if more != nil && more.GitConfig != nil {
			if err := configureGit(ctx, s.rt, m.SandboxID, more.GitConfig); err != nil {
				return m, false, err
			}
			m.GitConfigured = true
			err = s.registry.Register(m)
		}
		return m, false, err
	}
	s.log.Warn("a sandbox does not answer and is replaced", "sandboxId", m.SandboxID, "error", unhealthy)
	if err := s.remove(ctx, m.SandboxID); err != nil { // its owner must not have two
		return registry.Metadata{}, false, err
	}
	m, err = s.provision(ctx, o, more)
	return m, err == nil, err
}

// revive starts a sandbox anew that does not answer.
func (s *Service) revive(ctx context.Context, id string, unhealthy error) error {
	s.log.Warn("a sandbox does not answer and is started anew: it has changes of its own", "sandboxId", id, "error", unhealthy)
	err := restart(ctx, s.rt, id)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, s.options().ProbeLimit)
		defer cancel()
		err = probe(ctx, s.rt, id)
	}
	if err != nil && ctx.Err() == nil {
		err = runtime.Errorf(runtime.ErrUnavailable, "sandbox %s does not answer, and is not replaced, since its changes would be lost: look at them with the call changes, or destroy it: %w", id, err)
	}
	return err
}

// look returns a sandbox, running or not; [runtime.ErrNotFound] also if its lifetime is over.
func (s *Service) look(ctx context.Context, id string) (*runtime.Sandbox, error) {
	b, err := s.rt.Get(ctx, id)
	if err == nil {
		err = current(b)
	}
	return b, err
}

// exists reports whether a registered sandbox still exists, running or not. It
// returns true if the runtime cannot tell.
func (s *Service) exists(ctx context.Context, id string) bool {
	_, err := s.look(ctx, id)
	return !errors.Is(err, runtime.ErrNotFound)
}

// provision creates a sandbox for an owner whose lock the caller holds. Until it runs
// it is reserved, so that the next service destroys what a crash leaves.
func (s *Service) provision(ctx context.Context, o registry.Owner, more *Params) (_ registry.Metadata, err error) {
	params := Params{}
	if more != nil {
		params = *more
	}
	if err := params.GitConfig.validate(); err != nil {
		return registry.Metadata{}, err
	}
	id := s.options().newID(&params)
	params.SandboxID, params.Owner = id, o
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
		if undo := s.remove(ctx, id); undo != nil { // it stays reserved for the next attempt
			s.log.Error("cannot destroy a sandbox that failed to start", "sandboxId", id, "error", undo)
		}
	}()
	step.Reached("service: reserved")
	created, err := s.create(ctx, &params, nil)
	if err != nil {
		return registry.Metadata{}, err
	}
	step.Reached("service: made")
	m.ContainerName, m.CreatedAt = created.ContainerName(), created.CreatedAt.UnixMilli()
	if err := s.registry.Register(m); err != nil {
		return registry.Metadata{}, err
	}
	step.Reached("service: registered")
	return m, nil
}

// DestroySandbox destroys a sandbox of the owner; it returns when all of it is gone.
func (s *Service) DestroySandbox(ctx context.Context, o registry.Owner, sandboxID string) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return s.Destroy(ctx, Caller{Owner: o}, sandboxID)
}

// remove destroys a sandbox and removes its entry; one that is gone is no error. It
// reserves the sandbox first: no call finds it any more, and the next service destroys
// what a crash leaves.
func (s *Service) remove(ctx context.Context, id string) error {
	m, err := s.registry.GetMetadata(id)
	registered := err == nil
	if registered {
		err = s.registry.Reserve(m)
	}
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	step.Reached("service: no longer found")
	err = s.destroyed(ctx, id)
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

// TouchSandbox restarts the idle time of the owner's sandbox. If ttl is not nil, it also sets the
// time to live, from now on; 0 means none.
func (s *Service) TouchSandbox(ctx context.Context, o registry.Owner, sandboxID string, ttl *time.Duration) error {
	if err := s.verify(ctx, o, sandboxID); err != nil {
		return err
	}
	if ttl == nil {
		return s.rt.Touch(ctx, sandboxID)
	}
	_, err := s.rt.Renew(ctx, sandboxID, *ttl)
	return err
}

// ScanRunningSandboxes returns the running sandboxes whose owner labels are
// complete and valid, of all owners: the caller must be allowed to know them.
func (s *Service) ScanRunningSandboxes(ctx context.Context) ([]registry.Metadata, error) {
	return Scan(ctx, s.rt)
}
