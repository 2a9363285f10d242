package session_test

import (
	"strings"
	"testing"
	"time"
)

// A trap that the user has on SIGINT is run once when time is over; twice by a shell that raises SIGINT because a
// program has died of it.
func TestTrapIsRunOnce(t *testing.T) {
	for name, shell := range shells(t) {
		for text, raises := range map[string]bool{
			"while :; do :; done": false, "sleep 1000": name != "bash", "read x": name != "bash", "wait": name != "bash",
		} {
			t.Run(name+"/"+text, func(t *testing.T) {
				s := open(t, shell)
				s.exec(t, "sleep 1000 & trap 'echo I' INT")
				r := s.run(t, text, timeout(300*time.Millisecond), withInput)
				if n := strings.Count(r.stdout, "I\n"); n != 1 && !(raises && n == 2) || !r.TimedOut || r.SessionEnded || r.StatusLost {
					t.Errorf("%v", r)
				}
				s.alive(t)
			})
		}
	}
}
