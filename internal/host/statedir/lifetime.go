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

	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// A Lifetime is the deadline and the idle timeout of a sandbox. It has a file of its own,
// which exists if the sandbox has or had one of them: so it can be renewed and found
// without the configuration.
//
// The deadline is kept by two clocks. Within one boot of the machine CLOCK_BOOTTIME
// decides: it advances while the machine is suspended, and cannot be set
// (clock_gettime(2)). After another boot, and in a time namespace, the time of day decides.
type Lifetime struct {
	TTL       int64  `json:"ttlMs,omitempty"`     // of the last renewal; 0 means no deadline
	ExpiresAt int64  `json:"expiresAt,omitempty"` // ms since 1970
	BootID    string `json:"bootId,omitempty"`    // /proc/sys/kernel/random/boot_id
	BootMS    int64  `json:"bootMs,omitempty"`    // the same moment on CLOCK_BOOTTIME of that boot
	Idle      int64  `json:"idleMs,omitempty"`    // 0 means no idle timeout
}

// A Moment is a time on both clocks of a Lifetime.
type Moment struct {
	Wall   int64  // ms since 1970
	BootID string // "" means unknown, and Boot too
	Boot   int64  // ms on CLOCK_BOOTTIME
}

var bootID = sync.OnceValues(func() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
})

// bootClock reports whether this process reads CLOCK_BOOTTIME as all others do that are not in a
// time namespace of their own (time_namespaces(7)): in another one than the first it has an
// offset.
var bootClock = sync.OnceValue(func() bool {
	const first = "time:[4026531834]" // PROC_TIME_INIT_INO of Linux
	ns, err := os.Readlink("/proc/self/ns/time")
	return ns == first || errors.Is(err, fs.ErrNotExist) // Linux before 5.6 has no time namespaces
})

// Now returns the present Moment.
func Now() Moment {
	m := Moment{Wall: time.Now().UnixMilli()}
	var ts unix.Timespec
	if bootClock() && unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
		m.Boot = ts.Nano() / int64(time.Millisecond)
		m.BootID, _ = bootID()
	}
	return m
}

// Renew sets the deadline to ttl after now; 0 removes it.
func (l *Lifetime) Renew(ttl time.Duration, now Moment) {
	ms := ttl.Milliseconds()
	l.TTL, l.ExpiresAt, l.BootID, l.BootMS = ms, now.Wall+ms, now.BootID, now.Boot+ms
	if ms == 0 {
		l.ExpiresAt, l.BootID, l.BootMS = 0, "", 0
	}
}

// Left returns the time until the deadline; 0 or less means that the sandbox has expired.
// It is never more than the whole time to live, even if the clock was set back while the
// machine was off. limited is false if there is no deadline.
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

// Settle makes the clock of the present boot decide, after a boot of the machine.
func (l *Lifetime) Settle(now Moment) {
	if left, limited := l.Left(now); limited && l.BootID != now.BootID {
		l.BootID, l.BootMS = now.BootID, now.Boot+left.Milliseconds()
	}
}

// maxLeft bounds the durations in a file, in ms, so that nothing overflows.
const maxLeft = int64(2 * runtime.MaxLifetime / time.Millisecond)

// Deadline returns the time of day of the deadline, by the present clock; the zero Time
// means that there is no deadline.
func (l *Lifetime) Deadline(now Moment) time.Time {
	left, limited := l.Left(now)
	if !limited {
		return time.Time{}
	}
	at := now.Wall + left.Milliseconds()
	if off := at - l.ExpiresAt; -1000 < off && off < 1000 { // the clock was not set
		at = l.ExpiresAt
	}
	return time.UnixMilli(at)
}

// IdleTimeout returns the idle timeout; 0 means no idle timeout.
func (l *Lifetime) IdleTimeout() time.Duration {
	return time.Duration(min(max(l.Idle, 0), maxLeft)) * time.Millisecond
}

const lifetimeFile = "lifetime.json"

// newLifetime returns the Lifetime of a new sandbox; nil if it has no limit.
func newLifetime(c *Config, now Moment) *Lifetime {
	if c.TTL == 0 && c.IdleTimeout == 0 {
		return nil
	}
	l := &Lifetime{Idle: c.IdleTimeout.Milliseconds()}
	l.Renew(c.TTL, now)
	return l
}

// MayBeOver reports whether the sandbox seems to have expired, without reading its
// configuration.
func (rec *Record) MayBeOver(now Moment) bool {
	l := new(Lifetime)
	err := statefile.Read(filepath.Join(rec.path, lifetimeFile), l)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || rec.Expired(l, now) != ""
}

// Lifetime returns the limits of the sandbox with the configuration c; nil if it never
// had any. If their file was lost in a crash of the machine, they are those of the
// configuration, from the sandbox's creation on. ErrUnavailable: the file cannot be read,
// and may have been renewed.
func (rec *Record) Lifetime(c *Config) (*Lifetime, error) {
	l := new(Lifetime)
	err := statefile.Read(filepath.Join(rec.path, lifetimeFile), l)
	var why unix.Errno
	switch {
	case err == nil:
		return l, nil
	case runtime.Exhausted(err):
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lifetime of sandbox %s: %w", rec.id, err)
	case errors.As(err, &why) && why != unix.ENOENT && why != unix.ELOOP:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lifetime of sandbox %s: %w; if it is damaged, remove the sandbox with wolffia rm -f %s", rec.id, err, rec.id)
	}
	return newLifetime(c, Moment{Wall: c.CreatedAt}), nil
}

// over reports whether the sandbox with the configuration c is known to have expired.
func (rec *Record) over(c *Config) bool {
	l, err := rec.Lifetime(c)
	return err == nil && rec.Expired(l, Now()) != ""
}

// SetLifetime replaces the limits, on the disk too. The caller holds the lock of
// LockConfig.
func (rec *Record) SetLifetime(l *Lifetime) error {
	if err := statefile.WriteSync(filepath.Join(rec.path, lifetimeFile), l); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "lifetime of sandbox %s: %w", rec.id, err)
	}
	return nil
}

// Expired returns why a sandbox with the limits l, which may be nil, has expired; "" if it
// has not. If it has limits, the record of its shim is final.
func (rec *Record) Expired(l *Lifetime, now Moment) runtime.Expiry {
	if l == nil {
		return ""
	}
	if left, limited := l.Left(now); limited && left <= 0 {
		return runtime.ExpiredTTL
	}
	var s Status
	if statefile.Read(filepath.Join(rec.Run(), "status.json"), &s) != nil {
		return ""
	}
	if s.Expired == runtime.ExpiredTTL || s.Expired == runtime.ExpiredIdle && l.Idle > 0 {
		return s.Expired
	}
	return ""
}
