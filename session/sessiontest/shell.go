package sessiontest

import (
	"context"
	"fmt"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

// A shell is a session that a test works with.
type shell struct {
	*env
	*runtime.Session
}

// shell starts a session; nil is the default one.
func (e *env) shell(c *runtime.SessionConfig) *shell {
	e.Helper()
	s, err := e.rt.CreateSession(e.Ctx, e.box, c)
	if err != nil {
		e.Fatalf("create session %+v: %v", c, err)
	}
	return &shell{e, s}
}

// exec runs a command to its end.
func (s *shell) exec(req *runtime.SessionExecRequest) *runtime.ExecResult {
	s.Helper()
	r, err := s.rt.SessionExec(s.Ctx, s.ID, req)
	if err != nil {
		s.Fatalf("SessionExec: got req.Command %.300s, err %v; want err == nil", req.Command, err)
	}
	if r.Session == nil {
		s.Fatalf("%.300s\nnothing is said of the session", req.Command)
	}
	return r
}

func (s *shell) run(script string) *runtime.ExecResult {
	s.Helper()
	return s.exec(&runtime.SessionExecRequest{Command: []string{script}})
}

// is checks a result to the byte, and that the shell lives.
func (s *shell) is(script string, r *runtime.ExecResult, stdout, stderr string, code int) {
	s.Helper()
	if string(r.Stdout) != stdout || string(r.Stderr) != stderr || r.ExitCode != code {
		s.Errorf("%.300s\n got %.500q and %.500q, exit code %d\nwant %.500q and %.500q, exit code %d",
			script, r.Stdout, r.Stderr, r.ExitCode, stdout, stderr, code)
	}
	if r.TimedOut || r.Session.Ended || r.Session.StatusLost {
		s.Errorf("%.300s\ntimed out: %v, session %+v", script, r.TimedOut, r.Session)
	}
}

// does runs a command and compares all its results.
func (s *shell) does(script, stdout, stderr string, code int) *runtime.ExecResult {
	s.Helper()
	r := s.run(script)
	s.is(script, r, stdout, stderr, code)
	return r
}

// prints checks what a command prints that has nothing to complain about.
func (s *shell) prints(script, stdout string) {
	s.Helper()
	s.does(script, stdout, "", 0)
}

// alive checks that the session answers, exactly.
func (s *shell) alive() {
	s.Helper()
	s.does("echo alive; echo err >&2; (exit 7)", "alive\n", "err\n", 7)
}

// timesOut runs a command that has to be interrupted, and checks what it has
// printed before.
func (s *shell) timesOut(script, stdout string) *runtime.ExecResult {
	s.Helper()
	var r *runtime.ExecResult
	suite.Timeouts(func(timeout time.Duration) (came bool) {
		r = s.exec(&runtime.SessionExecRequest{Command: []string{script}, Timeout: timeout})
		return len(r.Stdout) >= len(stdout)
	})
	if !r.TimedOut || r.ExitCode != 124 || string(r.Stdout) != stdout {
		s.Errorf("%s\nwith a timeout: %+v, session %+v", script, r, r.Session)
	}
	return r
}

// get looks at the session.
func (s *shell) get() *runtime.Session {
	s.Helper()
	got, err := s.rt.GetSession(s.Ctx, s.ID)
	s.OK(err)
	return got
}

// same checks that the shell is the process that it was.
func (s *shell) same() {
	s.Helper()
	if got := s.get(); got.PID != s.PID || got.Restarts != s.Restarts {
		s.Errorf("the shell is process %d after %d restarts, and was %d after %d", got.PID, got.Restarts, s.PID, s.Restarts)
	}
}

// An outcome is how a call ended.
type outcome struct {
	*runtime.ExecResult
	err error
}

// begin runs a command in the background of the test.
func (s *shell) begin(ctx context.Context, req *runtime.SessionExecRequest) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() { // ends with the command
		r, err := s.rt.SessionExec(ctx, s.ID, req)
		ended <- outcome{r, err}
	}()
	return ended
}

// outcome waits for the end of a call.
func (e *env) outcome(ended <-chan outcome) outcome {
	e.Helper()
	select {
	case o := <-ended:
		return o
	case <-e.Ctx.Done():
		e.Fatal("the call hangs")
		panic("not reached")
	}
}

// result waits for the end of a call that must not fail.
func (e *env) result(ended <-chan outcome) *runtime.ExecResult {
	e.Helper()
	o := e.outcome(ended)
	e.OK(o.err)
	return o.ExecResult
}

// waiting waits until n commands wait for their turn, and one runs.
func (s *shell) waiting(n int) {
	s.Helper()
	s.Until(fmt.Sprintf("%d commands that wait", n), func() bool {
		got := s.get()
		return got.State == runtime.SessionRunning && got.Waiting == n
	})
}
