package runtimetest

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var lifetimeTests = []test{
	{"LifetimeRefused", nil, lifetimeRefused},
	{"LifetimeEnds", []Feature{Lifetime}, lifetimeEnds},
	{"LifetimeEndsACommand", []Feature{Lifetime}, lifetimeEndsACommand},
	{"LifetimeOfWhatDoesNotRun", []Feature{Lifetime}, lifetimeOfWhatDoesNotRun},
	{"LifetimeOfTheDead", []Feature{Lifetime, Death}, lifetimeOfTheDead},
	{"LifetimeRenewed", []Feature{Lifetime}, lifetimeRenewed},
	{"LifetimeRenewedByAnother", []Feature{Lifetime, Recovery}, lifetimeRenewedByAnother},
	{"LifetimeFreesTheName", []Feature{Lifetime}, lifetimeFreesTheName},
	{"IdleEnds", []Feature{Lifetime}, idleEnds},
	{"IdleNotWhileACommandRuns", []Feature{Lifetime}, idleNotWhileACommandRuns},
	{"IdleNotWhileAJobRuns", []Feature{Lifetime}, idleNotWhileAJobRuns},
	{"IdleNotWhileAnOperationRuns", []Feature{Lifetime}, idleNotWhileAnOperationRuns},
	{"IdleTouched", []Feature{Lifetime}, idleTouched},
	{"Prune", []Feature{Lifetime, Death}, prune},
}

// What is to happen soon, and what is not to happen while the suite runs.
const (
	soon = 300 * time.Millisecond
	late = 24 * time.Hour
)

// expired waits until a sandbox has expired, and checks that no method can use it.
func (e *env) expired(id string, why runtime.Expiry) {
	e.Helper()
	e.Until("the end of its lifetime", func() bool {
		s := e.get(id)
		return s.Expired != "" && s.State != runtime.StateRunning
	})
	if s := e.get(id); s.Expired != why || s.Reason == "" {
		e.Errorf("it is over by %q (%s), want %q", s.Expired, s.Reason, why)
	}
	e.Wrong("start it", e.rt.Start(e.Ctx, id), runtime.ErrNotFound)
	_, err := e.rt.Exec(e.Ctx, id, &runtime.ExecRequest{Command: []string{"true"}})
	e.Wrong("a command in it", err, runtime.ErrNotFound)
	e.Wrong("touch it", e.rt.Touch(e.Ctx, id), runtime.ErrNotFound)
	_, err = e.rt.Renew(e.Ctx, id, late)
	e.Wrong("renew it", err, runtime.ErrNotFound)
	if slices.ContainsFunc(e.list(), func(s *runtime.Sandbox) bool { return s.ID == id }) {
		e.Error("it is still listed")
	}
	e.Until("its removal by a list", func() bool {
		e.list()
		_, err = e.rt.Get(e.Ctx, id)
		return err != nil
	})
	e.Wrong("get it after it was removed", err, runtime.ErrNotFound)
}

func lifetimeRefused(e *env) {
	for _, d := range []time.Duration{-1, -time.Hour, 1, runtime.MinLifetime - 1, runtime.MaxLifetime + 1, 1<<63 - 1, -1 << 63} {
		_, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{TTL: d})
		e.Wrong("a time to live of "+d.String(), err, runtime.ErrInvalid)
		_, err = e.rt.Create(e.Ctx, &runtime.SandboxConfig{IdleTimeout: d})
		e.Wrong("an idle timeout of "+d.String(), err, runtime.ErrInvalid)
	}
	e.empty()
}

// When its time is over nothing of it runs, and it can be told why.
func lifetimeEnds(e *env) {
	before := time.Now().Truncate(time.Millisecond)
	s := e.start(&runtime.SandboxConfig{TTL: late, IdleTimeout: 2 * late})
	if at := s.ExpiresAt; at.Before(before.Add(late)) || at.After(time.Now().Add(late)) || s.IdleTimeout != 2*late || s.Expired != "" {
		e.Errorf("it is over at %v, or when it is idle for %v", at, s.IdleTimeout)
	}
	tag := e.background(s.ID, "")
	_, err := e.rt.Renew(e.Ctx, s.ID, soon)
	e.OK(err)
	e.expired(s.ID, runtime.ExpiredTTL)
	e.Until("the end of its processes", func() bool { return onHost(tag) == 0 })
}

