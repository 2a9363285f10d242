package session

import "sync"

// An activity counts what runs without a channel that shows it, while it is watched:
// background jobs, and detached commands.
type activity struct {
	mu     sync.Mutex
	report func(n uint32) // nil: not watched; guarded by mu
	n      int            // guarded by mu
}

// WatchBusy calls report with the number of running background jobs and detached commands when
// that changes between none and some; at once, if some run. It makes one call at a time, which may
// wait. It replaces the report of an earlier call.
func (m *Manager) WatchBusy(report func(running uint32)) {
	m.mu.Lock() // so that no job is added in between
	defer m.mu.Unlock()
	if !m.activity.watch(report) {
		return
	}
	for _, j := range m.jobs {
		m.activity.add(j)
	}
}

// watch sets the report, and reports whether it is the first one.
func (a *activity) watch(report func(uint32)) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first = a.report == nil
	a.report = report
	if a.n > 0 {
		report(uint32(a.n))
	}
	return first
}

// add counts a job until it is over.
func (a *activity) add(j *job) {
	a.mu.Lock()
	watched := a.report != nil
	a.mu.Unlock()
	if !watched {
		return
	}
	go func() { // ends with the job
		a.count(1)
		j.await(nil)
		a.count(-1)
	}()
}

// count counts one more, or one less.
func (a *activity) count(by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n += by
	if (a.n == 0 || a.n == 1 && by > 0) && a.report != nil {
		a.report(uint32(a.n))
	}
}
