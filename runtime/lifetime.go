package runtime

import (
	"context"
	"fmt"
	"time"
)

// MinLifetime and MaxLifetime bound a time to live and an idle timeout. The
// upper one is ten years.
const (
	MinLifetime = 100 * time.Millisecond
	MaxLifetime = 10 * 365 * 24 * time.Hour
)

// CheckLifetime says what is wrong with a time to live, or an idle timeout; nil:
// nothing. 0 is none. The error is of class [ErrInvalid].
func CheckLifetime(d time.Duration) error {
	if d == 0 || MinLifetime <= d && d <= MaxLifetime {
		return nil
	}
	return Errorf(ErrInvalid, "%v: it must be from %v to %dh, or 0 for none", d, MinLifetime, int64(MaxLifetime/time.Hour))
}

// An Expiry is why the lifetime of a sandbox is over.
type Expiry string

// The reasons.
const (
	ExpiredTTL  Expiry = "ttl"  // its time to live has passed
	ExpiredIdle Expiry = "idle" // nobody has used it for its idle timeout
)

// A Renewer is a Runtime whose sandboxes may have a lifetime.
//
// The time to live counts from Create, or the last Renew, whether the sandbox
// runs or not, and by the time that passes in the world: also while the machine
// sleeps, but not when its clock is set.
//
// The idle timeout counts while the sandbox runs, from its start or its last
// use, and not while the machine sleeps. It is in use while a command runs, in
// a session or not, and whoever waits for it or not, somebody watches a terminal,
// files are copied, or a background job of a session runs, and at each call that
// asks something of its sessions. Touch and Renew are a use, too. What a command that is no session's
// has left behind is none.
//
// When either is over the sandbox ends as by Stop, whoever else is there, and is
// gone: to start or use it is [ErrNotFound]. Get still returns it, and says why,
// until somebody lists or creates sandboxes, which removes what is left.
type Renewer interface {
	// Touch begins the idle time of a running sandbox anew; one that does not
	// run is [ErrConflict].
	Touch(ctx context.Context, sandboxID string) error

	// Renew sets the time to live, from now on; 0 means that there is none any
	// more. It does not matter whether the sandbox runs, or had one before.
	Renew(ctx context.Context, sandboxID string, ttl time.Duration) (*Sandbox, error)
}

// A Pruner is a Runtime that can remove what nobody needs. It may be called at
// any time, beside everything else: what somebody is at is left alone.
type Pruner interface {
	// Prune removes sandboxes whose lifetime is over, those that are dead, and
	// what is left of those that were only half made or half removed; with
	// stopped also those that were stopped. What could be removed is returned
	// with an error, too.
	Prune(ctx context.Context, stopped bool) ([]Pruned, error)
}

// Pruned is a sandbox that was removed.
type Pruned struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Why  string `json:"why"` // ttl, idle, dead, stopped, unbound (its caller is gone), half (made or removed)
}

// Why is what an Expiry means, for people.
func (e Expiry) Why() string {
	switch e {
	case "":
		return ""
	case ExpiredIdle:
		return "it was not used for its idle timeout"
	case ExpiredTTL:
		return "its time to live is over"
	}
	return fmt.Sprintf("its lifetime is over (%s)", string(e))
}
