package session

import (
	"sync"
	"time"
)

// A Clock is the time in which the sandbox runs: it stands still while that is paused. Time-outs of
// commands count by it. The zero Clock runs, and so does a nil one. It is safe for concurrent use.
type Clock struct {
	mu      sync.Mutex
	skipped time.Duration // guarded by mu
	stopped time.Time     // zero: it runs; guarded by mu
}

// Now returns the time, for comparison with other times of this clock.
func (c *Clock) Now() time.Time {
	now := time.Now()
	if c == nil {
		return now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped.IsZero() {
		now = c.stopped
	}
	return now.Add(-c.skipped)
}

// Stop stops the clock.
func (c *Clock) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped.IsZero() {
		c.stopped = time.Now()
	}
}

// Continue has a stopped clock run on.
func (c *Clock) Continue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped.IsZero() {
		c.skipped += time.Since(c.stopped)
		c.stopped = time.Time{}
	}
}

// minWait is the least wait for a time that has not come when a timer ends, since the clock was
// stopped meanwhile, or is.
const minWait = 10 * time.Millisecond

// wait returns for how long a timer is to run until a time of this clock may have come.
func (c *Clock) wait(until time.Time) time.Duration { return max(until.Sub(c.Now()), minWait) }

// AfterFunc calls f in a goroutine of its own once the clock has run for d, unless stop is called
// before. It is as [time.AfterFunc].
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func()) {
	var mu sync.Mutex
	over := false // guarded by mu
	due := c.Now().Add(d)
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(d, func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case over:
		case c.Now().Before(due):
			timer.Reset(c.wait(due))
		default:
			over = true
			go f()
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}
