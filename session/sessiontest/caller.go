package sessiontest

import (
	"io"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var callerTests = []test{
	{"CallerOther", []Feature{Recovery}, callerOther},
	{"CallerGone", []Feature{Recovery}, callerGone},
	{"CallersTogether", []Feature{Recovery}, callersTogether},
}

// with is the same session as another process has it.
func (s *shell) with(rt runtime.RuntimeWithSession) *shell {
	e := *s.env
	e.rt = rt
	return &shell{&e, s.Session}
}

// closeRuntime ends a runtime as the end of its process would.
func (e *env) closeRuntime(rt runtime.RuntimeWithSession) {
	e.Helper()
	c, ok := rt.(io.Closer)
	if !ok {
		e.Fatalf("%T has no Close", rt)
	}
	e.OK(c.Close())
}

// A session outlives its creator.
func callerOther(e *env) {
	first := e.rt
	e.rt = e.Reopen(e.TB, first)
	s := e.shell(&runtime.SessionConfig{Name: "main"}).with(first)
	s.prints("cd /usr; x=first; alias hi='echo hi'", "")
	e.closeRuntime(first)
	s = s.with(e.rt)
	s.prints("pwd; echo $x; hi", "/usr\nfirst\nhi\n")
	s.same()
	if got := s.get(); got.Commands != 2 || got.Cwd != "/usr" {
		s.Errorf(`get: got %+v; want got.Commands == 2 and got.Cwd == "/usr"`, got)
	}
	e.OK(e.rt.DestroySession(e.Ctx, s.ID))
}

// The command of a caller that goes away is interrupted, one that waits does
// not begin, and the session lives.
func callerGone(e *env) {
	first := e.rt
	e.rt = e.Reopen(e.TB, first)
	s, tag := e.shell(nil), newTag()
	s.prints("x=kept", "")
	running := s.with(first).begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{"sleep " + tag + "; x=after"}})
	s.runs(tag, 1)
	s.waiting(0)
	waits := s.with(first).begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{"x=waited"}})
	s.waiting(1)
	e.closeRuntime(first)
	for what, c := range map[string]<-chan outcome{"running": running, "waiting": waits} {
		if o := e.outcome(c); o.err == nil {
			e.Errorf("the %s call of a runtime that was closed says %+v", what, o.ExecResult)
		}
	}
	e.gone(tag)
	s.prints("echo $x", "kept\n")
	s.same()
	s.alive()
}

// Two processes use one session at the same time.
func callersTogether(e *env) {
	a := e.shell(nil)
	b := a.with(e.Reopen(e.TB, e.rt))
	a.prints("n=0", "")
	for _, err := range suite.AtOnce(20, func(i int) error {
		s := a
		if i%2 == 1 {
			s = b
		}
		_, err := s.rt.SessionExec(s.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"m=$n; /bin/true; n=$((m+1))"}})
		return err
	}) {
		e.OK(err)
	}
	b.prints("echo $n", "20\n")
	wait, open := a.gate()
	first := a.begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{wait}})
	a.waiting(0)
	_, err := b.rt.SessionExec(e.Ctx, b.ID, &runtime.SessionExecRequest{Command: []string{"true"}, NoWait: true})
	e.Wrong("NoWait from another process", err, runtime.ErrConflict)
	open()
	e.result(first)
}