// A caller that waits for a command gets the reason of its end.
func lifetimeEndsACommand(e *env) {
	s, tag := e.start(&runtime.SandboxConfig{TTL: late}), newTag()
	ended := async(func() error {
		_, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"sleep", tag}})
		e.Wrong("the command", err, runtime.ErrNotFound)
		return err
	})
	e.Until("the command", func() bool { return e.count(s.ID, tag) == 1 })
	_, err := e.rt.Renew(e.Ctx, s.ID, soon)
	e.OK(err)
	e.over(ended)
	e.expired(s.ID, runtime.ExpiredTTL)
}

func lifetimeOfWhatDoesNotRun(e *env) {
	e.expired(e.create(&runtime.SandboxConfig{TTL: soon}).ID, runtime.ExpiredTTL)
	s := e.start(&runtime.SandboxConfig{TTL: late})
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	e.Wrong("touch what does not run", e.rt.Touch(e.Ctx, s.ID), runtime.ErrConflict)
	_, err := e.rt.Renew(e.Ctx, s.ID, soon)
	e.OK(err)
	e.expired(s.ID, runtime.ExpiredTTL)
}

func lifetimeOfTheDead(e *env) {
	s := e.start(&runtime.SandboxConfig{TTL: late})
	e.Crash(e.TB, e.rt, s.ID)
	_, err := e.rt.Renew(e.Ctx, s.ID, soon)
	e.OK(err)
	e.expired(s.ID, runtime.ExpiredTTL)
}

// The last renewal counts, and holds for the next start, too.
func lifetimeRenewed(e *env) {
	var s *runtime.Sandbox
	var first time.Time
	e.idling(func(timeout time.Duration) bool {
		var err error
		s, err = e.rt.Renew(e.Ctx, e.start(&runtime.SandboxConfig{TTL: late}).ID, timeout)
		e.OK(err)
		first = s.ExpiresAt
		s, err = e.rt.Renew(e.Ctx, s.ID, late)
		return !e.late(err)
	})
	if !s.ExpiresAt.After(first.Add(time.Hour)) || !e.get(s.ID).ExpiresAt.Equal(s.ExpiresAt) {
		e.Errorf("renewed it is over at %v, and %v", s.ExpiresAt, e.get(s.ID).ExpiresAt)
	}
	time.Sleep(time.Until(first.Add(soon)))
	e.prints(s.ID, "echo alive", "alive\n")
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.prints(s.ID, "echo alive", "alive\n")
	for _, wrong := range []time.Duration{-1, 1, runtime.MaxLifetime + 1} {
		_, err := e.rt.Renew(e.Ctx, s.ID, wrong)
		e.Wrong("renew it by "+wrong.String(), err, runtime.ErrInvalid)
	}
	never, err := e.rt.Renew(e.Ctx, s.ID, 0)
	e.OK(err)
	if !never.ExpiresAt.IsZero() || never.Expired != "" {
		e.Errorf("without a time to live it is over at %v", never.ExpiresAt)
	}
	_, err = e.rt.Renew(e.Ctx, s.ID, soon)
	e.OK(err)
	e.expired(s.ID, runtime.ExpiredTTL)
	e.Wrong("what is not there", e.rt.Touch(e.Ctx, "zzzzzzzzzzzz"), runtime.ErrNotFound)
}

func lifetimeRenewedByAnother(e *env) {
	s := e.start(nil) // which had no time to live
	first := e.rt
	e.rt = e.other()
	renewed, err := e.rt.Renew(e.Ctx, s.ID, late)
	e.OK(err)
	e.rt = first
	if got := e.get(s.ID).ExpiresAt; !got.Equal(renewed.ExpiresAt) {
		e.Errorf("it is over at %v, the other one says %v", got, renewed.ExpiresAt)
	}
	e.rt = e.other()
	_, err = e.rt.Renew(e.Ctx, s.ID, soon)
	e.OK(err)
	e.rt = first
	e.expired(s.ID, runtime.ExpiredTTL)
}

