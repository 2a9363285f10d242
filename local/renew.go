package local

import (
	"context"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// touchLimit is how long a shim may take to note that its sandbox is used.
const touchLimit = 10 * time.Second

// Touch implements [runtime.Runtime].
func (s *settings) Touch(ctx context.Context, sandboxID string) error {
	box, _, err := s.brief(sandboxID)
	if err != nil {
		return err
	}
	_, err = askShim(ctx, box, &boot.Request{Op: boot.OpTouch}, touchLimit)
	return orExpired(box, err)
}

// Renew implements [runtime.Runtime].
//
// The deadline is recorded before a running shim gets it. So a caller that is killed in
// between leaves the newer deadline for the next start, and no reader gets the older one.
func (s *settings) Renew(ctx context.Context, sandboxID string, ttl time.Duration) (*runtime.Sandbox, error) {
	if err := runtime.CheckLifetime(ttl); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "time to live %w", err)
	}
	box, c, err := s.brief(sandboxID)
	if err != nil {
		return nil, err
	}
	release, err := box.LockConfig(ctx, boot.KillLimit)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := untilSettled(ctx, func() (bool, error) { return tryRenew(ctx, box, c, ttl) }); err != nil {
		return nil, err
	}
	return describe(box, c, box.State)
}

// tryRenew records a deadline and gives it to a running shim; see change.
func tryRenew(ctx context.Context, box *statedir.Box, c *statedir.Config, ttl time.Duration) (done bool, err error) {
	life, err := unexpired(box, c)
	if err != nil {
		return true, err
	}
	if life == nil {
		life = new(statedir.Lifetime)
	}
	life.Renew(ttl, statedir.Now())
	return change(ctx, box, func() error { return box.SetLifetime(life) }, func(ctx context.Context) (bool, error) {
		answer, err := askShim(ctx, box, &boot.Request{Op: boot.OpRenew, Lifetime: life}, touchLimit)
		return answer != nil, orExpired(box, err) // without an answer the sandbox may have ended
	})
}

// unexpired returns the lifetime of a sandbox, nil if it has none, or an error if that is
// over.
func unexpired(box *statedir.Box, c *statedir.Config) (*statedir.Lifetime, error) {
	life, err := box.Lifetime(c)
	if err != nil {
		return nil, err
	}
	if why := box.Expired(life, statedir.Now()); why != "" {
		return nil, runtime.Errorf(runtime.ErrNotFound, "sandbox %s is gone: %s", box.ID(), why.Reason())
	}
	return life, nil
}

// expired returns the error for using a sandbox whose lifetime is over; nil if it is not,
// or cannot be read.
func expired(box *statedir.Box) error {
	c, err := box.Config()
	if err != nil {
		return nil // not a reason
	}
	if _, err = unexpired(box, c); runtime.Class(err) != runtime.ErrNotFound {
		return nil
	}
	return err
}

// orExpired returns err or, if the sandbox's lifetime is over, that as its cause.
func orExpired(box *statedir.Box, err error) error {
	if err != nil {
		if gone := expired(box); gone != nil {
			return gone
		}
	}
	return err
}
