package service

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// End returns when the sandbox ends, or is paused; zero: never.
func (b *Sandbox) End() time.Time {
	if b.EndsStopped {
		return b.stopsAt
	}
	return b.ExpiresAt
}

// Pause has a running sandbox stand still as [Service.Freeze] does, however long: its lifetime
// ends, and [Service.Start] gives it none.
func (s *Service) Pause(ctx context.Context, caller Caller, id string) error {
	return s.pauseIf(ctx, caller, id, func(*Sandbox) bool { return true })
}

// pauseIf is Pause, if that is due once no other call changes whether the sandbox runs, and until
// when.
func (s *Service) pauseIf(ctx context.Context, caller Caller, id string, due func(*Sandbox) bool) error {
	unlock, err := s.entering.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	in, err := s.Inside(ctx, caller, id)
	if err != nil || !due(in.box) {
		return err
	}
	ctx, cancel := whole(ctx)
	defer cancel()
	if err := s.endAt(ctx, in.box, time.Time{}); err != nil {
		return err
	}
	_, err = s.Freeze(ctx, caller, id)
	if err != nil && !errors.Is(err, runtime.ErrConflict) { // else it has ended meanwhile
		end := in.box.End()
		if again := time.Now().Add(pauseAgain); !end.IsZero() && end.Before(again) {
			end = again
		}
		return errors.Join(err, s.endAt(ctx, in.box, end))
	}
	return nil
}

// Freeze pauses a running sandbox until [Service.Start]: its processes stand still. Where the
// runtime cannot do that, they end instead as by [Service.Stop], and what they have in memory is
// lost; frozen is then false.
func (s *Service) Freeze(ctx context.Context, caller Caller, id string) (frozen bool, err error) {
	in, err := s.Inside(ctx, caller, id)
	if err != nil {
		return false, err
	}
	ctx, cancel := whole(ctx)
	defer cancel()
	if err = in.Pause(ctx); !errors.Is(err, runtime.ErrUnsupported) {
		return err == nil, err
	}
	if err := s.rt.Stop(ctx, in.box.ID); err != nil {
		return false, err
	}
	s.forget(in.box.ID)
	return false, nil
}

// Pause has the sandbox's processes stand still until [Service.Thaw].
// [runtime.ErrUnsupported] if the runtime cannot do that.
func (i *Inside) Pause(ctx context.Context) error {
	ctx, cancel := whole(ctx)
	defer cancel()
	return i.service.rt.Pause(ctx, i.box.ID)
}

// Thaw has the processes of a paused or hibernated sandbox run on; those of a running one do. One
// that has none is [runtime.ErrConflict].
func (s *Service) Thaw(ctx context.Context, caller Caller, id string) (*Sandbox, error) {
	b, err := s.Get(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	if !b.State.Runs() && b.State != runtime.StateHibernated {
		return nil, notRunning(b)
	}
	ctx, cancel := whole(ctx)
	defer cancel()
	return b, s.thaw(ctx, b)
}

// thaw has the processes of a paused sandbox run on, and does what a service before this one may
// not have got to, and what was due during the pause.
func (s *Service) thaw(ctx context.Context, b *Sandbox) error {
	if err := s.rt.Resume(ctx, b.ID); err != nil {
		return err
	}
	return s.recover(ctx, b)
}

// Resume starts a paused sandbox, which then ends at until. If that fails the sandbox stays as it
// is. One that runs already, as another call has started it, gets the end only.
func (s *Service) Resume(ctx context.Context, caller Caller, id string, until time.Time) (*Sandbox, error) {
	b, err := s.Get(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := whole(ctx)
	defer cancel()
	if err := s.endLater(ctx, b, until); err != nil { // first: none runs without an end
		return nil, err
	}
	is, err := s.Get(ctx, caller, id) // a pause that endLater has waited for is over
	if err != nil {
		return nil, err
	}
	start := s.start
	if is.State == runtime.StatePaused {
		start = s.thaw
	}
	if err := start(ctx, b); err != nil && !errors.Is(err, runtime.ErrConflict) {
		return nil, errors.Join(err, s.endAt(ctx, b, b.End()))
	}
	if b.EndsStopped {
		s.stopAt(id, until) // again: the start may have taken longer
	}
	return s.Get(ctx, caller, id)
}

// endLater is endAt, after a pause that has begun.
func (s *Service) endLater(ctx context.Context, b *Sandbox, at time.Time) error {
	unlock, err := s.entering.lock(ctx, b.ID)
	if err != nil {
		return err
	}
	defer unlock()
	return s.endAt(ctx, b, at)
}

// endAt sets when a sandbox ends, or is paused, whether it runs or not; zero: never.
func (s *Service) endAt(ctx context.Context, b *Sandbox, at time.Time) error {
	if !b.EndsStopped {
		var ttl time.Duration
		if !at.IsZero() {
			ttl = max(time.Until(at), runtime.MinLifetime)
		}
		_, err := s.rt.Renew(ctx, b.ID, ttl)
		return err
	}
	_, err := s.rt.ChangeLabels(ctx, b.ID, func(labels map[string]string) error {
		var r record
		if err := json.Unmarshal([]byte(labels[launch.LabelRecord]), &r); err != nil {
			return err
		}
		r.StopsAt = 0
		if !at.IsZero() {
			r.StopsAt = at.UnixMilli()
		}
		text, err := json.Marshal(r)
		labels[launch.LabelRecord] = string(text)
		return err
	})
	if err == nil {
		s.stopAt(b.ID, at)
	}
	return err
}

// stopAt has a sandbox that EndsStopped paused at a time; zero: not.
func (s *Service) stopAt(id string, at time.Time) {
	var timer *time.Timer
	if !at.IsZero() {
		at = at.Round(0) // by the wall clock: the other one stands still while the machine sleeps
		timer = time.AfterFunc(min(at.Sub(now()), lookAgain), func() { pauseDue(s, id) })
	}
	if old, had := s.stops.Swap(id, timer); had && old.(*time.Timer) != nil {
		old.(*time.Timer).Stop()
	}
	if timer == nil {
		s.stops.Delete(id)
	}
}

// Tests change them.
var (
	// pauseAgain is after how long a pause that has failed is tried again.
	pauseAgain = 30 * time.Second
	// lookAgain is how long a timer runs at most, which does not know that the machine has slept.
	lookAgain = 30 * time.Second
	// slept is added to the wall clock, for tests.
	slept atomic.Int64
)

// now returns the time of the wall clock.
func now() time.Time { return time.Now().Add(time.Duration(slept.Load())).Round(0) }

// pauseDue pauses a sandbox whose time has come, unless that was changed meanwhile.
func pauseDue(s *Service, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), wholeLimit)
	defer cancel()
	all := Caller{All: true}
	later := time.Time{}
	err := s.pauseIf(ctx, all, id, func(b *Sandbox) bool {
		later = b.End()
		return !later.IsZero() && !later.After(now())
	})
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		s.stops.Delete(id)
		return
	case errors.Is(err, runtime.ErrConflict): // it does not run
		return
	case err == nil && later.After(now()):
		s.stopAt(id, later)
	}
	if err != nil {
		s.log.Warn("a sandbox could not be paused at its end", "sandboxId", id, "error", err.Error())
		s.stopAt(id, time.Now().Add(pauseAgain))
	}
}
