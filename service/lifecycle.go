package service

import (
	"context"
	"errors"
	"time"

	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

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

// Destroy destroys a sandbox; it returns when all of it is gone.
func (s *Service) Destroy(ctx context.Context, caller Caller, id string) error {
	m, err := s.registry.GetMetadata(id)
	if err != nil || !caller.May(m.Owner) {
		if _, err := s.Get(ctx, caller, id); err != nil {
			return err
		}
		return s.destroyed(ctx, id)
	}
	unlock, err := s.lock(ctx, keyOf{owner: m.Owner})
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := s.registry.GetMetadata(id); err != nil { // meanwhile
		return noSandbox(id)
	}
	return s.remove(ctx, id)
}

// destroyed destroys a sandbox, and forgets it.
func (s *Service) destroyed(ctx context.Context, id string) error {
	err := s.rt.Destroy(ctx, id)
	if err == nil {
		s.usedAt.forget(id)
		s.forget(id)
		s.stopAt(id, time.Time{})
	}
	return err
}

// Stop ends all processes of a running or paused sandbox, and keeps its files but for those of
// temporary file systems. One that has no processes, and does not hibernate, is
// [runtime.ErrConflict].
func (s *Service) Stop(ctx context.Context, caller Caller, id string) error {
	b, err := s.Get(ctx, caller, id)
	if err != nil {
		return err
	}
	if !b.State.Runs() && !b.WakesOnUse {
		return notRunning(b)
	}
	if err := s.rt.Stop(ctx, id); err != nil {
		return err
	}
	s.forget(id)
	return nil
}

// Start starts a sandbox that is stopped or dead, and its entrypoint, or resumes a paused one. One
// that is running is [runtime.ErrConflict].
func (s *Service) Start(ctx context.Context, caller Caller, id string) error {
	b, err := s.Get(ctx, caller, id)
	if err != nil {
		return err
	}
	ctx, cancel := whole(ctx) // both, though the caller goes away meanwhile
	defer cancel()
	if b.State == runtime.StatePaused || b.State == runtime.StateHibernated {
		return s.thaw(ctx, b)
	}
	return s.start(ctx, b)
}

// start starts a sandbox and its entrypoint. One that runs already is [runtime.ErrConflict], unless
// an earlier service was killed before it ran the entrypoint, which start then does.
func (s *Service) start(ctx context.Context, b *Sandbox) error {
	unlock, err := s.entering.lock(ctx, b.ID)
	if err != nil {
		return err
	}
	defer unlock()
	running := s.rt.Start(ctx, b.ID)
	if running != nil && !errors.Is(running, runtime.ErrConflict) {
		return running
	}
	if running == nil {
		s.forget(b.ID) // it may have ended without a call of Stop
	}
	step.Reached("service: started")
	ran, err := s.enterLocked(ctx, b)
	if ran || running == nil {
		return err
	}
	return running
}

// Renew sets when a sandbox ends, which must be later than now.
func (s *Service) Renew(ctx context.Context, caller Caller, id string, until time.Time) (*Sandbox, error) {
	b, err := s.Get(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	ttl := time.Until(until)
	if ttl <= 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the new end is not in the future")
	}
	if err := runtime.CheckLifetime(max(ttl, runtime.MinLifetime)); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the new end is too late: time to live %w", err)
	}
	const rounding = 2 * time.Millisecond // of the time to live and of the clock: no sandbox ends before it should
	if err := s.endLater(ctx, b, until.Add(rounding)); err != nil {
		return nil, err
	}
	renewed, err := s.Get(ctx, caller, id)
	if err == nil && b.State == runtime.StateRunning && renewed.EndsStopped && renewed.State != runtime.StateRunning {
		return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s was paused meanwhile, at its end: start it", id)
	}
	return renewed, err
}

// restart ends all processes of the sandbox, if it runs, and starts it. What it has changed stays.
func restart(ctx context.Context, rt Runtime, id string) error {
	b, err := rt.Get(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := whole(ctx)
	defer cancel()
	if b.State.Runs() {
		if err := rt.Stop(ctx, id); err != nil {
			return err
		}
	}
	return rt.Start(ctx, id)
}