// A new sandbox can be created before the expired one is removed.
func lifetimeFreesTheName(e *env) {
	old := e.create(&runtime.SandboxConfig{Name: "taken", TTL: soon})
	e.Until("the end of its lifetime", func() bool { return e.get(old.ID).Expired != "" })
	if s := e.create(&runtime.SandboxConfig{Name: "taken"}); s.ID == old.ID {
		e.Error("it is the old one")
	}
	_, err := e.rt.Get(e.Ctx, old.ID)
	e.Wrong("the old one", err, runtime.ErrNotFound)
}

func idleEnds(e *env) {
	s := e.start(&runtime.SandboxConfig{IdleTimeout: soon, TTL: late})
	e.expired(s.ID, runtime.ExpiredIdle)
}

// idling calls f with a timeout, and with longer ones as long as f reports that the sandbox
// was over before f had begun what is to keep it: a host may be slow.
func (e *env) idling(f func(timeout time.Duration) (began bool)) {
	e.Helper()
	began := false
	suite.Timeouts(func(timeout time.Duration) bool {
		began = f(timeout)
		return began
	})
	if !began {
		e.Error("the sandbox ends too soon, whatever its timeout")
	}
}

// inTime touches a sandbox, and reports whether that was there. From then on in reports
// whether the idle timeout cannot be over: what begins later may meet the sandbox's end.
func (e *env) inTime(id string, timeout time.Duration) (in func() bool, is bool) {
	e.Helper()
	begun := time.Now()
	if e.late(e.rt.Touch(e.Ctx, id)) {
		return nil, false
	}
	return func() bool { return time.Since(begun) < timeout }, true
}

// late reports whether a call found that the sandbox is over, as expected if it was idle.
// Any other error ends the test.
func (e *env) late(err error) bool {
	e.Helper()
	if !errors.Is(err, runtime.ErrNotFound) {
		e.OK(err)
	}
	return err != nil
}

// A command that takes longer than the idle timeout is not cut short.
func idleNotWhileACommandRuns(e *env) {
	e.idling(func(timeout time.Duration) bool {
		s := e.start(&runtime.SandboxConfig{IdleTimeout: timeout})
		in, is := e.inTime(s.ID, timeout)
		if !is {
			return false
		}
		p, err := e.rt.StartProcess(e.Ctx, s.ID, &runtime.Command{Command: sh("echo begun; read x; echo $x"), OpenStdin: true})
		if e.late(err) {
			return false
		}
		defer p.Close()
		begun := make([]byte, len("begun\n"))
		if _, err := io.ReadFull(p.Stdout(), begun); !in() {
			return false
		} else if err != nil || string(begun) != "begun\n" {
			e.Fatalf("read %q (%v)", begun, err)
		}
		time.Sleep(timeout + soon)
		_, err = p.Stdin().Write([]byte("alive\n"))
		e.OK(err)
		e.Expect(p.Stdout(), "alive\n")
		if exit := e.wait(p); exit.ExitCode != 0 {
			e.Errorf("the command ended with %+v", exit)
		}
		e.expired(s.ID, runtime.ExpiredIdle)
		return true
	})
}

// A background job of a session is a use of the sandbox until it is over.
func idleNotWhileAJobRuns(e *env) {
	e.outlastsIdling("job", func(sessions runtime.RuntimeWithSession, session runtime.SessionID, _ string) bool {
		_, err := sessions.SessionExec(e.Ctx, session, &runtime.SessionExecRequest{Command: []string{"(until test -e go; do sleep 0.2; done; echo done >file) &"}})
		return !e.late(err)
	})
}

