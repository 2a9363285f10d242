package shim

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/runtime"
	"wolffia/wire"
)

// A standing is where a sandbox is in its lifetime.
type standing struct {
	limited bool          // there is a deadline
	left    time.Duration // until then; 0 or less: it is over
	timeout time.Duration // for being idle; 0: none
	busy    bool
	idle    time.Duration // since when it is not busy
}

// verdict says why the sandbox is over, or after how long to look again: before
// that it cannot be. 0 is never, until something else is asked for. While the
// sandbox is busy it is not known when it begins to be idle: it is looked at once
// for each idle timeout, so that commands need not tell when they begin.
func (s standing) verdict() (over runtime.Expiry, next time.Duration) {
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

// A lifetime ends a sandbox when its time is over. It has one timer, by
// CLOCK_BOOTTIME (timerfd_create(2)), which goes on while the machine sleeps and
// cannot be set; for being idle CLOCK_MONOTONIC counts, which stops meanwhile.
type lifetime struct {
	relay *relay
	end   func(runtime.Expiry) // called once at most, in a goroutine of its own

	mu     sync.Mutex
	limits statedir.Lifetime // guarded by mu
	timer  *os.File          // nil: nothing was ever to be waited for; guarded by mu
	fd     int               // of timer; guarded by mu
	over   bool              // guarded by mu
}

// begin has the limits, which may be nil, enforced from now on.
func (l *lifetime) begin(limits *statedir.Lifetime) error {
	l.relay.touch()
	if limits == nil {
		return nil
	}
	if limits.IdleTimeout() > 0 {
		if err := l.relay.w.Send(wire.WatchBusy, 0, nil); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renew(limits)
}

// errOver is what who comes too late is told.
var errOver = errors.New("its lifetime is just over")

// touch begins the idle time anew.
func (l *lifetime) touch() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return runtime.WithClass(runtime.ErrNotFound, errOver)
	}
	l.relay.touch()
	return nil
}

// set is touch and other limits.
func (l *lifetime) set(limits *statedir.Lifetime) error {
	if err := l.touch(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limits.Idle = l.limits.Idle
	return l.renew(limits)
}

// renew takes other limits. l.mu is held.
func (l *lifetime) renew(limits *statedir.Lifetime) error {
	if l.timer == nil {
		fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "a timer for the sandbox's lifetime: %w", err)
		}
		l.timer, l.fd = os.NewFile(uintptr(fd), "timer"), fd
		go l.watch(l.timer) // ends with the process, or the lifetime
	}
	l.limits = *limits
	l.limits.Settle(statedir.Now())
	return l.look()
}

// watch looks whenever the timer is due.
func (l *lifetime) watch(timer *os.File) {
	for buf := make([]byte, 8); ; {
		if _, err := timer.Read(buf); err != nil {
			return
		}
		l.mu.Lock()
		err := l.look()
		over := l.over
		l.mu.Unlock()
		if err != nil { // it cannot be: the descriptor is a timer's, the value in range
			fmt.Fprintln(os.Stderr, "the timer for the sandbox's lifetime:", err)
		}
		if over {
			return
		}
	}
}

// look ends the sandbox, or sets the timer. l.mu is held.
func (l *lifetime) look() error {
	if l.over {
		return nil
	}
	now := standing{timeout: l.limits.IdleTimeout()}
	now.left, now.limited = l.limits.Left(statedir.Now())
	now.busy, now.idle = l.relay.use()
	over, next := now.verdict()
	if over != "" {
		l.over = true
		go l.end(over) // ends when it is asked for
		return nil
	}
	// 0 disarms it.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(next))}
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(l.fd, 0, &spec, nil))
}

// expire ends the sandbox because its lifetime is over, as a stop does. It is
// gone for its users from now on, though its processes have their time.
func (s *shim) expire(why runtime.Expiry) {
	outcome := statedir.Status{State: runtime.StateStopped, Reason: why.Why(), Expired: why}
	s.mu.Lock()
	ending := s.outcome != nil
	if !ending {
		s.outcome = &outcome
		if err := statedir.SetStatus(s.boot.Run, &outcome); err != nil {
			fmt.Fprintln(os.Stderr, "record the end:", err)
		}
	}
	s.mu.Unlock()
	if ending {
		return
	}
	fmt.Fprintf(os.Stderr, "the sandbox ends: %s\n", why.Why())
	s.end(outcome, boot.StopGrace)
}
