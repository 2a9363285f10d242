package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/statefile"
	"wolffia/runtime"
)

// A Lifetime is how long a sandbox may be there, and be left alone. It has a file
// of its own, which is there if the sandbox has, or had, a limit: so it can be
// renewed, and found, without the configuration.
//
// The deadline is kept by two clocks. Within one boot of the machine
// CLOCK_BOOTTIME decides, which counts also while the machine sleeps, and which
// nobody can set (clock_gettime(2)). After another boot all that is left is the
// time of day.
type Lifetime struct {
	TTL       int64  `json:"ttlMs,omitempty"`     // as last given; 0: there is no deadline
	ExpiresAt int64  `json:"expiresAt,omitempty"` // ms since 1970
	BootID    string `json:"bootId,omitempty"`    // /proc/sys/kernel/random/boot_id
	BootMS    int64  `json:"bootMs,omitempty"`    // the same moment on CLOCK_BOOTTIME of that boot
	Idle      int64  `json:"idleMs,omitempty"`    // 0: there is no idle timeout
}

// A Moment is a time by all clocks that a Lifetime is by.
type Moment struct {
	Wall   int64  // ms since 1970
	BootID string // empty: nobody knows
	Boot   int64  // ms on CLOCK_BOOTTIME
}

var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
})

// Now is the present Moment.
func Now() Moment {
	m := Moment{Wall: time.Now().UnixMilli()}
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
		m.BootID, m.Boot = bootID(), ts.Nano()/int64(time.Millisecond)
	}
	return m
}

// Renew sets the deadline, from now on; with 0 there is none any more.
func (l *Lifetime) Renew(ttl time.Duration, now Moment) {
	ms := ttl.Milliseconds()
	l.TTL, l.ExpiresAt, l.BootID, l.BootMS = ms, now.Wall+ms, now.BootID, now.Boot+ms
	if ms == 0 {
		l.ExpiresAt, l.BootID, l.BootMS = 0, "", 0
	}
}

// Left is how long it is until the deadline; 0 or less: it is over. It is never
// more than the whole time to live: a clock that was set back while the machine
// was off does not make it longer. limited says that there is a deadline.
func (l *Lifetime) Left(now Moment) (left time.Duration, limited bool) {
	if l.TTL <= 0 {
		return 0, false
	}
	at, by := l.ExpiresAt, now.Wall
	if l.BootID != "" && l.BootID == now.BootID {
		at, by = l.BootMS, now.Boot
	}
	left = time.Duration(min(max(at-by, -maxLeft), maxLeft, l.TTL)) * time.Millisecond
	return left, true
}

// Settle has this boot's clock decide from now on, if another's did.
func (l *Lifetime) Settle(now Moment) {
	if left, limited := l.Left(now); limited && l.BootID != now.BootID {
		l.BootID, l.BootMS = now.BootID, now.Boot+left.Milliseconds()
	}
}

// maxLeft bounds what a file can say, in ms, so that nothing overflows.
const maxLeft = int64(2 * runtime.MaxLifetime / time.Millisecond)

// Deadline is the time of day at which it is over, as far as the clock is right
// now; zero: never.
func (l *Lifetime) Deadline(now Moment) time.Time {
	left, limited := l.Left(now)
	if !limited {
		return time.Time{}
	}
	at := now.Wall + left.Milliseconds()
	if off := at - l.ExpiresAt; -1000 < off && off < 1000 { // the clock was not set, or hardly
		at = l.ExpiresAt
	}
	return time.UnixMilli(at)
}

// IdleTimeout is how long the sandbox may be left alone; 0: as long as one likes.
func (l *Lifetime) IdleTimeout() time.Duration {
	return time.Duration(min(max(l.Idle, 0), maxLeft)) * time.Millisecond
}

const lifetimeFile = "lifetime.json"

// newLifetime is what a configuration asks for at a moment; nil: nothing.
func newLifetime(c *Config, now Moment) *Lifetime {
	if c.TTL == 0 && c.IdleTimeout == 0 {
		return nil
	}
	l := &Lifetime{Idle: c.IdleTimeout.Milliseconds()}
	l.Renew(c.TTL, now)
	return l
}

// MayBeOver reports whether the sandbox's lifetime seems to be over, without
// reading its configuration.
func (b *Box) MayBeOver(now Moment) bool {
	l := new(Lifetime)
	err := statefile.Read(filepath.Join(b.path, lifetimeFile), l)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || b.Expired(l, now) != ""
}

// Lifetime returns the limits of a sandbox, of which c is the configuration; nil:
// it never had any. If they were lost with the machine's last crash, what the
// configuration says counts, from the time of day at which the sandbox was made. If
// they only cannot be read now, that is ErrUnavailable: they may have been renewed.
func (b *Box) Lifetime(c *Config) (*Lifetime, error) {
	l := new(Lifetime)
	err := statefile.Read(filepath.Join(b.path, lifetimeFile), l)
	var why unix.Errno
	switch {
	case err == nil:
		return l, nil
	case errors.As(err, &why) && why != unix.ENOENT && why != unix.ELOOP:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lifetime of sandbox %s: %w", b.id, err)
	}
	return newLifetime(c, Moment{Wall: c.CreatedAt}), nil
}

// over reports whether the lifetime of a sandbox is known to be over.
func (b *Box) over(c *Config) bool {
	l, err := b.Lifetime(c)
	return err == nil && b.Expired(l, Now()) != ""
}

// SetLifetime replaces the limits, on the disk too. The caller holds what
// LockConfig gives.
func (b *Box) SetLifetime(l *Lifetime) error {
	if err := statefile.WriteSync(filepath.Join(b.path, lifetimeFile), l); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "lifetime of sandbox %s: %w", b.id, err)
	}
	return nil
}

// Expired says why the lifetime of a sandbox with these limits, which may be nil,
// is over; empty: it is not. What its shim says of that is final, and counts only
// of a sandbox that had a limit.
func (b *Box) Expired(l *Lifetime, now Moment) runtime.Expiry {
	if l == nil {
		return ""
	}
	if left, limited := l.Left(now); limited && left <= 0 {
		return runtime.ExpiredTTL
	}
	var s Status
	if statefile.Read(filepath.Join(b.Run(), "status.json"), &s) != nil {
		return ""
	}
	if s.Expired == runtime.ExpiredTTL || s.Expired == runtime.ExpiredIdle && l.Idle > 0 {
		return s.Expired
	}
	return ""
}
