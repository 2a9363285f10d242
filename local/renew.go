package local

import (
	"context"
	"time"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/runtime"
)

var (
	_ runtime.Renewer = (*Runtime)(nil)
	_ runtime.Pruner  = (*Runtime)(nil)
)

// over is what whoever wants to use a sandbox is told whose lifetime is over.
func over(box *statedir.Box, why runtime.Expiry) error {
	return runtime.Errorf(runtime.ErrNotFound, "sandbox %s is gone: %s", box.ID(), why.Why())
}

// overNow is over, if the sandbox's lifetime is over; else nil.
func overNow(box *statedir.Box) error {
	c, err := box.Config()
	if err != nil {
		return nil //nolint:nilerr // it says nothing of a lifetime
	}
	life, err := box.Lifetime(c)
	if err != nil {
		return nil //nolint:nilerr // nor does this
	}
	if why := box.Expired(life, statedir.Now()); why != "" {
		return over(box, why)
	}
	return nil
}

// touchLimit is how long a shim may take to note that its sandbox is used.
const touchLimit = 10 * time.Second

// Touch implements [runtime.Renewer].
func (r *Runtime) Touch(ctx context.Context, sandboxID string) error {
	box, _, err := r.find(sandboxID)
	if err != nil {
		return err
	}
	answer, err := ask(ctx, box, &boot.Request{Op: boot.OpTouch}, touchLimit)
	if err == nil {
		err = answer.Err()
	}
	return orOver(box, err)
}

// orOver is err, or why there is an error if the sandbox's lifetime is over.
func orOver(box *statedir.Box, err error) error {
	if err != nil {
		if gone := overNow(box); gone != nil {
			return gone
		}
	}
	return err
}

// Renew implements [runtime.Renewer].
//
// The deadline is recorded first, then a running shim is told: so one that is
// killed in between leaves one that is longer, or shorter, than what its
// successor is told, and nobody who reads it is told an older one.
func (r *Runtime) Renew(ctx context.Context, sandboxID string, ttl time.Duration) (*runtime.Sandbox, error) {
	if err := runtime.CheckLifetime(ttl); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "time to live %w", err)
	}
	box, c, err := r.find(sandboxID)
	if err != nil {
		return nil, err
	}
	release, err := box.LockConfig(ctx, boot.KillLimit)
	if err != nil {
		return nil, err
	}
	defer release()
	err = untilSettled(ctx, func() (bool, error) { return tryRenew(ctx, box, c, ttl) })
	if err != nil {
		return nil, err
	}
	return sandbox(box, c)
}

// tryRenew records a deadline and has it followed. It is not done if the sandbox
// is just being started or stopped, or ended while it was asked.
func tryRenew(ctx context.Context, box *statedir.Box, c *statedir.Config, ttl time.Duration) (done bool, err error) {
	now := statedir.Now()
	life, err := box.Lifetime(c)
	if err != nil {
		return true, err
	}
	if why := box.Expired(life, now); why != "" {
		return true, over(box, why)
	}
	if life == nil {
		life = new(statedir.Lifetime)
	}
	life.Renew(ttl, now)
	return record(ctx, box, func() error { return box.SetLifetime(life) }, func(ctx context.Context) (bool, error) {
		answer, err := ask(ctx, box, &boot.Request{Op: boot.OpRenew, Lifetime: life}, touchLimit)
		if err != nil {
			return false, err // another look tells whether it has ended
		}
		return true, orOver(box, answer.Err())
	})
}
