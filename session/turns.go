package session

import "sync"

// Turns have functions run one at a time, in the order in which they came. No
// goroutine waits for its turn: whoever finds nobody at work does its own at
// once, without a switch to another goroutine, and what comes meanwhile is
// left to one that is started for it. So a caller is held up by its own
// function at most. The zero value is ready.
type turns struct {
	mu      sync.Mutex
	taken   bool     // somebody is at work; guarded by mu
	waiting []func() // guarded by mu
}

// do has f run: at once, unless somebody is at work.
func (t *turns) do(f func()) {
	t.mu.Lock()
	if t.taken {
		t.waiting = append(t.waiting, f)
		t.mu.Unlock()
		return
	}
	t.taken = true
	t.mu.Unlock()
	f()
	t.yield()
}

// leave is do for a caller that must not even run its own function.
func (t *turns) leave(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, f)
	if !t.taken {
		t.taken = true
		go t.rest() // ends when nobody waits
	}
}

// take takes the turn before anybody else is there.
func (t *turns) take() {
	t.mu.Lock()
	t.taken = true
	t.mu.Unlock()
}

// yield ends a turn.
func (t *turns) yield() {
	t.mu.Lock()
	t.taken = len(t.waiting) > 0
	more := t.taken
	t.mu.Unlock()
	if more {
		go t.rest() // ends when nobody waits
	}
}

// rest does what waits.
func (t *turns) rest() {
	for {
		t.mu.Lock()
		all := t.waiting
		t.waiting = nil
		t.taken = len(all) > 0
		t.mu.Unlock()
		if len(all) == 0 {
			return
		}
		for _, f := range all {
			f()
		}
	}
}
