package local

import (
	"context"
	"errors"
	"sync"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/local/kept"
	"wolffia/local/pool"
	"wolffia/local/reposync"
	"wolffia/runtime"
)

// A reason is why a sandbox may be removed.
type reason string

const (
	reasonIncomplete reason = "half"                      // its making or removal was interrupted
	reasonTTL               = reason(runtime.ExpiredTTL)  // its time to live is over
	reasonIdle              = reason(runtime.ExpiredIdle) // its idle timeout is over
	reasonStuck      reason = "stuck"                     // it runs long after its time to live is over
	reasonUnbound    reason = "unbound"                   // the caller that it is bound to has ended
	reasonDead              = reason(runtime.StateDead)
	reasonStopped           = reason(runtime.StateStopped)
)

// unasked reports whether a sandbox is removed for this reason without a request to:
// it is of no use any more.
func (r reason) unasked() bool { return r != "" && r != reasonDead && r != reasonStopped }

// facts are what decides whether a sandbox may be removed.
type facts struct {
	half       bool          // it has no configuration
	damaged    bool          // one of its files cannot be read: it may have changes
	state      runtime.State // empty: it does not exist, or has another runtime
	expired    runtime.Expiry
	expiresAt  time.Time // zero: it has no time to live
	callerGone bool      // which it is bound to
	copied     bool      // it has changes that are not the codebase's, or memory
	unsynced   bool      // its git directories have something that the host's do not have
	changed    bool      // it is created and copied, and has changes: its end was not recorded
}

// stuckLimit is how long after its deadline a sandbox may run before its shim counts as
// stuck: twice what the shim needs to end it.
const stuckLimit = 2 * (boot.StopGrace + boot.KillGrace + boot.KillLimit)

// reapable returns why a sandbox may be removed; empty if it must stay.
func (f *facts) reapable(now time.Time) reason {
	switch {
	case f.half:
		return reasonIncomplete
	case f.damaged:
		return "" // until it is destroyed
	case f.state.Runs():
		if f.expired == runtime.ExpiredTTL && now.Sub(f.expiresAt) >= stuckLimit {
			return reasonStuck
		}
		return ""
	case f.state == "":
		return ""
	case f.expired != "":
		return reason(f.expired)
	case f.callerGone && !f.unsynced && (!f.copied || f.state == runtime.StateCreated && !f.changed):
		return reasonUnbound
	case f.state == runtime.StateDead && !f.copied && !f.unsynced:
		return reasonDead
	case f.state == runtime.StateStopped, f.state == runtime.StateHibernated, f.state == runtime.StateDead: // its changes are kept
		return reasonStopped
	}
	return ""
}

// A found sandbox is what is in a place of the state directory.
type found struct {
	facts
	config  *statedir.Config
	sandbox *runtime.Sandbox // may be nil
}

// look examines rec; state returns what its sandbox does.
func (s *sandboxes) look(rec *statedir.Record, state func() (runtime.State, string, error)) (*found, error) {
	var err error
	c := s.known(rec)
	if c == nil { // it is not remembered: there may be many sandboxes that are never used here
		c, err = rec.LoadHeader()
	}
	f := &found{config: c, facts: facts{half: err != nil && rec.IsIncomplete() && !rec.Pooled().IsAlive()}}
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		return f, nil
	case runtime.Exhausted(err): // the sandbox may be healthy
		return nil, err
	case err != nil:
		f.damaged, f.sandbox = true, &runtime.Sandbox{ID: rec.ID(), State: runtime.StateDead, Reason: err.Error()}
		return f, nil
	case s.backend(c.Runtime) == nil:
		return f, nil
	}
	f.sandbox, err = describe(rec, c, state)
	if errors.Is(err, runtime.ErrNotFound) {
		return f, nil // destroyed meanwhile
	}
	if runtime.Exhausted(err) {
		return nil, err
	}
	if err != nil { // its lock or its lifetime is damaged
		f.damaged, f.sandbox = true, outline(rec, c)
		if f.sandbox.State, _, _ = state(); f.sandbox.State == "" {
			f.sandbox.State = runtime.StateDead
		}
		f.sandbox.Reason = err.Error()
		return f, nil
	}
	f.state, f.expired, f.expiresAt, f.copied = f.sandbox.State, f.sandbox.Expired, f.sandbox.ExpiresAt, c.CopyOnWrite
	f.copied = f.copied || !f.state.Runs() && (kept.Exists(rec) || rec.HasChanges())
	f.unsynced = c.PrivateGit && !f.state.Runs() && reposync.Unsynced(rec, c) != ""
	if c.BoundToCaller && !f.state.Runs() {
		lives, err := rec.HasCaller()
		f.callerGone = !lives && err == nil
		f.changed = f.copied && f.state == runtime.StateCreated && rec.HasChanges()
	}
	return f, nil
}

