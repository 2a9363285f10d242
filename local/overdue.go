package local

import (
	"sync"
	"syscall"
	"time"

	"wolffia/wire"
	"wolffia/wire/client"
)

const (
	// overdueGrace is how long PID 1 may take to end a command whose time is over. It
	// takes 3 s at most, on a host that lets it run.
	overdueGrace = 10 * time.Second
	// overdueOutput is how much output may come after that, in bytes, as long as it is its
	// reader who is slow: more than pipes and windows hold.
	overdueOutput = 16 << 20
)

// An overdue is a command that PID 1 should have ended, once it has not: it is stopped, or
// lies. Its caller does not wait for it any more.
type overdue struct {
	timeout time.Duration
	session bool // the command is one in a session, where it may wait for its turn first

	mu      sync.Mutex
	process *client.Process // guarded by mu
	timer   *time.Timer     // nil: the time does not count yet; guarded by mu
	late    int64           // bytes of output when its time was over; 0: it was not yet; guarded by mu
	done    bool            // guarded by mu
}

// of says which process it is, once it was asked for.
func (o *overdue) of(p *client.Process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.process = p
	if !o.session {
		o.count()
	}
}

// begin says that PID 1 has begun it.
func (o *overdue) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count()
}

// count has the time count from now on. o.mu is held.
func (o *overdue) count() {
	if o.timer == nil && !o.done {
		o.timer = time.AfterFunc(o.timeout+overdueGrace, o.look)
	}
}

// stop is for when the command has ended.
func (o *overdue) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done = true; o.timer != nil {
		o.timer.Stop()
	}
}

// look gives the command up, unless its output waits for its reader only.
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
