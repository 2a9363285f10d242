package local

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/runtime"
)

// List implements [runtime.Runtime].
func (r *Runtime) List(ctx context.Context) ([]*runtime.Sandbox, error) {
	ids, err := r.dir.IDs()
	if err != nil {
		return nil, err
	}
	all := []*runtime.Sandbox{}
	for _, id := range ids {
		if p, _ := r.removeHalf(id); p != nil { // if it cannot be: there is nothing to list anyway
			continue
		}
		box := r.dir.Box(id)
		c, err := box.Config()
		if errors.Is(err, runtime.ErrNotFound) || err == nil && r.backend(c.Runtime) == nil {
			continue
		}
		if err != nil {
			all = append(all, &runtime.Sandbox{ID: id, State: runtime.StateDead, Reason: err.Error()})
			continue
		}
		s, err := sandbox(box, c)
		if errors.Is(err, runtime.ErrNotFound) {
			continue // destroyed meanwhile
		}
		if err != nil { // its lock is damaged
			why := err.Error()
			s, err = describe(box, c, func(*statedir.Box) (runtime.State, string, error) { return runtime.StateDead, why, nil })
		}
		if err != nil {
			return nil, err
		}
		if r.overdue(ctx, s) {
			continue
		}
		if useless(box, c, s) != "" {
			// It is about to be gone also if its shim, or somebody else, is at it yet.
			if p, err := r.remove(ctx, box, useless); p != nil || err == nil && s.Expired != "" {
				continue
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *runtime.Sandbox) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// The reasons to remove a sandbox, beside an Expiry.
const (
	whyUnbound = "unbound"
	whyHalf    = "half"
	whyDead    = string(runtime.StateDead)
	whyStopped = string(runtime.StateStopped)
)

// useless says why nobody can want a sandbox any more that does not run: its
// lifetime is over, or the caller that it was bound to is gone and its shim could
// not remove it, or there never was one. Empty: somebody can.
func useless(box *statedir.Box, c *statedir.Config, s *runtime.Sandbox) string {
	switch {
	case s.State == runtime.StateRunning:
		return ""
	case s.Expired != "":
		return string(s.Expired)
	case c.BoundToCaller && (s.State == runtime.StateStopped || s.State == runtime.StateDead):
		return whyUnbound
	case c.BoundToCaller && s.State == runtime.StateCreated:
		if lives, err := box.HasCaller(); !lives && err == nil {
			return whyUnbound
		}
	}
	return ""
}

// Prune implements [runtime.Pruner].
func (r *Runtime) Prune(ctx context.Context, stopped bool) ([]runtime.Pruned, error) {
	ids, err := r.dir.IDs()
	if err != nil {
		return nil, err
	}
	unneeded := func(box *statedir.Box, c *statedir.Config, s *runtime.Sandbox) string {
		switch why := useless(box, c, s); {
		case why != "":
			return why
		case s.State == runtime.StateDead:
			return whyDead
		case s.State == runtime.StateStopped && stopped:
			return whyStopped
		}
		return ""
	}
	all := []runtime.Pruned{}
	var errs []error
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return all, errors.Join(append(errs, err)...)
		}
		p, err := r.removeHalf(id)
		if p == nil && err == nil {
			box := r.dir.Box(id)
			box.WaitTree(ctx, boot.TreeLimit) // or one that has just died would be busy
			p, err = r.remove(ctx, box, unneeded)
		}
		errs = append(errs, err)
		if p != nil {
			all = append(all, *p)
		}
	}
	return all, errors.Join(errs...)
}

// tidy removes what nobody can want any more. What cannot be removed now is left
// to who comes next. It looks at two names for each sandbox, and reads no
// configuration but of those that seem to be over.
func (r *Runtime) tidy(ctx context.Context) {
	ids, err := r.dir.IDs()
	if err != nil {
		return
	}
	now := statedir.Now()
	for _, id := range ids {
		if box := r.dir.Box(id); box.Half() {
			_, _ = r.removeHalf(id)
		} else if box.MayBeOver(now) {
			_, _ = r.remove(ctx, box, useless)
		}
	}
}

// overdueLimit is how long after its deadline a shim may still be about to end its
// sandbox: twice as long as it can take.
const overdueLimit = 2 * (boot.StopGrace + boot.KillGrace + boot.KillLimit)

// overdue destroys a sandbox that runs long after its deadline, since its shim is
// kept from ending it, and says whether it did.
func (r *Runtime) overdue(ctx context.Context, s *runtime.Sandbox) bool {
	if s.State != runtime.StateRunning || s.Expired != runtime.ExpiredTTL || time.Since(s.ExpiresAt) < overdueLimit {
		return false
	}
	if r.Destroy(ctx, s.ID) != nil {
		return false
	}
	r.removed(&runtime.Pruned{ID: s.ID, Name: s.Name, Why: string(s.Expired)})
	return true
}

// removeHalf removes what is left of a sandbox that was half made or half
// removed, if that is what there is, and says what it was.
func (r *Runtime) removeHalf(id string) (*runtime.Pruned, error) {
	if !r.dir.Box(id).Half() {
		return nil, nil
	}
	removed, err := r.dir.RemoveHalf(id)
	if !removed || err != nil {
		return nil, err
	}
	return r.removed(&runtime.Pruned{ID: id, Why: whyHalf}), nil
}

// remove removes a sandbox that does not run, if doom has a reason for it, and
// says so. It goes through the same gate as Destroy, but waits for nobody: who is
// at it, or starts it, is let alone. One without a reason is only looked at, since
// whoever has its lock can be taken for its shim.
func (r *Runtime) remove(ctx context.Context, box *statedir.Box, doom func(*statedir.Box, *statedir.Config, *runtime.Sandbox) string) (*runtime.Pruned, error) {
	c, s, err := r.look(box, (*statedir.Box).State)
	if s == nil || doom(box, c, s) == "" {
		return nil, err
	}
	release, err := box.TryLockConfig()
	if err != nil {
		return nil, unlessBusy(err)
	}
	defer release()
	lock, err := box.TryLock()
	if err != nil {
		return nil, unlessBusy(err)
	}
	defer lock.Close()
	defer lock.Unlock() //nolint:errcheck // it is gone with its file
	if c, s, err = r.look(box, (*statedir.Box).Rest); s == nil {
		return nil, err
	}
	why := doom(box, c, s)
	if why == "" {
		return nil, nil
	}
	if s.State == runtime.StateDead { // what its shim may have left
		if err := errors.Join(box.Shim().Kill(boot.KillLimit), box.KillAll(c.UID, boot.KillLimit)); err != nil {
			return nil, err
		}
	}
	if err := r.clean(ctx, box, c); err != nil {
		return nil, err
	}
	if err := box.Remove(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	delete(r.configs, box.ID())
	r.mu.Unlock()
	return r.removed(&runtime.Pruned{ID: box.ID(), Name: c.Name, Why: why}), nil
}

// look says what is in a box; nothing if that is no sandbox of ours.
func (r *Runtime) look(box *statedir.Box, state func(*statedir.Box) (runtime.State, string, error)) (*statedir.Config, *runtime.Sandbox, error) {
	c, err := box.Config()
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		return nil, nil, nil
	case err != nil: // a damaged configuration says nothing, as for Destroy
		return &statedir.Config{UID: os.Geteuid()}, &runtime.Sandbox{State: runtime.StateDead}, nil
	case r.backend(c.Runtime) == nil:
		return nil, nil, nil
	}
	s, err := describe(box, c, state)
	return c, s, unlessBusy(err)
}

// unlessBusy is err, unless that says that somebody is at a sandbox, or that it
// is gone.
func unlessBusy(err error) error {
	if errors.Is(err, runtime.ErrConflict) || errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return err
}

// removed tells whoever wants to know.
func (r *Runtime) removed(p *runtime.Pruned) *runtime.Pruned {
	if r.log != nil {
		r.log.Info("a sandbox is removed", "sandboxId", p.ID, "name", p.Name, "why", p.Why)
	}
	return p
}
