package sessiontest

import (
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

// A fate is what may become of the shell in an attack.
type fate int

const (
	lives  fate = iota // the shell continues
	ends               // the shell ends with the command, and the result says so
	either             // which of them is a matter of time: the shell is in the end as good as new
)

// lost is the code of a command whose status is unknown.
const lost = 125

// replaced is that of one whose shell had to be killed.
const replaced = 137

// anything is a message of the shell itself: versions and languages differ.
const anything = "\x00anything"

// An attack is a command that might do a session harm. After it, the session
// must answer exactly.
type attack struct {
	name   string
	script string
	stdout string // exactly
	stderr string // exactly, or anything
	code   int
	fate   fate
	slow   bool   // it ends by a timeout
	undo   string // is run before the session is looked at, whatever comes of it
	then   []step // exact commands that follow
	needs  Feature
}

// A step is a command with all its expected results.
type step struct {
	script, stdout, stderr string
	code                   int
}

// runAttacks runs the table, each attack on a session of its own. They share
// a sandbox: none may harm the others.
func runAttacks(t *testing.T, c *Config) {
	e := newEnv(t, c)
	witness := e.shell(nil)
	for i, a := range attacks() {
		if a.needs != "" && !c.has(a.needs) {
			continue // declared, and checked by a test of its own
		}
		if c.Sample && !testenv.Picked(i, 9) {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			a.run(e.fork(t))
		})
	}
	t.Cleanup(func() { // after the parallel ones
		w := &shell{e.fork(t), witness.Session}
		w.alive()
		w.same()
	})
}

func (a *attack) run(e *env) {
	var s *shell
	var r *runtime.ExecResult
	attack := func(timeout time.Duration) (came bool) {
		s = e.shell(nil)
		s.prints(`cd "$(mktemp -d)"`, "")
		r = s.exec(&runtime.SessionExecRequest{Command: []string{a.script}, Timeout: timeout})
		return len(r.Stdout) >= len(a.stdout)
	}
	if a.slow {
		suite.Timeouts(attack)
	} else {
		attack(0)
	}
	code := a.code
	if a.slow {
		code = 124
	}
	if string(r.Stdout) != a.stdout || a.stderr != anything && string(r.Stderr) != a.stderr ||
		r.ExitCode != code || r.TimedOut != a.slow {
		s.Errorf("%.300s\n got %.300q and %.300q, exit code %d, timed out: %v\nwant %.300q and %.300q, exit code %d, timed out: %v",
			a.script, r.Stdout, r.Stderr, r.ExitCode, r.TimedOut, a.stdout, strings.TrimPrefix(a.stderr, "\x00"), code, a.slow)
	}
	if a.fate != either && r.Session.Ended != (a.fate == ends) || r.Session.StatusLost != (code == lost) {
		s.Errorf("%.300s\nsession %+v, signal %d", a.script, r.Session, r.Signal)
	}
	if a.undo != "" {
		s.run(a.undo)
	}
	for _, st := range a.then {
		s.does(st.script, st.stdout, st.stderr, st.code)
	}
	s.alive()
	if a.fate == lives && a.undo == "" {
		s.same()
	}
	s.OK(s.rt.DestroySession(s.Ctx, s.ID))
}
