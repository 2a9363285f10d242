package attach

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What becomes of signals, by the order in which they come, at 100 ms apart where
// nothing else is said.
func TestPatience(t *testing.T) {
	const (
		second = "second" // passes
		start  = "start"  // the command begins
	)
	for _, tt := range []struct {
		name    string
		session bool
		events  []any
		want    []verdict // of the signals
	}{
		{"a program gets TERM", false, []any{start, unix.SIGTERM}, []verdict{passed}},
		{"also that of timeout's group", false, []any{start, unix.SIGTERM, unix.SIGTERM}, []verdict{passed, passed}},
		{"the second TERM is ours", false, []any{start, unix.SIGTERM, second, unix.SIGTERM}, []verdict{passed, shuttingDown}},
		{"and so is HUP behind TERM", false, []any{start, unix.SIGTERM, second, unix.SIGHUP}, []verdict{passed, shuttingDown}},
		{"a text is given up", true, []any{start, unix.SIGTERM}, []verdict{givenUp}},
		{"by HUP too", true, []any{start, unix.SIGHUP}, []verdict{givenUp}},
		{"timeout sends two", true, []any{start, unix.SIGTERM, unix.SIGTERM}, []verdict{givenUp, ignored}},
		{"a terminal's end is more than one", true, []any{start, unix.SIGHUP, unix.SIGHUP, unix.SIGTERM}, []verdict{givenUp, ignored, ignored}},
		{"the second ends us", true, []any{start, unix.SIGHUP, second, unix.SIGHUP}, []verdict{givenUp, shuttingDown}},
		{"INT ends us then, too", true, []any{start, unix.SIGTERM, unix.SIGINT}, []verdict{givenUp, shuttingDown}},
		{"INT is the foreground's", true, []any{start, unix.SIGINT, unix.SIGINT}, []verdict{passed, warned}},
		{"but for the third", true, []any{start, unix.SIGINT, unix.SIGINT, unix.SIGINT}, []verdict{passed, warned, shuttingDown}},
		{"if it is in haste", false, []any{
			start, unix.SIGINT, second, second, second, unix.SIGINT, second, second, second, unix.SIGINT, second, unix.SIGINT,
		}, []verdict{passed, warned, warned, shuttingDown}},
		{"slow ones are apart", false, []any{start, unix.SIGINT, second, second, second, second, second, unix.SIGINT}, []verdict{passed, passed}},
		{"what has not begun is given up", false, []any{unix.SIGTERM}, []verdict{givenUp}},
		{"by INT", false, []any{unix.SIGINT}, []verdict{givenUp}},
		{"by QUIT", true, []any{unix.SIGQUIT}, []verdict{givenUp}},
		{"at the second we leave", false, []any{unix.SIGINT, unix.SIGINT}, []verdict{givenUp, shuttingDown}},
		{"TERM ends us then, too", false, []any{unix.SIGINT, unix.SIGTERM}, []verdict{givenUp, shuttingDown}},
		{"by QUIT as well", false, []any{unix.SIGQUIT, unix.SIGQUIT}, []verdict{givenUp, shuttingDown}},
		{"others pass", true, []any{unix.SIGUSR1, start, unix.SIGQUIT, unix.SIGUSR2, unix.SIGQUIT}, []verdict{passed, passed, passed, passed}},
	} {
		p, now := patience{session: tt.session}, time.Now()
		var got []verdict
		for _, e := range tt.events {
			now = now.Add(100 * time.Millisecond)
			switch e := e.(type) {
			case syscall.Signal:
				got = append(got, p.decide(e, now))
			case string:
				if e == start {
					p.started = true
				} else {
					now = now.Add(time.Second)
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
