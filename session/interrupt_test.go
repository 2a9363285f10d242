package session_test

import (
	"testing"
	"time"

	"wolffia/internal/test/testenv"
)

// A shell leaves a loop at an end of one of its commands, not amid what it does for
// itself: busybox ash would keep a lock of its C library for ever (clearerr in
// evalbltin, shell/ash.c of 1.35 and 1.36), and be replaced.
func TestLoopsAreLeftBetweenCommands(t *testing.T) {
	for name, path := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, path)
			for range testenv.Some(300) {
				if r := s.run(t, "while :; do :; done", timeout(20*time.Millisecond)); !r.TimedOut || r.Code != 124 || r.SessionEnded {
					t.Fatalf(`run "while :; do :; done": got r %v; want r.TimedOut and r.Code == 124 and not r.SessionEnded`, r)
				}
			}
			s.alive(t)
		})
	}
}
