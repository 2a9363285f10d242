package shim

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/wire"
)

// An age is how much of its lifetime a sandbox has left.
type age struct {
	limited bool          // there is a deadline
	left    time.Duration // until the deadline
	timeout time.Duration // idle timeout; 0: none
	busy    bool
	idle    time.Duration // time since the sandbox was last busy
}

// expiry returns why the sandbox has expired, or the time after which it may have; 0 is
// never, with these limits. While the sandbox is busy, that is the idle timeout, so that
// no command has to report its start.
func (s age) expiry() (over runtime.Expiry, next time.Duration) {
	if s.limited {
		if s.left <= 0 {
			return runtime.ExpiredTTL, 0
		}
		next = s.left
	}
	if s.timeout <= 0 {
		return "", next
	}
	wait := s.timeout
	if !s.busy {
		if wait -= s.idle; wait <= 0 {
			return runtime.ExpiredIdle, 0
		}
	}
	if next == 0 || wait < next {
		next = wait
	}
	return "", next
}

// A lifetime ends a sandbox when it expires. Its one timer uses CLOCK_BOOTTIME
// (timerfd_create(2)), which runs on while the machine sleeps and cannot be set. Idle
// time is measured by CLOCK_MONOTONIC, which stops meanwhile. It is safe for concurrent
// use.
type lifetime struct {
	relay *relay
	end   func(runtime.Expiry) // called once at most, in a goroutine of its own
	idle  func()               // called in its place after the idle timeout, in a goroutine of its own; nil: it is not

	mu      sync.Mutex
	limits  statedir.Lifetime // guarded by mu
	timer   *os.File          // nil: there was no limit yet; guarded by mu
	fd      int               // of timer; guarded by mu
	expired bool              // guarded by mu
	paused  bool              // the idle time stands still; guarded by mu
}

// begin starts the lifetime with limits, which may be nil.
func (l *lifetime) begin(limits *statedir.Lifetime) error {
	l.relay.touch()
	if limits == nil {
		return nil
	}
	if limits.IdleTimeout() > 0 {
		l.relay.watchesBusy.Store(true)
		if err := l.relay.w.Send(wire.WatchBusy, 0, nil); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renew(limits)
}

// errExpiring is returned for requests after the sandbox has expired.
var errExpiring = errors.New("the sandbox has just expired")

// touch restarts the idle time.
func (l *lifetime) touch() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expired {
		return runtime.WithClass(runtime.ErrNotFound, errExpiring)
	}
	l.relay.touch()
	return nil
}

// set is touch, and replaces the limits but for the idle timeout.
func (l *lifetime) set(limits *statedir.Lifetime) error {
	if err := l.touch(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limits.Idle = l.limits.Idle
	return l.renew(limits)
}

// still says whether the sandbox is paused from now on. Its end begins the idle time anew.
func (l *lifetime) still(paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = paused
	l.relay.touch()
	if l.timer != nil {
		_ = l.look() // impossible: the descriptor is a timer's
	}
}

// renew replaces the limits. l.mu is held.
func (l *lifetime) renew(limits *statedir.Lifetime) error {
	if l.timer == nil {
		fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "create the timer for the sandbox's lifetime: %w", err)
		}
		l.timer, l.fd = os.NewFile(uintptr(fd), "timer"), fd
		go l.watch(l.timer) // ends with the process, or the lifetime
	}
	l.limits = *limits
	l.limits.Settle(statedir.Now())
	return l.look()
}

// watch calls look whenever the timer expires, until the lifetime does.
func (l *lifetime) watch(timer *os.File) {
	for buf := make([]byte, 8); ; {
		if _, err := timer.Read(buf); err != nil {
			return
		}
		l.mu.Lock()
		err := l.look()
		expired := l.expired
		l.mu.Unlock()
		if err != nil { // impossible: the descriptor is a timer's, and the value is in range
			fmt.Fprintln(os.Stderr, "set the timer for the sandbox's lifetime:", err)
		}
		if expired {
			return
		}
	}
}

// look ends the sandbox, or sets the timer. l.mu is held.
func (l *lifetime) look() error {
	if l.expired {
		return nil
	}
	now := age{timeout: l.limits.IdleTimeout()}
	if l.paused {
		now.timeout = 0
	}
	now.left, now.limited = l.limits.Left(statedir.Now())
	now.busy, now.idle = l.relay.usage()
	over, next := now.expiry()
	if over == runtime.ExpiredIdle && l.idle != nil {
		l.relay.touch() // should it fail, it is tried again after as long
		go l.idle()     // ends once it has requested the end, or paused the sandbox
		over, next = "", now.timeout
		if now.limited {
			next = min(next, now.left)
		}
	}
	if over != "" {
		l.expired = true
		go l.end(over) // ends once it has requested the end
		return nil
	}
	// 0 disarms the timer.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(next))}
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(l.fd, 0, &spec, nil))
}
