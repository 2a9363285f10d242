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
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return err
	}
	_, err = askShim(ctx, rec, &boot.Request{Op: boot.OpTouch}, touchLimit)
	return orExpired(rec, err)
}

// Renew implements [runtime.Runtime].
//
// The deadline is recorded before a running shim gets it. So a caller that is killed in
// between leaves the newer deadline for the next start, and no reader gets the older one.
func (s *settings) Renew(ctx context.Context, sandboxID string, ttl time.Duration) (*runtime.Sandbox, error) {
	if err := runtime.CheckLifetime(ttl); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "time to live %w", err)
	}
	rec, c, err := s.header(sandboxID)
	if err != nil {
		return nil, err
	}
	release, err := rec.LockConfig(ctx, boot.KillLimit)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := untilSettled(ctx, func() (bool, error) { return tryRenew(ctx, rec, c, ttl) }); err != nil {
		return nil, err
	}
	return describe(rec, c, rec.State)
}

// tryRenew records a deadline and gives it to a running shim; see change.
func tryRenew(ctx context.Context, rec *statedir.Record, c *statedir.Config, ttl time.Duration) (done bool, err error) {
	life, err := unexpired(rec, c)
	if err != nil {
		return true, err
	}
	if life == nil {
		life = new(statedir.Lifetime)
	}
	life.Renew(ttl, statedir.Now())
	return change(ctx, rec, func() error { return rec.SetLifetime(life) }, func(ctx context.Context) (bool, error) {
		answer, err := askShim(ctx, rec, &boot.Request{Op: boot.OpRenew, Lifetime: life}, touchLimit)
		return answer != nil, orExpired(rec, err) // without an answer the sandbox may have ended
	})
}

// unexpired returns the lifetime of a sandbox, nil if it has none, or an error if that is
// over.
func unexpired(rec *statedir.Record, c *statedir.Config) (*statedir.Lifetime, error) {
	life, err := rec.Lifetime(c)
	if err != nil {
		return nil, err
	}
	if why := rec.Expired(life, statedir.Now()); why != "" {
		return nil, runtime.Errorf(runtime.ErrNotFound, "sandbox %s is gone: %s", rec.ID(), why.Reason())
	}
	return life, nil
}

// expired returns the error for using a sandbox whose lifetime is over; nil if it is not,
// or cannot be read.
func expired(rec *statedir.Record) error {
	c, err := rec.Config()
	if err != nil {
		return nil // not a reason
	}
	if _, err = unexpired(rec, c); runtime.Class(err) != runtime.ErrNotFound {
		return nil
	}
	return err
}

// orExpired returns err or, if the sandbox's lifetime is over, that as its cause.
func orExpired(rec *statedir.Record, err error) error {
	if err != nil {
		if gone := expired(rec); gone != nil {
			return gone
		}
	}
	return err
}
