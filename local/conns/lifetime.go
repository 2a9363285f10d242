package conns

import (
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// Unexpired returns the lifetime of a sandbox, nil if it has none, or an error if that is
// over.
func Unexpired(rec *statedir.Record, c *statedir.Config) (*statedir.Lifetime, error) {
	life, err := rec.Lifetime(c)
	if err != nil {
		return nil, err
	}
	if why := rec.Expired(life, statedir.Now()); why != "" {
		return nil, runtime.Errorf(runtime.ErrNotFound, "sandbox %s is gone: %s", rec.ID(), why.Reason())
	}
	return life, nil
}

// Expired returns the error for using a sandbox whose lifetime is over; nil if it is not,
// or cannot be read.
func Expired(rec *statedir.Record) error {
	c, err := rec.Config()
	if err != nil {
		return nil // not a reason
	}
	if _, err = Unexpired(rec, c); runtime.Class(err) != runtime.ErrNotFound {
		return nil
	}
	return err
}

// OrExpired returns err or, if the sandbox's lifetime is over, that as its cause.
func OrExpired(rec *statedir.Record, err error) error {
	if err != nil {
		if gone := Expired(rec); gone != nil {
			return gone
		}
	}
	return err
}
