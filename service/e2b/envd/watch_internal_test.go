package envd

import (
	"testing"
	"testing/synctest"
	"time"
)

// A client that polls gets what comes soon, and does not wait for ever.
func TestSettle(t *testing.T) {
	for events, want := range map[int]time.Duration{0: quiet, 3: 3*30*time.Millisecond + quiet, 100: mostQuiet} {
		synctest.Test(t, func(t *testing.T) {
			w := &watcher{more: make(chan struct{}, 1), ended: make(chan struct{})}
			go func() { // ends with its events
				for range events {
					time.Sleep(30 * time.Millisecond)
					select {
					case w.more <- struct{}{}:
					default:
					}
				}
			}()
			begin := time.Now()
			w.settle(t.Context())
			if took := time.Since(begin); took != want {
				t.Errorf("%d events: %v, want %v", events, took, want)
			}
			time.Sleep(time.Duration(events) * 30 * time.Millisecond) // the others
		})
	}
}
