package local

import (
	"context"
	"errors"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/local/conns"
	"wolffia/runtime"
)

// settings changes what can change while a sandbox exists: rules, names, labels, lifetime.
type settings struct{ *catalog }

// changing locks the configuration of a sandbox that has not expired, and returns it as it is
// then. The caller calls release.
func (s *settings) changing(ctx context.Context, sandboxID string) (rec *statedir.Record, c *statedir.Config, release func(), err error) {
	if rec, _, err = s.header(sandboxID); err != nil {
		return nil, nil, nil, err
	}
	if release, err = rec.LockConfig(ctx, boot.RulesLimit+boot.KillLimit); err != nil {
		return nil, nil, nil, err
	}
	if c, err = rec.Config(); err == nil { // again: it may have changed before the lock was taken
		_, err = conns.Unexpired(rec, c)
	}
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	return rec, c, release, nil
}

// change changes what is recorded of a sandbox: it calls write and then, if the sandbox
// runs, tell to make the shim follow. It is not done if the sandbox is being started or
// stopped, or ended meanwhile. The caller holds the lock of the configuration.
func change(ctx context.Context, rec *statedir.Record, write func() error, tell func(context.Context) (done bool, err error)) (done bool, err error) {
	lock, err := rec.TryLock()
	switch {
	case err == nil:
		// With the lock held, it is not started by what was recorded before.
		return true, errors.Join(write(), lock.Unlock(), lock.Close())
	case !errors.Is(err, runtime.ErrConflict):
		return true, err
	}
	if state, _, serr := rec.State(); serr != nil || !state.Runs() {
		// a pooled sandbox that waits for its start would not know of the change
		if c, cerr := rec.LoadHeader(); cerr == nil {
			serr = errors.Join(serr, ensureTerminated(ctx, rec, c))
		}
		return serr != nil, errors.Join(err, serr)
	}
	if err := ctx.Err(); err != nil {
		return true, err
	}
	if err := write(); err != nil {
		return true, err
	}
	// What is written must be told, even if ctx ends.
	return tell(context.WithoutCancel(ctx))
}

// untilSettled calls try until it is done, while a sandbox starts or stops.
func untilSettled(ctx context.Context, try func() (done bool, err error)) error {
	const look = 10 * time.Millisecond
	for end := time.Now().Add(boot.KillLimit); ; {
		done, err := try()
		if done || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(look):
		}
	}
}

// amend records the configuration c in place of was, and has tell give what has changed to a
// running sandbox; see change. what is that, and remedy what its user can do, for an error.
func amend(ctx context.Context, rec *statedir.Record, c, was *statedir.Config, what, remedy string, tell func(context.Context) (*boot.Reply, error)) error {
	record := func() error { return rec.SetConfig(c) }
	try := func(ctx context.Context) (done bool, err error) {
		answer, err := tell(ctx)
		switch {
		case err == nil:
			return true, nil
		case answer != nil && !answer.Unknown: // refused: the old configuration stays in force
			return true, errors.Join(err, rec.SetConfig(was))
		}
		// The sandbox may have ended, which is as good.
		return false, runtime.Errorf(runtime.ErrUnavailable,
			"the %s of sandbox %s are recorded, but it is unknown whether they are in force: %w; %s, or wolffia stop %s", what, rec.ID(), err, remedy, rec.ID())
	}
	return untilSettled(ctx, func() (bool, error) { return change(ctx, rec, record, try) })
}
