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

// CheckLifetime returns why d cannot be a time to live or an idle timeout, or nil. 0, which
// means none, is valid. The error is of class [ErrInvalid].
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
	ExpiredIdle Expiry = "idle" // it was not used for its idle timeout
)

// A Renewer is a Runtime whose sandboxes may have a lifetime.
//
// The time to live counts from Create, or the last Renew, whether the sandbox runs or not.
// It counts real time: also while the machine sleeps, and unaffected by setting the clock.
//
// The idle timeout counts while the sandbox runs, from its start or its last use, and not
// while the machine sleeps. A sandbox is in use while a command runs, in a session or not and
// with a caller that waits or without, while a terminal is attached, while files are copied,
// and while a background job of a session runs. Each call about its sessions, Touch and
// Renew are a use too. Processes that a command outside of a session left behind are not.
//
// When either is over the sandbox ends as by Stop, and is gone: using it is [ErrNotFound].
// Get still returns it, with the reason, until the next List or Create removes it.
type Renewer interface {
	// Touch restarts the idle time of a running sandbox. One that does not run is
	// [ErrConflict].
	Touch(ctx context.Context, sandboxID string) error

	// Renew sets the time to live, from now on, whether the sandbox runs or not, and
	// whether it had one or not. 0 removes it.
	Renew(ctx context.Context, sandboxID string, ttl time.Duration) (*Sandbox, error)
}

// A Pruner is a Runtime that can remove sandboxes of no use. It may be called at any time: a
// sandbox that another call is using is left alone.
type Pruner interface {
	// Prune removes sandboxes whose lifetime is over, dead ones, and what an interrupted
	// Create or Destroy has left; with stopped also stopped ones. It returns what it removed
	// even with an error.
	Prune(ctx context.Context, stopped bool) ([]Pruned, error)
}

// Pruned is a sandbox that was removed.
type Pruned struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Why  string `json:"why"` // ttl, idle, dead, stopped, unbound (its caller is gone), half (made or removed)
}

// Reason returns what the Expiry means as a clause; empty for the zero Expiry.
func (e Expiry) Reason() string {
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
