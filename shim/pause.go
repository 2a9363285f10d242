package shim

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/proc"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/wire"
)

const (
	// quietLimit is how long PID 1 may take to complete its frame and answer. One that does not, as
	// it is hostile or gets no processor, is paused all the same: then time-outs inside may count the
	// pause.
	quietLimit = 2 * time.Second
	// freezeLimit is how long all processes may take to stand still: some may wait for a file system.
	freezeLimit = 10 * time.Second
)

// pauses are the pauses of a sandbox. It is safe for concurrent use.
type pauses struct {
	// idle is set before a pause of an unused sandbox checks once more that it is not used. A
	// request that uses it says so first, and then calls wake.
	idle atomic.Bool
	// over is set before letEnd thaws the control group: what a pause freezes then, it thaws itself.
	over atomic.Bool

	mu  sync.Mutex
	now statedir.Pause // guarded by mu
	// PID 1 has answered before it stood still: no frame is half written; guarded by mu
	quiet bool
}

func (p *pauses) on() bool { return p.since() > 0 }

// since returns when the pause has begun, as statedir.Pause; 0: it does not pause.
func (p *pauses) since() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.SinceMS
}

// freezer returns the functions that have all processes stand still, and run on.
func (s *shim) freezer() (freeze, thaw func() error, err error) {
	switch {
	case s.inst.Pause != nil:
		return s.inst.Pause, s.inst.Resume, nil
	case s.group.CanFreeze():
		return func() error {
			if err := s.group.Freeze(freezeLimit); err != nil || !s.pauses.over.Load() {
				return err
			}
			return errors.Join(errors.New("it ends"), s.group.Thaw())
		}, s.group.Thaw, nil
	}
	return nil, nil, runtime.Errorf(runtime.ErrUnsupported, "the sandbox has no control group of its own, by which it could be paused: make it with a limit, such as --pids 10000, or with --runtime gvisor; wolffia doctor says whether there are control groups")
}

// letEnd thaws the control group when the backend or PID 1 has ended: a frozen bubblewrap does not
// note PID 1's end, and holds its stream open. In version 1 no signal ends what is frozen, or what
// has a fatal signal and is frozen before it gets a processor.
func (s *shim) letEnd() {
	if s.group == nil {
		return
	}
	dead := make(chan struct{})
	if pid1 := s.inst.pid1(); pid1.pid > 0 {
		go func() { // ends with PID 1
			wait := []unix.PollFd{{Fd: int32(pid1.fd), Events: unix.POLLIN}} // pidfd_open(2)
			for n := 0; n < 1; n, _ = unix.Poll(wait, -1) {                  // else EINTR
			}
			close(dead)
		}()
	}
	select {
	case <-dead:
	case <-s.inst.ended:
	case <-s.net.over:
	}
	s.pauses.over.Store(true)
	if err := s.group.Thaw(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// lookFrozen is how often endKilled looks: the kernel does not tell.
const lookFrozen = time.Second

// endKilled thaws the control group if PID 1 or the backend was killed while that is frozen, which
// ends the sandbox. It ends with the pause that has begun at since.
func endKilled(s *shim, since int64) {
	for s.pauses.since() == since {
		for _, pid := range []int{s.inst.PID, s.inst.pid1().pid} {
			if pid > 0 && proc.SignalsOf(pid).Pending.Has(unix.SIGKILL) {
				s.pauses.over.Store(true)
				if err := s.group.Thaw(); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
				return
			}
		}
		time.Sleep(lookFrozen)
	}
}

// pause has all processes stand still until resume, and records it. idle says that the sandbox was
// not used.
func (s *shim) pause(idle bool) error {
	p := &s.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.SinceMS > 0 {
		return s.setPause(p.now.SinceMS, p.now.TotalMS, p.now.Idle && idle)
	}
	p.idle.Store(idle)
	if busy, _ := s.relay.usage(); idle && (busy || s.asks.waits()) {
		p.idle.Store(false)
		return nil
	}
	freeze, thaw, err := s.freezer()
	if err != nil {
		p.idle.Store(false)
		return err
	}
	if s.ending() {
		return errEnds
	}
	p.quiet = s.relay.quiesce(quietLimit)
	step.Reached("pause: quiet")
	s.asks.freeze()
	if err = freeze(); err == nil {
		step.Reached("pause: frozen")
		if err = s.setPause(statedir.BootMS(), p.now.TotalMS, idle); err == nil {
			s.life.still(true)
			if s.inst.Pause == nil && s.group.HoldsSignals() {
				go endKilled(s, p.now.SinceMS) // ends with the pause
			}
			step.Reached("pause: recorded")
			return nil
		}
		_ = thaw()
	}
	s.asks.thaw()
	p.idle.Store(false)
	s.relay.resume()
	return runtime.Errorf(runtime.ErrUnavailable, "pause the sandbox: %w", err)
}

// resume has a paused sandbox run on; one that runs is left alone.
func (s *shim) resume() error {
	p := &s.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.SinceMS == 0 {
		return nil
	}
	_, thaw, err := s.freezer()
	if err == nil {
		err = thaw()
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "resume the sandbox: %w", err)
	}
	s.asks.thaw()
	step.Reached("resume: thawed")
	if s.setPause(0, p.now.Paused().Milliseconds(), false) != nil {
		_ = statedir.ForgetPauses(s.boot.Run) // the disk is full
	}
	step.Reached("resume: recorded")
	s.relay.resume()
	s.life.still(false)
	return nil
}

// idle does what is to be done with a sandbox that was not used for its idle timeout.
func (s *shim) idle() {
	var err error
	switch action := s.boot.Config.IdleAction; action {
	case runtime.IdleStop:
		s.end(statedir.Status{State: runtime.StateStopped, Reason: runtime.ExpiredIdle.Reason()}, boot.StopGrace)
	case runtime.IdlePause:
		if err = s.pause(true); err == nil && s.pauses.on() {
			s.group.Reclaim()
		}
	case runtime.IdleHibernate:
		err = s.hibernate(true)
	default:
		err = errors.New("it is not known")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "idle action %s: %v\n", s.boot.Config.IdleAction, err)
	}
}

