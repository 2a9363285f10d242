package service

import (
	"context"
	"encoding/json"
	"errors"
	goruntime "runtime"
	"sync"
	"time"

	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service/registry"
)

// ForkOptions are options of [Review.Fork].
type ForkOptions struct {
	Memory bool          // as in [runtime.ForkOptions]
	Count  int           // how many; 0 is 1
	TTL    time.Duration // from now on; 0: as the sandbox's was when it was created
}

// Fork makes sandboxes of the service, of the same owner, with the same configuration and the
// changes of one moment, and starts them at the same time. Their entrypoint and metadata are those of
// the sandbox, but for its name. If it fails, nothing is left; but a service that is killed meanwhile
// can leave some that were not started.
func (r *Review) Fork(ctx context.Context, o ForkOptions) ([]*Sandbox, error) {
	done, err := r.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := r.wake(ctx, o.Memory); err != nil {
		return nil, err
	}
	b, count := r.box, max(o.Count, 1)
	forked := recordLike(b)
	forked.EndsStopped = b.EndsStopped
	if o.TTL > 0 && b.EndsStopped {
		forked.StopsAt = time.Now().Add(o.TTL).UnixMilli()
	}
	how := runtime.ForkOptions{Memory: o.Memory, Count: count}
	ids, admitted, err := r.fork(ctx, forked, how, func(c *runtime.SandboxConfig) {
		if o.TTL > 0 && !b.EndsStopped {
			c.TTL = o.TTL
		}
	})
	if err != nil {
		return nil, err
	}
	defer admitted()
	made, err := r.startAll(ctx, ids)
	if err != nil {
		return nil, errors.Join(err, r.destroyAll(ctx, ids))
	}
	return made, nil
}

// ForkWhole is Fork with memory where the backend can keep that, and else without: then the sandbox
// must work on a copy of its codebase. If it does neither, the error is [runtime.ErrUnsupported].
func (r *Review) ForkWhole(ctx context.Context, o ForkOptions) ([]*Sandbox, error) {
	o.Memory = true
	all, err := r.Fork(ctx, o)
	if whole := err; errors.Is(err, runtime.ErrUnsupported) {
		o.Memory = false
		if all, err = r.Fork(ctx, o); errors.Is(err, runtime.ErrInvalid) {
			return nil, runtime.Errorf(runtime.ErrUnsupported, "fork: %w: or start the service with wolffia serve --cow, to fork what is changed", whole)
		}
	}
	return all, err
}

// recordLike returns a record with what a copy of a sandbox has of its.
func recordLike(b *Sandbox) *record {
	return &record{Owner: b.Owner, Image: b.Requested, Entrypoint: b.Entrypoint, Note: b.Note}
}

// wake brings a sandbox back that hibernates, if its memory is needed.
func (r *Review) wake(ctx context.Context, memory bool) error {
	if !memory || r.box.State != runtime.StateHibernated {
		return nil
	}
	err := r.service.start(ctx, r.box)
	if errors.Is(err, runtime.ErrConflict) { // another use was faster
		err = nil
	}
	return err
}

// fork makes sandboxes with a record, and does not start them. edit changes their configurations.
// They count as being created until admitted is called, which is not nil without an error.
func (r *Review) fork(
	ctx context.Context, of *record, o runtime.ForkOptions, edit func(*runtime.SandboxConfig),
) (ids []string, admitted func(), err error) {
	s, undo := r.service, []func(){}
	release := func() {
		for _, f := range undo {
			f()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	if o.Count > runtime.MaxForks {
		return nil, nil, runtime.Errorf(runtime.ErrInvalid,
			"%d forks: at most %d can be made at once", o.Count, runtime.MaxForks)
	}
	text, err := json.Marshal(of)
	if err != nil {
		return nil, nil, err
	}
	for range o.Count {
		if err := s.admission.pace(ctx, s, of.Owner); err != nil {
			return nil, nil, err
		}
		id := runtime.NewID()
		done, err := s.admission.admit(ctx, s, id, of.Owner, r.box.Resources)
		if err != nil {
			return nil, nil, err
		}
		s.starting.Store(id, true)
		undo = append(undo, done, func() { s.starting.Delete(id) })
		ids = append(ids, id)
	}
	_, err = r.rt.ForkAs(ctx, r.box.ID, o, func(i int, c *runtime.SandboxConfig) {
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		delete(c.Labels, metadataName)
		c.ID, c.Labels[launch.LabelRecord] = ids[i], string(text)
		delete(c.Labels, launch.LabelKey)
		if key := CallerOf(ctx).Key; key != "" {
			c.Labels[launch.LabelKey] = key
		}
		edit(c)
	})
	return ids, release, err
}

// startAll starts sandboxes that were forked, some at the same time.
func (r *Review) startAll(ctx context.Context, ids []string) ([]*Sandbox, error) {
	owner := Caller{Owner: r.box.Owner, All: r.box.Owner == registry.Owner{}}
	made, failed := make([]*Sandbox, len(ids)), make([]error, len(ids))
	slots := make(chan struct{}, goruntime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, id := range ids {
		slots <- struct{}{} // a start has a limit
		all.Go(func() {
			defer func() { <-slots }()
			if failed[i] = r.service.Start(ctx, owner, id); failed[i] != nil {
				return
			}
			if made[i], failed[i] = r.service.Get(ctx, owner, id); failed[i] == nil && !made[i].stopsAt.IsZero() {
				r.service.stopAt(id, made[i].stopsAt)
			}
		})
	}
	all.Wait()
	return made, errors.Join(failed...)
}

// destroyAll destroys sandboxes of a fork that has failed.
func (r *Review) destroyAll(ctx context.Context, ids []string) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	for _, id := range ids {
		err = errors.Join(err, r.service.destroyed(ctx, id))
	}
	return err
}
