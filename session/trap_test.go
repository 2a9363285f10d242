package session_test

import (
	"strings"
	"testing"
	"time"
)

// A trap that the user has on SIGINT is run once when time is over. dash and ash may run it twice:
// they raise SIGINT when a program has died of it, and are sent one when they are slow to leave
// the text.
func TestTrapIsRunOnce(t *testing.T) {
	for name, shell := range shells(t) {
		for _, text := range []string{"while :; do :; done", "sleep 1000", "read x", "wait"} {
			t.Run(name+"/"+text, func(t *testing.T) {
				s := open(t, shell)
				s.exec(t, "sleep 1000 & trap 'echo I' INT")
				r := s.run(t, text, timeout(300*time.Millisecond), withInput)
				if n := strings.Count(r.stdout, "I\n"); n != 1 && !(name != "bash" && n == 2) || !r.TimedOut || r.SessionEnded || r.StatusLost {
					t.Errorf(`run: got r %v; want (n == 1 or name != "bash" and n == 2) and r.TimedOut and not r.SessionEnded and not r.StatusLost`,
						r)
				}
				s.alive(t)
			})
		}
	}
}
