package local

import (
	"math"
	"sync"
	"syscall"
	"time"

	"wolffia/wire"
	"wolffia/wire/client"
)

const (
	// overdueGrace is how long PID 1 may take to end a command whose timeout has passed.
	// It takes 3 s at most on a host that lets it run.
	overdueGrace = 10 * time.Second
	// overdueOutput is how many bytes of output may come after that while the reader is
	// slow: more than pipes and windows hold.
	overdueOutput = 16 << 20
)

// withGrace returns when a command with that timeout is overdue; the longest Duration if that is
// later.
func withGrace(timeout time.Duration) time.Duration {
	return min(timeout, math.MaxInt64-overdueGrace) + overdueGrace
}

// An overdue gives up a command that PID 1 does not end at its timeout, because PID 1 is
// stopped or lies.
type overdue struct {
	timeout time.Duration
	paused  func() time.Duration // for how long the sandbox was paused since its start
	session bool                 // it may wait for its turn first

	mu      sync.Mutex
	process *client.Process // guarded by mu
	timer   *time.Timer     // nil: the timeout has not begun; guarded by mu
	before  time.Duration   // paused, when the timeout began; guarded by mu
	// bytes of output when the timeout had passed; 0: before; guarded by mu
	late int64
	done bool // guarded by mu
}

// of tells it the process, once that was requested.
func (o *overdue) of(p *client.Process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.process = p
	if !o.session {
		o.count()
	}
}

// begin starts the timeout: PID 1 says that the command runs.
func (o *overdue) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count()
}

// count starts the timer. The caller holds o.mu.
func (o *overdue) count() {
	if o.timer == nil && !o.done {
		o.before = o.paused()
		o.timer = time.AfterFunc(withGrace(o.timeout), o.look)
	}
}

// stop stops the timer: the command has ended.
func (o *overdue) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done = true; o.timer != nil {
		o.timer.Stop()
	}
}

// look gives the command up, unless the command only waits for its output to be read.
func (o *overdue) look() {
	o.mu.Lock()
	p := o.process
	if p == nil || o.done {
		o.mu.Unlock()
		return
	}
	select {
	case <-p.Done():
		o.mu.Unlock()
		return
	default:
	}
	if now := o.paused(); now > o.before { // the timeout does not count pauses
		o.timer.Reset(max(now-o.before, overdueGrace))
		o.before = now
		o.mu.Unlock()
		return
	}
	total, unread := p.Backlog()
	if o.late == 0 {
		o.late = max(total, 1)
	}
	if unread && total-o.late <= overdueOutput {
		o.timer.Reset(overdueGrace)
		o.mu.Unlock()
		return
	}
	o.mu.Unlock()
	p.Abandon(wire.ExitStatus{
		Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL), TimedOut: true, StatusLost: o.session,
	})
}
