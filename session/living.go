package session

import "sync"

// A living counts what runs without a channel that shows it, for whoever wants to
// know: background jobs, once somebody does, and commands that are kept.
type living struct {
	mu     sync.Mutex
	report func(n uint32) // nil: nobody wants to know; guarded by mu
	n      uint32         // guarded by mu
}

// WatchBusy has report called with how many background jobs and kept commands run
// when that becomes some, or none; at once, if some do. It is called once at a time
// and may wait. The last call counts.
func (m *Manager) WatchBusy(report func(running uint32)) {
	m.mu.Lock() // no job is added meanwhile
	defer m.mu.Unlock()
	if !m.alive.watch(report) {
		return
	}
	for _, j := range m.jobs {
		m.alive.add(j)
	}
}

// watch sets who wants to know, and reports whether nobody did so far.
func (l *living) watch(report func(uint32)) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = l.report == nil
	l.report = report
	if l.n > 0 {
		report(l.n)
	}
	return first
}

// add counts a job until it is over.
func (l *living) add(j *job) {
	l.mu.Lock()
	watched := l.report != nil
	l.mu.Unlock()
	if !watched {
		return
	}
	go func() { // ends with the job
		l.begin()
		j.await(nil)
		l.end()
	}()
}

// begin counts one more.
func (l *living) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if l.n == 1 && l.report != nil {
		l.report(l.n)
	}
}

// end counts one less.
func (l *living) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	if l.n == 0 && l.report != nil {
		l.report(l.n)
	}
}
