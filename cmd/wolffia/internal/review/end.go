package review

import (
	"context"
	"errors"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/worktree"
	"wolffia/runtime"
)

// endGit takes over what git inside has changed last in a sandbox of run whose command has ended,
// and reports whether the sandbox is to be kept, since something stays inside that would be lost
// with it. tell prints that, and is for later, as for review.
func (rv *Reviewer) endGit(ctx context.Context, id string) (keep bool, tell func() error, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DestroyLimit)
	defer cancel()
	silent := func() error { return nil }
	r, err := rv.rt.SyncGit(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		return false, silent, nil // its lifetime is over
	}
	if err != nil {
		return true, silent, err
	}
	rv.Notes(r.Lines...)
	if r.Pending == "" {
		return false, silent, nil
	}
	return true, func() error {
		rv.Sayf("sandbox %[1]s stays, since it has what would be lost: %[2]s: wolffia shell %[1]s to go on, wolffia rm -f %[1]s to end it", id, console.Printable(r.Pending))
		return nil
	}, nil
}

// unsynced returns an error if a sandbox that does not run has something in its git directories
// that would be lost with it.
func (rv *Reviewer) unsynced(ctx context.Context, s *runtime.Sandbox) error {
	r, err := rv.rt.SyncGit(ctx, s.ID)
	if err == nil && r.Pending != "" {
		err = runtime.Errorf(runtime.ErrConflict,
			"sandbox %[1]s has what would be lost: %[2]s: wolffia shell %[1]s; rm -f %[1]s", s.ContainerName(), r.Pending)
	}
	return err
}

// DestroyLimit is how long run takes at most to clean up when it is done.
const DestroyLimit = 30 * time.Second

// End destroys a sandbox whose command has ended, as failed or not. It is stopped instead if it is
// copied and has changes that are neither applied nor discarded, or if something of git's stays
// inside.
func (rv *Reviewer) End(ctx context.Context, id string, copied bool, f *Flags, failed bool) error {
	decide := rv.endGit
	if copied {
		decide = func(ctx context.Context, id string) (bool, func() error, error) {
			return rv.Review(ctx, id, f, failed)
		}
	}
	keep, tell, err := decide(ctx, id)
	// from now on: the user has thought
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DestroyLimit)
	defer cancel()
	if keep {
		stopped := rv.rt.Stop(ctx, id)
		return errors.Join(err, stopped, tell())
	}
	gone := worktree.Destroy(ctx, rv.Host, rv.rt, id)
	if errors.Is(gone, runtime.ErrNotFound) { // it has ended by itself, and was swept up
		gone = nil
	}
	return errors.Join(err, gone, tell())
}

// Remove destroys the sandbox that ref names; one that runs, has changes or snapshots, or does not
// exist, only with force.
func (rv *Reviewer) Remove(ctx context.Context, ref string, force bool) error {
	s, err := rv.rt.Get(ctx, ref)
	lost := errors.Is(err, runtime.ErrNotFound) // but an engine may have it
	switch {
	case force || lost:
	case err != nil:
		return err
	case s.State.Runs():
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is %s: wolffia stop it first, or wolffia rm -f", s.ContainerName(), s.State)
	default:
		if err := rv.Unapplied(ctx, s); err != nil {
			return err
		}
	}
	err = worktree.Destroy(ctx, rv.Host, rv.rt, ref)
	if lost && err == nil {
		rv.Warn("removed what was left of sandbox %s, whose state directory was lost", ref)
	}
	if force && errors.Is(err, runtime.ErrNotFound) {
		if runtime.IsID(ref) {
			return rv.rt.TerminatePooled(ctx, ref) // ls --all shows pooled sandboxes
		}
		return nil
	}
	return err
}
