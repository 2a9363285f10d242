package service

import (
	"context"
	"errors"
	"time"

	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/service/registry"
)

// Owned are the calls for owners' own sandboxes: the registry says which one is an owner's, and
// each owner has at most one. It is safe for concurrent use.
type Owned struct{ s *Service }

// Owned returns the calls for owners' own sandboxes.
func (s *Service) Owned() Owned { return Owned{s} }

// lock locks an owner's own sandbox.
func (own Owned) lock(ctx context.Context, o registry.Owner) (unlock func(), err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return own.s.lock(ctx, keyOf{owner: o})
}

// verify returns an error unless the sandbox is the owner's.
func (own Owned) verify(ctx context.Context, o registry.Owner, id string) error {
	if err := o.Validate(); err != nil {
		return err
	}
	m, err := own.s.registry.GetMetadata(id)
	if err == nil && m.Owner == o {
		own.s.usedAt.now(id)
		return nil // without a look at the sandbox
	}
	_, err = own.s.Get(ctx, Caller{Owner: o}, id)
	return err
}

// CreateSandbox creates the owner's own sandbox. If the owner has one, the error is a
// [*registry.ConflictError], of class [runtime.ErrConflict]; of any number of
// concurrent callers one succeeds. more may be nil.
func (own Owned) CreateSandbox(ctx context.Context, o registry.Owner, more *Params) (registry.Metadata, error) {
	unlock, err := own.lock(ctx, o)
	if err != nil {
		return registry.Metadata{}, err
	}
	defer unlock()
	has, err := own.s.registry.FindByOwner(o)
	switch {
	case err == nil && own.exists(ctx, has.SandboxID):
		return registry.Metadata{}, &registry.ConflictError{SandboxID: has.SandboxID}
	case err == nil:
		if err := own.s.registry.Unregister(has.SandboxID); err != nil {
			return registry.Metadata{}, err
		}
		own.s.log.Info(stale, "sandboxId", has.SandboxID)
	case !errors.Is(err, runtime.ErrNotFound):
		return registry.Metadata{}, err
	}
	return own.provision(ctx, o, more)
}

// EnsureSandbox returns the owner's own sandbox, and created = true if it had to create
// it: the owner had none, or it did not answer and was replaced. One with a copied codebase is
// not replaced, since its changes would be lost: it is started anew, and is [runtime.ErrUnavailable] if
// it does not answer then. One elsewhere is started before it is replaced: PID 1 may have outlived its
// processes here. A paused one is resumed. Nothing is replaced while the service lacks
// descriptors or memory: see [runtime.Exhausted]. more may be nil. Its GitConfig is also configured
// in a sandbox that existed. If that has not all the settings that more sets, also after a restart of
// the service, the error is of class [runtime.ErrConflict].
func (own Owned) EnsureSandbox(ctx context.Context, o registry.Owner, more *Params) (m registry.Metadata, created bool, err error) {
	unlock, err := own.lock(ctx, o)
	if err != nil {
		return registry.Metadata{}, false, err
	}
	defer unlock()
	m, err = own.s.registry.FindByOwner(o)
	if errors.Is(err, runtime.ErrNotFound) {
		m, err = own.provision(ctx, o, more)
		return m, err == nil, err
	}
	if err != nil {
		return registry.Metadata{}, false, err
	}
	b, err := own.look(ctx, m.SandboxID)
	unhealthy := err
	if err == nil && b.State == runtime.StatePaused {
		if err := own.s.rt.Resume(ctx, m.SandboxID); err != nil {
			return registry.Metadata{}, false, err
		}
	}
	if !errors.Is(err, runtime.ErrNotFound) { // it exists, or that cannot be told
		probing, cancel := context.WithTimeout(ctx, own.s.options().ProbeLimit)
		unhealthy = probe(probing, own.s.rt, m.SandboxID)
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
	case unhealthy != nil && err == nil && b.Elsewhere && b.State.Runs(): // the network may be back in a moment
		return registry.Metadata{}, false, unhealthy
	}
	revivable := copied || err == nil && b.Elsewhere
	if more != nil && (unhealthy == nil || revivable) { // else it is replaced
		if err := differs(b, more); err != nil {
			return registry.Metadata{}, false, err
		}
	}
	if unhealthy != nil && revivable {
		if unhealthy = own.revive(ctx, m.SandboxID, unhealthy); unhealthy != nil && copied {
			return registry.Metadata{}, false, unhealthy
		}
	}
	if unhealthy == nil {
		if more != nil && more.GitConfig != nil {
			if err := configureGit(ctx, own.s.rt, m.SandboxID, more.GitConfig); err != nil {
				return m, false, err
			}
			m.GitConfigured = true
			err = own.s.registry.Register(m)
		}
		return m, false, err
	}
	own.s.log.Warn("a sandbox does not answer and is replaced", "sandboxId", m.SandboxID, "error", unhealthy)
	if err := own.s.remove(ctx, m.SandboxID); err != nil { // its owner must not have two
		return registry.Metadata{}, false, err
	}
	m, err = own.provision(ctx, o, more)
	return m, err == nil, err
}

