package sessiontest

import (
	"errors"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var endTests = []test{
	{"EndExit", nil, endExit},
	{"EndRestored", nil, endRestored},
	{"EndKilled", nil, endKilled},
	{"EndReplaced", nil, endReplaced},
	{"EndStream", nil, endStream},
	{"EndKillsAll", nil, endKillsAll},
}

// ended checks the end of a shell with its command.
func (s *shell) ended(script, stdout string, code int) {
	s.Helper()
	r := s.run(script)
	if string(r.Stdout) != stdout || r.ExitCode != code || r.TimedOut || !r.Session.Ended || r.Session.StatusLost {
		s.Errorf("%s: %+v, session %+v, want %q, code %d and the end of the shell", script, r, r.Session, stdout, code)
	}
}

func endExit(e *env) {
	for _, tt := range []struct {
		script, stdout string
		code           int
	}{
		{"exit", "", 0},
		{"exit 3", "", 3},
		{"echo x; exit 255; echo y", "x\n", 255},
		{"false; exit", "", 1},
		{"f() { exit 4; }; f; echo no", "", 4},
		{"trap 'echo bye' EXIT; exit 5", "bye\n", 5},
		{"trap 'exit 6' EXIT; exit 5", "", 6},
		{"exec true", "", 0},
		{"exec sh -c 'echo new; exit 7'", "new\n", 7},
		{"eval 'eval \"exit 8\"'", "", 8},
		{"set -e; (exit 9); echo no", "", 9},
	} {
		s := e.shell(nil)
		s.ended(tt.script, tt.stdout, tt.code)
		if got := s.get(); got.State != runtime.SessionEnded && got.State != runtime.SessionIdle {
			s.Errorf("%s: the session is %+v", tt.script, got)
		}
		if r := s.run("echo next"); string(r.Stdout) != "next\n" || r.ExitCode != 0 || r.Session.Restored == "" || r.Session.Ended {
			s.Errorf("after %s: %+v, session %+v", tt.script, r, r.Session)
		}
		if got := s.get(); got.Restarts != 1 || got.State != runtime.SessionIdle || got.PID == s.PID || got.PID <= 1 {
			s.Errorf("after %s the session is %+v", tt.script, got)
		}
		s.alive()
	}
}

// A new shell has the state of the one that has ended, and the first result
// says so, once.
func endRestored(e *env) {
	s := e.shell(nil)
	s.prints(`cd /usr; export E='a  b'; v=$'plain\n'; a=(1 '2 3'); f() { echo f; }; alias hi='echo hi'; umask 027; set -f; shopt -s extglob; trap 'echo usr' USR1`, "")
	s.ended("v=last; exit 3", "", 3)
	const look = `pwd; sh -c 'echo "$E"'; echo "$v ${#a[@]}"; f; umask; echo *; shopt -q extglob && echo extglob; kill -USR1 $$; :`
	const want = "/usr\na  b\nlast 2\nf\n0027\n*\nextglob\nusr\n"
	r := s.does(look, want, "", 0)
	if r.Session.Restored != "full" || r.Session.Cwd != "/usr" {
		s.Errorf("session %+v", r.Session)
	}
	s.prints("hi", "hi\n")
	if r := s.does(look, want, "", 0); r.Session.Restored != "" {
		s.Errorf("the second result says %q", r.Session.Restored)
	}
	s.ended("exit 4", "", 4)
	if r := s.does(look, want, "", 0); r.Session.Restored != "full" {
		s.Errorf("session %+v", r.Session)
	}
}

// A shell that is killed has said nothing at its end; what is known is from
// before.
func endKilled(e *env) {
	for script, code := range map[string]int{"kill -9 $$": 137, "kill -HUP $$": 129} {
		s := e.shell(nil)
		s.prints("cd /usr; x=kept", "")
		s.ended("echo before; "+script+"; echo after", "before\n", code)
		r := s.run("echo next")
		if string(r.Stdout) != "next\n" || r.Session.Restored == "" {
			s.Errorf("after %s: %+v, session %+v", script, r, r.Session)
		}
		s.prints("cd /usr; pwd", "/usr\n")
		s.alive()
	}
}

// A shell that does not listen is replaced, within the time of the call.
func endReplaced(e *env) {
	s := e.shell(nil)
	s.prints("cd /usr; x=kept", "")
	r := s.timesOut("echo a; trap '' INT TERM 50; while :; do :; done", "a\n")
	if !r.Session.Ended {
		s.Errorf("session %+v", r.Session)
	}
	r = s.run("echo next")
	if string(r.Stdout) != "next\n" || r.Session.Restored == "" {
		s.Errorf("%+v, session %+v", r, r.Session)
	}
	if got := s.get(); got.Restarts != 1 {
		s.Errorf("get: got %+v; want got.Restarts == 1", got)
	}
	s.alive()
}

func endStream(e *env) {
	s := e.shell(nil)
	for _, tt := range []struct {
		script string
		ended  bool
	}{{"echo x; exit 3", true}, {"echo x; (exit 3)", false}} {
		got, err := s.stream(&runtime.SessionExecRequest{Command: []string{tt.script}})
		if ee, ok := errors.AsType[*runtime.ExitError](err); got != "x\n" || !ok || ee.ExitCode != 3 || ee.Session == nil || ee.Session.Ended != tt.ended {
			s.Errorf("%s: got %q, err %#v; want got == %q and ok and ee.ExitCode == 3 and ee.Session != nil and ee.Session.Ended == %v",
				tt.script, got, err, "x\n", tt.ended)
		}
	}
	var got string
	var err error
	suite.Timeouts(func(timeout time.Duration) (came bool) {
		got, err = s.stream(&runtime.SessionExecRequest{Command: []string{"echo x; sleep 1000"}, Timeout: timeout})
		return got != ""
	})
	if ee, ok := errors.AsType[*runtime.ExitError](err); got != "x\n" || !ok || !ee.TimedOut || ee.ExitCode != 124 || ee.Session == nil || ee.Session.Ended {
		s.Errorf("timeout: %q, %#v", got, err)
	}
	s.alive()
}

// Whatever a command can kill, it cannot kill the sessions.
func endKillsAll(e *env) {
	a, b := e.shell(nil), e.shell(nil)
	if r := a.run("kill -9 -1; sleep 0.2; exit 9"); !r.Session.Ended && r.ExitCode == 0 {
		a.Errorf("%+v, session %+v", r, r.Session)
	}
	for _, s := range []*shell{a, b} {
		s.run(":") // b's shell may be found dead only now
		s.alive()
	}
}
