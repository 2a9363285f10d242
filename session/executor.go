package session

import "sync"

// An executor runs functions one at a time, in the order in which they came. No
// goroutine waits for its turn: a caller that finds none at work runs its own function at
// once, without a switch to another goroutine, and what comes meanwhile is left to
// a goroutine that is started for it. So a caller is held up by its own function at most.
// The zero value is ready.
type executor struct {
	mu      sync.Mutex
	taken   bool     // a goroutine is at work; guarded by mu
	waiting []func() // guarded by mu
}

// do has f run: at once, unless another goroutine is at work.
func (e *executor) do(f func()) {
	e.mu.Lock()
	if e.taken {
		e.waiting = append(e.waiting, f)
		e.mu.Unlock()
		return
	}
	e.taken = true
	e.mu.Unlock()
	f()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.taken = len(e.waiting) > 0; e.taken {
		go e.rest() // ends when no function waits
	}
}

// leave is do for a caller that must not run even its own function.
func (e *executor) leave(f func()) {
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
			f()
		}
	}
}