// revive starts a sandbox anew that does not answer.
func (own Owned) revive(ctx context.Context, id string, unhealthy error) error {
	own.s.log.Warn("a sandbox does not answer and is started anew", "sandboxId", id, "error", unhealthy)
	err := restart(ctx, own.s.rt, id)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, own.s.options().ProbeLimit)
		defer cancel()
		err = probe(ctx, own.s.rt, id)
	}
	if err != nil && ctx.Err() == nil {
		err = runtime.Errorf(runtime.ErrUnavailable, "sandbox %s does not answer, and is not replaced, since its changes would be lost: look at them with the call changes, or destroy it: %w", id, err)
	}
	return err
}

// look returns a sandbox, running or not; [runtime.ErrNotFound] also if its lifetime is over.
func (own Owned) look(ctx context.Context, id string) (*runtime.Sandbox, error) {
	b, err := own.s.rt.Get(ctx, id)
	if err == nil {
		err = current(b)
	}
	return b, err
}

// exists reports whether a registered sandbox still exists, running or not. It
// returns true if the runtime cannot tell.
func (own Owned) exists(ctx context.Context, id string) bool {
	_, err := own.look(ctx, id)
	return !errors.Is(err, runtime.ErrNotFound)
}

// provision creates a sandbox for an owner whose lock the caller holds. Until it runs
// it is reserved, so that the next service destroys what a crash leaves.
func (own Owned) provision(ctx context.Context, o registry.Owner, more *Params) (_ registry.Metadata, err error) {
	params := Params{}
	if more != nil {
		params = *more
	}
	if err := params.GitConfig.validate(); err != nil {
		return registry.Metadata{}, err
	}
	id := own.s.options().newID(&params)
	params.SandboxID, params.Owner = id, o
	m := registry.Metadata{SandboxID: id, ContainerName: id, Owner: o, CreatedAt: time.Now().UnixMilli(), GitConfigured: params.GitConfig != nil}
	var conflict *registry.ConflictError
	if err = own.s.registry.Reserve(m); errors.As(err, &conflict) {
		// No other call creates one for this owner now: it was left half created.
		if err = own.clear(ctx, conflict.SandboxID); err == nil {
			err = own.s.registry.Reserve(m)
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
		if undo := own.s.remove(ctx, id); undo != nil { // it stays reserved for the next attempt
			own.s.log.Error("cannot destroy a sandbox that failed to start", "sandboxId", id, "error", undo)
		}
	}()
	step.Reached("service: reserved")
	created, err := own.s.create(ctx, &params, nil)
	if err != nil {
		return registry.Metadata{}, err
	}
	step.Reached("service: made")
	m.ContainerName, m.CreatedAt = created.ContainerName(), created.CreatedAt.UnixMilli()
	if err := own.s.registry.Register(m); err != nil {
		return registry.Metadata{}, err
	}
	step.Reached("service: registered")
	return m, nil
}

// DestroySandbox destroys a sandbox of the owner; it returns when all of it is gone.
func (own Owned) DestroySandbox(ctx context.Context, o registry.Owner, sandboxID string) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return own.s.Destroy(ctx, Caller{Owner: o}, sandboxID)
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
func (own Owned) FindSandbox(ctx context.Context, o registry.Owner) (registry.Metadata, error) {
	if err := o.Validate(); err != nil {
		return registry.Metadata{}, err
	}
	m, err := own.s.registry.FindByOwner(o)
	if err == nil && !own.exists(ctx, m.SandboxID) {
		return registry.Metadata{}, runtime.Errorf(runtime.ErrNotFound, "the owner's sandbox is gone")
	}
	return m, err
}

// TouchSandbox restarts the idle time of the owner's sandbox. If ttl is not nil, it also sets the
// time to live, from now on; 0 means none.
func (own Owned) TouchSandbox(ctx context.Context, o registry.Owner, sandboxID string, ttl *time.Duration) error {
	if err := own.verify(ctx, o, sandboxID); err != nil {
		return err
	}
	if ttl == nil {
		return own.s.rt.Touch(ctx, sandboxID)
	}
	_, err := own.s.rt.Renew(ctx, sandboxID, *ttl)
	return err
}

// ScanRunningSandboxes returns the running sandboxes whose owner labels are
// complete and valid, of all owners: the caller must be allowed to know them.
func (own Owned) ScanRunningSandboxes(ctx context.Context) ([]registry.Metadata, error) {
	return Scan(ctx, own.s.rt)
}
