package sessiontest

import (
	"errors"

	"wolffia/runtime"
)

var destroyTests = []test{
	{"DestroyIdle", nil, destroyIdle},
	{"DestroyDuringCommand", nil, destroyDuring},
	{"DestroyEndsAllItStarted", nil, destroyEndsAll},
	{"DestroySandboxStops", nil, destroyBySandbox},
	{"DestroySandboxHangsUp", nil, destroyHangsUp},
}

// over checks that a call has ended because its session was taken away.
func (e *env) over(what string, ended <-chan outcome) {
	e.Helper()
	o := e.outcome(ended)
	switch {
	case o.err == nil && o.Session != nil && o.Session.Ended:
	case errors.Is(o.err, runtime.ErrNotFound), errors.Is(o.err, runtime.ErrConflict):
	default:
		e.Errorf("%s: the session was taken away, and the call says %+v, %v", what, o.ExecResult, o.err)
	}
}

func destroyIdle(e *env) {
	s := e.shell(&runtime.SessionConfig{Name: "main"})
	s.prints("x=1", "")
	e.OK(e.rt.DestroySession(e.Ctx, s.ID))
	_, err := e.rt.GetSession(e.Ctx, s.ID)
	e.Wrong("get", err, runtime.ErrNotFound)
	e.Wrong("destroy again", e.rt.DestroySession(e.Ctx, s.ID), runtime.ErrNotFound)
	if all, err := e.rt.ListSessions(e.Ctx, e.box); len(all) > 0 || err != nil {
		e.Errorf("the list is %v, %v", all, err)
	}
	again := e.shell(&runtime.SessionConfig{Name: "main"})
	again.prints("echo ${x-unset}", "unset\n")
}

func destroyDuring(e *env) {
	s, other, tag := e.shell(nil), e.shell(nil), newTag()
	first := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{"trap '' INT TERM; sh -c 'trap \"\" INT TERM; sleep " + tag + "; :' & sleep " + tag}})
	s.runs(tag, 2)
	s.waiting(0)
	second := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{"echo second"}})
	s.waiting(1)
	e.OK(e.rt.DestroySession(e.Ctx, s.ID))
	e.over("the one that ran", first)
	e.over("the one that waited", second)
	e.gone(tag)
	other.same()
	other.alive()
}

func destroyEndsAll(e *env) {
	s, tag := e.shell(nil), newTag()
	s.run("sleep " + tag + " & setsid sleep " + tag + " & (sleep " + tag + " &); nohup sleep " + tag + " >/dev/null 2>&1 & disown -a")
	s.run("(trap '' HUP TERM; exec sleep " + tag + ") >/dev/null 2>&1 &")
	e.runs(tag, 5)
	e.OK(e.rt.DestroySession(e.Ctx, s.ID))
	e.gone(tag)
}

func destroyBySandbox(e *env) {
	s, tag := e.shell(&runtime.SessionConfig{Name: "main"}), newTag()
	ended := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{"sleep " + tag + "; true"}})
	s.runs(tag, 1)
	e.OK(e.rt.Stop(e.Ctx, e.box))
	// Everything inside gets SIGTERM first; the answer may come in time or not.
	switch o := e.outcome(ended); {
	case o.err == nil && o.ExitCode == 143 && o.Session.Ended:
	case errors.Is(o.err, runtime.ErrConflict):
	default:
		e.Errorf("a command during stop: %+v, %v", o.ExecResult, o.err)
	}
	_, err := e.rt.GetSession(e.Ctx, s.ID)
	e.Wrong("get in a stopped sandbox", err, runtime.ErrConflict)
	e.OK(e.rt.Start(e.Ctx, e.box))
	_, err = e.rt.GetSession(e.Ctx, s.ID)
	e.Wrong("get in a sandbox that was started again", err, runtime.ErrNotFound)
	e.shell(&runtime.SessionConfig{Name: "main"}).alive()
}

// A sandbox that is stopped hangs up on its shells, which would ignore SIGTERM
// and be killed: so they do what they have to at the end.
func destroyHangsUp(e *env) {
	s := e.shell(nil)
	heard := make(chan string, 1)
	go func() {
		r, err := e.rt.Exec(e.Ctx, e.box, &runtime.ExecRequest{Command: []string{"sh", "-c", "trap '' TERM; mkfifo /tmp/ear; read x </tmp/ear; echo $x"}})
		if err != nil {
			heard <- err.Error()
			return
		}
		heard <- string(r.Stdout)
	}()
	s.prints("until [ -p /tmp/ear ]; do sleep 0.02; done; trap 'echo bye >/tmp/ear' EXIT", "")
	e.OK(e.rt.Stop(e.Ctx, e.box))
	select {
	case what := <-heard:
		if what != "bye\n" {
			e.Errorf("the shell's last word is %q", what)
		}
	case <-e.Ctx.Done():
		e.Error("nothing is heard of the shell")
	}
}
