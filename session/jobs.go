package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/internal/excerpt"
	"wolffia/internal/sys/proc"
	"wolffia/wire"
)

// addJob adds a job and begins to read its streams, by their number: 0 is stdout, 1
// stderr.
func (m *Manager) addJob(j *job, streams map[int]int) {
	j.change = sync.NewCond(&j.mu)
	for which, fd := range streams {
		j.follow(which, fd, m.boundOutputs)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nextJob++
	j.id = itoa(m.nextJob)
	m.activity.add(j)
	m.jobs = append(m.jobs, j)
	if len(m.jobs) <= maxJobs {
		return
	}
	i := slices.IndexFunc(m.jobs, func(old *job) bool {
		old.mu.Lock()
		defer old.mu.Unlock()
		return !old.ended.IsZero() || len(old.members) == 0
	})
	if i >= 0 {
		m.jobs = slices.Delete(m.jobs, i, i+1)
	}
}

// boundOutputs drops the oldest output of streams that have ended, if there is too much of it.
func (m *Manager) boundOutputs() {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := 0
	for i, j := range slices.Backward(m.jobs) {
		j.mu.Lock()
		for _, t := range j.tails {
			if t == nil || t.open {
				continue
			}
			if size += int(t.ring.End() - t.ring.Start()); size > maxJobBytes && i < len(m.jobs)-1 {
				t.ring.Drop()
			}
		}
		j.mu.Unlock()
	}
}

// named returns the session of that name, if there is one; with an empty name
// all.
func (m *Manager) named(name string) (all []*Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sessions {
		if name == "" || s.name == name {
			all = append(all, s)
		}
	}
	return all
}

// jobsOf lists the jobs of a session; of all with an empty name.
func (m *Manager) jobsOf(session string) []*job {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*job
	for _, j := range m.jobs {
		if session == "" || j.session == session {
			all = append(all, j)
		}
	}
	return all
}

// job finds a job by id or name, the newest of a name first; alive only those
// that run.
func (m *Manager) job(session, key string, alive bool) *job {
	for _, j := range slices.Backward(m.jobsOf(session)) {
		if (j.id == key || j.name != "" && j.name == key) && (!alive || j.refresh(proc.Others())) {
			return j
		}
	}
	return nil
}

// checkJob returns an error if a job runs that has the name of one to start.
func (m *Manager) checkJob(q *wire.SessionRequest) error {
	if q.Op == wire.SessionJobStart && q.Job != "" && m.job(q.Name, q.Job, true) != nil {
		return fmt.Errorf("job %q runs already", q.Job)
	}
	return nil
}

// running counts the jobs of a session that run.
func (m *Manager) running(session string) (n int) {
	jobs := m.jobsOf(session)
	if len(jobs) == 0 {
		return 0
	}
	all := proc.Others()
	for _, j := range jobs {
		if j.refresh(all) {
			n++
		}
	}
	return n
}

// openJob begins an operation on jobs.
func (m *Manager) openJob(c *Call) {
	q := c.req.Session
	if q.Name != "" && m.session(q.Name) == nil && len(m.jobsOf(q.Name)) == 0 {
		c.fail(wire.ClassNotFound, fmt.Sprintf("no session %q", q.Name))
		return
	}
	if q.Op == wire.SessionJobs {
		go func() { // ends when it is sent
			for _, s := range m.named(q.Name) {
				s.turns.wait(func() {}) // jobs that a command has left are known
			}
			all := proc.Others()
			infos := []wire.JobInfo{}
			for _, j := range m.jobsOf(q.Name) {
				for j.refresh(all); j.unreaped(); j.refresh(all) {
					proc.Pause(nil)
					all = proc.Others()
				}
				infos = append(infos, j.describe(all))
			}
			m.answer(c, infos)
		}()
		return
	}
	j := m.job(q.Name, q.Job, false)
	if j == nil {
		c.fail(wire.ClassNotFound, fmt.Sprintf("no job %q", q.Job))
		return
	}
	switch q.Op {
	case wire.SessionJobSignal:
		if q.Signal == 0 || q.Signal > 64 {
			c.fail(wire.ClassInvalid, fmt.Sprintf("signal %d: want 1 to 64", q.Signal))
			return
		}
		go func() { // ends when all have it
			j.signal(unix.Signal(q.Signal))
			c.exit(wire.ExitStatus{})
		}()
	default:
		w := newWatch(j, m.host.Clock)
		c.setHandler(w)
		if q.Op == wire.SessionJobWait {
			go w.wait(c)
		} else {
			go w.output(c)
		}
	}
}

// A watch is a call that waits for a job, or for its output.
type watch struct {
	watcher
	j     *job
	clock *Clock          // of the time-out
	ctx   context.Context // ends when the call is canceled
	stop  context.CancelFunc
}

func newWatch(j *job, clock *Clock) *watch {
	w := &watch{watcher: watcher{change: j.change}, j: j, clock: clock}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

func (w *watch) onKill(c *Call) {
	w.stop()
	w.watcher.onKill(c)
}

func (w *watch) onSignal(_ *Call, sig syscall.Signal) {
	go w.j.signal(sig) // ends when all processes have it
}

// wait ends the call when the job is over; runs in a goroutine of its own.
func (w *watch) wait(c *Call) {
	defer w.stop()
	ctx := w.ctx
	if ms := c.req.TimeoutMS; ms > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		defer w.clock.AfterFunc(milliseconds(ms), stop)()
	}
	over := w.j.await(ctx.Done())
	w.j.mu.Lock()
	st := wire.ExitStatus{Code: 125, StatusLost: w.j.status == nil, DurationMS: w.j.ended.Sub(w.j.started).Milliseconds()}
	if w.j.status != nil {
		st.Code, st.Signal = *w.j.status, int(w.j.endedBy())
	}
	w.j.mu.Unlock()
	switch {
	case over:
		c.exit(st)
	case w.ctx.Err() == nil:
		c.exit(wire.ExitStatus{Code: 124, TimedOut: true})
	default:
		c.giveUp()
	}
}

// output sends what the job has written; runs in a goroutine of its own.
func (w *watch) output(c *Call) {
	j, q := w.j, c.req.Session
	at := [2]uint64{q.Offset, q.ErrOffset}
	j.mu.Lock()
	var of [2]*excerpt.Ring // the output to send
	for i, t := range j.tails {
		end := uint64(0)
		if t != nil {
			of[i], end = t.ring, t.ring.End()
			if !q.Follow { // as it is now: while it is sent the job may write more than is kept
				of[i] = t.ring.Clone()
			}
		}
		if at[i] == wire.FromEnd {
			at[i] = end
		}
	}
	w.follow(c, func() (sent, more bool) {
		for i, t := range j.tails {
			if t == nil {
				continue
			}
			sent = w.send(c, outputs[i], of[i], &at[i]) || sent
			more = more || at[i] < of[i].End() || q.Follow && t.open
		}
		return sent, more
	})
	j.mu.Unlock()
	c.exit(wire.ExitStatus{StdoutEnd: at[0], StderrEnd: at[1]})
}