// wake resumes a sandbox that is paused, or about to be, since it was not used.
func (s *shim) wake() {
	if !s.pauses.idle.Load() {
		return
	}
	if err := s.resume(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

var errEnds = runtime.Errorf(runtime.ErrConflict, "the sandbox ends")

// whileStill calls do, which keeps the sandbox's memory, while all processes stand still: those of a
// paused sandbox do, others for as long as do takes, unless it has ended them. Clients that ask
// meanwhile wait, and so does an end of the sandbox that has a grace.
func (s *shim) whileStill(do func() (ended bool, err error)) error {
	p := &s.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.inst.Save == nil {
		return runtime.Errorf(runtime.ErrUnsupported, "memory is kept by --runtime gvisor only")
	}
	notQuiet := runtime.Errorf(runtime.ErrUnavailable, "PID 1 does not answer")
	if p.now.SinceMS > 0 {
		if !p.quiet {
			return notQuiet
		}
		_, err := do()
		return err
	}
	freeze, thaw, err := s.freezer()
	if err != nil {
		return err
	}
	if s.ending() {
		return errEnds
	}
	defer s.relay.resume()
	if !s.relay.quiesce(quietLimit) {
		return notQuiet
	}
	step.Reached("still: quiet")
	if err := freeze(); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	ended, err := do()
	if ended {
		return err
	}
	return errors.Join(err, thaw())
}

// setPause records a pause since a time, 0: none. pauses.mu is held.
func (s *shim) setPause(since, total int64, idle bool) error {
	now := statedir.Pause{SinceMS: since, TotalMS: total, Idle: idle}
	err := statedir.SetPause(s.boot.Run, &now)
	if err == nil || since == 0 {
		s.pauses.now = now
		s.pauses.idle.Store(idle)
	}
	return err
}

// ending reports whether the sandbox's end was requested.
func (s *shim) ending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcome != nil
}

// quiesce has PID 1 complete the frame that it writes, and holds all frames for it until resume. It
// reports whether PID 1 has answered within the limit.
func (r *relay) quiesce(limit time.Duration) bool {
	quiet, holding := make(chan struct{}), make(chan struct{})
	r.mu.Lock()
	r.quiet, r.holding, r.still = quiet, holding, true
	r.mu.Unlock()
	go func() { // ends with the stream; a PID 1 that does not read holds it up
		_ = r.w.Hold(wire.Quiesce)
		close(holding)
	}()
	return boot.Within(limit, quiet)
}

// resume ends quiesce.
func (r *relay) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	holding := r.holding
	r.quiet, r.still = nil, false
	if r.active() > 0 {
		r.watch()
	}
	go func() { // as in quiesce
		<-holding
		_ = r.w.Free(wire.Resumed)
	}()
}