// So is a command that outlives its caller.
func idleNotWhileAnOperationRuns(e *env) {
	e.outlastsIdling("command", func(sessions runtime.RuntimeWithSession, session runtime.SessionID, dir string) bool {
		ctx, cancel := context.WithCancel(e.Ctx)
		defer cancel()
		asked := make(chan error, 1)
		go func() { // ends when it is given up
			_, err := sessions.SessionExec(ctx, session, &runtime.SessionExecRequest{
				Command: []string{"echo begun >begun; until test -e go; do sleep 0.2; done; echo done >file"}, Operation: "long",
			})
			asked <- err
		}()
		for {
			select {
			case err := <-asked:
				if err == nil {
					e.Fatal("the command ended by itself")
				}
				return !e.late(err)
			case <-time.After(2 * time.Millisecond):
			}
			if _, err := os.Stat(dir + "/begun"); err == nil {
				cancel()
				<-asked
				return true
			}
		}
	})
}

// outlastsIdling checks that a sandbox does not end while something runs in it that
// waits for the file go in the codebase dir, and does afterwards, when that has written
// its file. begin begins it, in a session, and reports whether the sandbox was still there.
func (e *env) outlastsIdling(what string, begin func(sessions runtime.RuntimeWithSession, session runtime.SessionID, dir string) bool) {
	e.Helper()
	sessions, is := e.rt.(runtime.RuntimeWithSession)
	if !is {
		e.Fatalf("%T has no sessions", e.rt)
	}
	e.idling(func(timeout time.Duration) bool {
		dir := e.dir()
		e.OK(os.Chmod(dir, 0o777))
		c := e.open(dir)
		c.IdleTimeout = timeout
		s := e.start(c)
		session, err := sessions.CreateSession(e.Ctx, s.ID, nil)
		if e.late(err) {
			return false
		}
		in, is := e.inTime(s.ID, timeout)
		if !is || !begin(sessions, session.ID, dir) || !in() {
			return false
		}
		time.Sleep(timeout + soon)
		if now := e.get(s.ID); now.Expired != "" || now.State != runtime.StateRunning {
			e.Errorf("while a %s runs it is %s, over by %q", what, now.State, now.Expired)
		}
		e.write(dir+"/go", "")
		e.expired(s.ID, runtime.ExpiredIdle)
		if got := e.read(dir + "/file"); got != "done\n" {
			e.Errorf("the %s has left %q", what, got)
		}
		return true
	})
}

func idleTouched(e *env) {
	e.idling(func(timeout time.Duration) bool {
		s := e.start(&runtime.SandboxConfig{IdleTimeout: timeout})
		for begun, end := time.Now(), false; !end; time.Sleep(timeout / 8) {
			end = time.Since(begun) > timeout+soon
			if e.late(e.rt.Touch(e.Ctx, s.ID)) {
				return false
			}
		}
		e.expired(s.ID, runtime.ExpiredIdle)
		return true
	})
}

// Prune removes expired and unusable sandboxes, and none that runs.
func prune(e *env) {
	created, running := e.create(nil), e.start(nil)
	stopped := e.start(&runtime.SandboxConfig{Name: "stopped"})
	e.OK(e.rt.Stop(e.Ctx, stopped.ID))
	dead := e.start(nil)
	e.Crash(e.TB, e.rt, dead.ID)
	over := e.create(&runtime.SandboxConfig{TTL: soon})
	e.Until("the end of its lifetime", func() bool { return e.get(over.ID).Expired != "" })
	pruned := func(all bool, want ...runtime.Pruned) {
		e.Helper()
		got, err := e.rt.Prune(e.Ctx, all)
		e.OK(err)
		byID := func(a, b runtime.Pruned) int { return strings.Compare(a.ID, b.ID) }
		slices.SortFunc(got, byID)
		slices.SortFunc(want, byID)
		if !slices.Equal(got, want) {
			e.Errorf("pruned: %+v, want %+v", got, want)
		}
	}
	pruned(false, runtime.Pruned{ID: dead.ID, Reason: "dead"}, runtime.Pruned{ID: over.ID, Reason: "ttl"})
	pruned(false)
	pruned(true, runtime.Pruned{ID: stopped.ID, Name: "stopped", Reason: "stopped"})
	left := []string{}
	for _, s := range e.list() {
		left = append(left, s.ID)
	}
	if len(left) != 2 || !slices.Contains(left, created.ID) || !slices.Contains(left, running.ID) {
		e.Errorf("left are %v, want %s and %s", left, created.ID, running.ID)
	}
	e.prints(running.ID, "echo alive", "alive\n")
}
