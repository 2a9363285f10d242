package session

import "sync"

// An executor runs functions one at a time, in the order in which they came. No goroutine waits
// for its turn. A caller that finds the executor idle runs its own function at once, without a
// switch to another goroutine. An executor that gets functions meanwhile starts a goroutine for
// them. So a caller is delayed by its own function at most.
type executor struct {
	turn    func(f func()) // runs f
	mu      sync.Mutex
	taken   bool     // a goroutine runs functions; guarded by mu
	waiting []func() // guarded by mu
}

// post runs f: at once, unless another goroutine runs functions. It does not wait for others.
func (e *executor) post(f func()) {
	e.mu.Lock()
	if e.taken {
		e.waiting = append(e.waiting, f)
		e.mu.Unlock()
		return
	}
	e.taken = true
	e.mu.Unlock()
	e.turn(f)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.taken = len(e.waiting) > 0; e.taken {
		go e.rest() // ends when no function waits
	}
}

// wait is post, and returns when f has been run.
func (e *executor) wait(f func()) {
	done := make(chan struct{})
	e.post(func() {
		defer close(done)
		f()
	})
	<-done
}

// later is post for what takes long, or for a caller that must not run even its own function.
func (e *executor) later(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = append(e.waiting, f)
	if !e.taken {
		e.taken = true
		go e.rest() // ends when no function waits
	}
}

// rest runs what waits.
func (e *executor) rest() {
	for {
		e.mu.Lock()
		all := e.waiting
		e.waiting = nil
		e.taken = len(all) > 0
		e.mu.Unlock()
		if len(all) == 0 {
			return
		}
		for _, f := range all {
			e.turn(f)
		}
	}
}
