package service

import (
	"context"
	"errors"
	"slices"

	"wolffia/ops"
	"wolffia/runtime"
)

// A reviewer is a runtime whose sandboxes can have a copied codebase.
type reviewer interface {
	runtime.Workspace
	// ForkAs is Fork for sandboxes whose configurations edit changes; i counts them from 0.
	ForkAs(
		ctx context.Context, sandboxID string, o runtime.ForkOptions, edit func(i int, c *runtime.SandboxConfig),
	) ([]*runtime.Sandbox, error)
}

// A Review is a handle on the changes of a sandbox with a copied codebase, whether it runs or not. Paths are
// as in [runtime.Workspace]. It is safe for concurrent use.
type Review struct {
	service *Service
	rt      reviewer
	box     *Sandbox
}

// The bounds of a Review.
const (
	// MaxDiff is the largest text of [Review.Diff], in bytes.
	MaxDiff = 16 << 20
	// MaxSnapshots is how many snapshots of a sandbox [Review.Snapshot] makes.
	MaxSnapshots = 32

	// maxReviews is how many calls on changes run at the same time; the others wait. Each can hold a list of all
	// changes in memory.
	maxReviews = 4
)

// Review returns a handle on the changes of a sandbox. What needs a copied codebase is
// [runtime.ErrInvalid] of one that works on the host's directory itself.
func (s *Service) Review(ctx context.Context, caller Caller, id string) (*Review, error) {
	b, err := s.Get(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	return reviewOf(s, b)
}

func reviewOf(s *Service, b *Sandbox) (*Review, error) {
	rt, can := s.rt.(reviewer)
	if !can {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "this service keeps no changes of sandboxes apart")
	}
	return &Review{s, rt, b}, nil
}

// turn waits until another review may run: one of a sandbox, since its tree server refuses a second
// one.
func (r *Review) turn(ctx context.Context) (done func(), err error) {
	unlock, err := r.service.reviewing.lock(ctx, r.box.ID)
	if err != nil {
		return nil, err
	}
	select {
	case r.service.reviews <- struct{}{}:
		return func() { <-r.service.reviews; unlock() }, nil
	case <-ctx.Done():
		unlock()
		return nil, ctx.Err()
	}
}

// Changes is [runtime.Workspace].Changes.
func (r *Review) Changes(ctx context.Context, o runtime.ChangesOptions) ([]runtime.Change, error) {
	done, err := r.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return r.rt.Changes(ctx, r.box.ID, o)
}

// Diff returns the beginning of what [runtime.Workspace].Diff writes, up to most bytes; more says that there is more.
func (r *Review) Diff(ctx context.Context, o runtime.DiffOptions, most int) (text []byte, more bool, err error) {
	if most < 1 || most > MaxDiff {
		return nil, false, runtime.Errorf(runtime.ErrInvalid, "%d bytes of diff: it must be from 1 to %d", most, MaxDiff)
	}
	done, err := r.turn(ctx)
	if err != nil {
		return nil, false, err
	}
	defer done()
	return ops.Diff(ctx, r.rt, r.box.ID, o, most)
}

// Apply is [runtime.Workspace].Apply. It changes the host's directory only if Options.AllowApply is set;
// otherwise, but for DryRun, it is [runtime.ErrDenied].
func (r *Review) Apply(ctx context.Context, o runtime.ApplyOptions) (*runtime.ApplyResult, error) {
	if !o.DryRun && !r.service.options().AllowApply {
		return nil, runtime.Errorf(runtime.ErrDenied, "this service does not change the host's directory for its callers: run wolffia apply %s on its host, or start it with --allow-apply", r.box.ID)
	}
	done, err := r.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	res, err := r.rt.Apply(ctx, r.box.ID, o)
	if res != nil && len(res.Applied) > 0 && !o.DryRun {
		rec := &Record{Kind: RecordApply, Sandbox: r.box.Sandbox, Changes: len(res.Applied)}
		for i := range res.Applied {
			rec.Paths = append(rec.Paths, res.Applied[i].Path)
		}
		note(ctx, r.service, rec)
	}
	return res, err
}

// Discard is [runtime.Workspace].Discard.
func (r *Review) Discard(ctx context.Context, paths []string) (int, error) {
	done, err := r.turn(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	n, err := r.rt.Discard(ctx, r.box.ID, paths)
	if n > 0 {
		r.Discarded(ctx, n, paths)
	}
	return n, err
}

// Discarded notes that the caller has taken changes back without Discard. Empty paths mean all.
func (r *Review) Discarded(ctx context.Context, changes int, paths []string) {
	note(ctx, r.service, &Record{Kind: RecordDiscard, Sandbox: r.box.Sandbox, Changes: changes, Paths: paths})
}

// Exported notes that the caller has made branches of the host, each as NAME COMMIT, of commits.
func (r *Review) Exported(ctx context.Context, branches []string) {
	note(ctx, r.service, &Record{Kind: RecordExport, Sandbox: r.box.Sandbox, Changes: len(branches), Paths: branches})
}

// Snapshots is [runtime.Workspace].Snapshots.
func (r *Review) Snapshots(ctx context.Context) ([]runtime.Snapshot, error) {
	return r.rt.Snapshots(ctx, r.box.ID)
}

// Snapshot is [runtime.Workspace].Snapshot. A sandbox that has [MaxSnapshots] is [runtime.ErrConflict].
func (r *Review) Snapshot(ctx context.Context, name string, o runtime.SnapshotOptions) (*runtime.Snapshot, error) {
	done, err := r.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	all, err := r.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) >= MaxSnapshots {
		return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s has %d snapshots: remove one", r.box.ID, len(all))
	}
	if err := r.wake(ctx, o.Memory); err != nil {
		return nil, err
	}
	return r.rt.Snapshot(ctx, r.box.ID, name, o)
}

// Restore replaces the changes of a sandbox by those of a snapshot, which is kept. All processes of a sandbox that
// runs are ended for it; then it is started again.
func (r *Review) Restore(ctx context.Context, name string) (err error) {
	done, err := r.turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := r.Snapshots(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(s runtime.Snapshot) bool { return s.Name == name }) {
		return runtime.Errorf(runtime.ErrNotFound, "there is no snapshot %q", name)
	}
	s, err := r.service.rt.Get(ctx, r.box.ID)
	if err != nil {
		return err
	}
	ctx, cancel := whole(ctx) // it must not stay stopped
	defer cancel()
	if !s.State.Runs() {
		return r.rt.Restore(ctx, s.ID, name)
	}
	if err := r.service.rt.Stop(ctx, s.ID); err != nil {
		return err
	}
	r.service.forget(s.ID)
	err = r.rt.Restore(ctx, s.ID, name)
	return errors.Join(err, r.service.start(ctx, r.box))
}

// RemoveSnapshot is [runtime.Workspace].RemoveSnapshot.
func (r *Review) RemoveSnapshot(ctx context.Context, name string) error {
	return r.rt.RemoveSnapshot(ctx, r.box.ID, name)
}
