package session

import (
	"testing"
	"testing/synctest"
	"time"
)

// A clock that is stopped stands still, and what waits for its time waits for as long.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		begin := c.Now()
		fired := make(chan time.Duration, 2)
		c.AfterFunc(10*time.Second, func() { fired <- c.Now().Sub(begin) })
		c.AfterFunc(10*time.Second, func() { t.Error("a function that was stopped is called") })()
		time.Sleep(4 * time.Second)
		c.Stop()
		c.Stop()
		time.Sleep(time.Hour)
		if now := c.Now().Sub(begin); now != 4*time.Second {
			t.Errorf("a stopped clock: got %v, want 4s", now)
		}
		select {
		case <-fired:
			t.Error("a function is called while the clock is stopped")
		default:
		}
		c.Continue()
		c.Continue()
		time.Sleep(5 * time.Second)
		if now := c.Now().Sub(begin); now != 9*time.Second || len(fired) > 0 {
			t.Errorf("after an hour's stop: got %v and %d calls, want 9s and none", now, len(fired))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(fired) != 1 {
			t.Fatalf("%d calls, want 1", len(fired))
		}
		if at := <-fired; at < 10*time.Second || at > 11*time.Second {
			t.Errorf("called at %v, want 10s", at)
		}
	})
}
