package local

import (
	"context"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/local/conns"
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
	_, err = conns.Ask(ctx, rec, &boot.Request{Op: boot.OpTouch}, touchLimit)
	return conns.OrExpired(rec, err)
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
	life, err := conns.Unexpired(rec, c)
	if err != nil {
		return true, err
	}
	if life == nil {
		life = new(statedir.Lifetime)
	}
	life.Renew(ttl, statedir.Now())
	return change(ctx, rec, func() error { return rec.SetLifetime(life) }, func(ctx context.Context) (bool, error) {
		answer, err := conns.Ask(ctx, rec, &boot.Request{Op: boot.OpRenew, Lifetime: life}, touchLimit)
		return answer != nil, conns.OrExpired(rec, err) // without an answer the sandbox may have ended
	})
}