// Prune implements [runtime.Runtime].
func (s *sandboxes) Prune(ctx context.Context, stopped bool) ([]runtime.Pruned, error) {
	ids, err := s.dir.IDs()
	if err != nil {
		return nil, err
	}
	all := []runtime.Pruned{}
	var errs []error
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return all, errors.Join(append(errs, err)...)
		}
		// a sandbox that has just died is busy until then
		s.dir.Record(id).WaitTree(ctx, boot.TreeLimit)
		// first asked without the locks, which it needs
		copied := sync.OnceValue(func() bool { return s.unapplied(ctx, id) })
		p, err := s.reap(ctx, id, func(why reason) bool { return why != reasonStuck && (why != reasonStopped || stopped && !copied()) })
		errs = append(errs, err)
		if p != nil {
			all = append(all, *p)
		}
	}
	_, err = pool.List(s.dir) // removes those that are over
	errs = append(errs, err, s.starter.prunePrograms())
	_ = s.starter.images.PruneSystems(ctx, rootfs.SystemKey()) // what stays goes with image prune
	return all, errors.Join(errs...)
}

// unapplied reports whether a sandbox that does not run may have changes that were not applied,
// snapshots, or memory that its next start restores.
func (s *sandboxes) unapplied(ctx context.Context, id string) bool {
	c, err := s.dir.Record(id).Config()
	if err == nil && c.PrivateGit && reposync.Unsynced(s.dir.Record(id), c) != "" {
		return true
	}
	if s.reviews.HasMemory(id) {
		return true
	}
	if err != nil || !c.CopyOnWrite && s.canKeepMemory(c) != nil {
		return false
	}
	if c.CopyOnWrite {
		all, err := s.reviews.Changes(ctx, id, runtime.ChangesOptions{})
		if err != nil || len(all) > 0 {
			return true
		}
	}
	snapshots, err := s.reviews.Snapshots(ctx, id)
	return err != nil || len(snapshots) > 0
}

// tidy removes sandboxes of no use, as far as that can be done at once. It reads two files
// of each sandbox, and more only of one that seems to be over.
func (s *sandboxes) tidy(ctx context.Context) {
	ids, err := s.dir.IDs()
	if err != nil {
		return
	}
	now := statedir.Now()
	for _, id := range ids {
		rec := s.dir.Record(id)
		if half := rec.IsIncomplete(); half && rec.Pooled().IsAlive() {
			continue
		} else if half || rec.MayBeOver(now) {
			// else the next call does
			_, _ = s.reap(ctx, id, func(why reason) bool { return why.unasked() && why != reasonStuck })
		}
	}
}

// reap removes a sandbox if it may be removed for a reason that accept accepts, and returns
// what it removed. It leaves alone what another process is using. A stuck sandbox is
// destroyed, which takes its time.
func (s *sandboxes) reap(ctx context.Context, id string, accept func(reason) bool) (*runtime.Pruned, error) {
	rec := s.dir.Record(id)
	f, err := s.look(rec, rec.State) // without the locks, whose holder could be taken for a shim
	if err != nil {
		return nil, err
	}
	why := f.reapable(time.Now())
	if why == "" || !accept(why) {
		return nil, nil
	}
	removed := false
	switch why {
	case reasonIncomplete:
		removed, err = s.pooled.removeIncomplete(id)
	case reasonStuck:
		err = s.Destroy(ctx, id)
		removed, why = err == nil, reasonTTL
	default:
		why, err = s.removeIdle(ctx, rec, accept)
		removed = err == nil && why != ""
	}
	if !removed {
		return nil, err
	}
	p := &runtime.Pruned{ID: id, Reason: string(why)}
	if f.config != nil {
		p.Name = f.config.Name
	}
	if s.log != nil {
		s.log.Info("a sandbox is removed", "sandboxId", p.ID, "name", p.Name, "why", p.Reason)
	}
	return p, nil
}

// removeIdle removes a sandbox that does not run, if there still is a reason to once its
// locks are taken, and returns that. It returns none if another process has a lock.
func (s *sandboxes) removeIdle(ctx context.Context, rec *statedir.Record, accept func(reason) bool) (reason, error) {
	release, err := rec.TryLockConfig()
	if err != nil {
		return "", unlessBusy(err)
	}
	defer release()
	if c, err := rec.Config(); err == nil {
		if err := ensureTerminated(ctx, rec, c); err != nil {
			return "", err
		}
	}
	lock, err := rec.TryLock()
	if err != nil {
		return "", unlessBusy(err)
	}
	defer lock.Close()
	defer lock.Unlock() // the lock ends with its file
	f, err := s.look(rec, rec.StateLocked)
	if err != nil {
		return "", err
	}
	why := f.reapable(time.Now())
	if why == "" || why == reasonIncomplete || !accept(why) {
		return "", nil
	}
	if f.state == runtime.StateDead { // its shim may have left processes
		if err := errors.Join(rec.Processes().Shim().Kill(boot.KillLimit), rec.Processes().KillAll(f.config.UID, boot.KillLimit)); err != nil {
			return "", err
		}
	}
	err = errors.Join(s.reviews.finishApply(ctx, rec, f.config, lock), finishMoves(rec, f.config),
		s.gits.Settle(ctx, rec, f.config), s.engines.clean(ctx, rec, f.config))
	if err != nil {
		return "", err // it is still listed
	}
	s.forget(rec.ID())
	return why, errors.Join(kept.Wake(rec), rec.Remove())
}

// unlessBusy returns err, or nil if it says that another process is using the sandbox, or
// that the sandbox was removed.
func unlessBusy(err error) error {
	if errors.Is(err, runtime.ErrConflict) || errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return err
}
