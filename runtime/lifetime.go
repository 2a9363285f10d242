package runtime

import (
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

// Pruned is a sandbox that was removed.
type Pruned struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// ttl, idle, dead, stopped, unbound (its caller has ended), half (made or removed)
	Reason string `json:"why"`
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
