package runtimetest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var pauseTests = []test{
	{"PauseStopsProcesses", []Feature{Pause}, pauseStopsProcesses},
	{"PauseKeepsSessions", []Feature{Pause}, pauseKeepsSessions},
	{"PauseKeepsConnections", []Feature{Pause}, pauseKeepsConnections},
	{"PauseAndTimeouts", []Feature{Pause}, pauseAndTimeouts},
	{"PauseAndLifetime", []Feature{Pause, Lifetime}, pauseAndLifetime},
	{"PauseEnds", []Feature{Pause}, pauseEnds},
	{"PauseByOthers", []Feature{Pause, Recovery}, pauseByOthers},
	{"PauseOfWhatDoesNotRun", []Feature{Pause}, pauseOfWhatDoesNotRun},
	{"IdlePauses", []Feature{Pause, Lifetime}, idlePauses},
	{"IdlePauseRaces", []Feature{Pause, Lifetime}, idlePauseRaces},
	{"IdleStops", []Feature{Lifetime}, idleStops},
	{"IdleActionRefused", []Feature{Lifetime}, idleActionRefused},
	{"PauseAndReview", []Feature{Pause, CopyOnWrite}, pauseAndReview},
}

// pausable returns c, or a configuration, of a sandbox that can be paused.
func pausable(c *runtime.SandboxConfig) *runtime.SandboxConfig {
	if c == nil {
		c = new(runtime.SandboxConfig)
	}
	c.Resources = runtime.Resources{PIDs: 1000, BestEffort: true}
	return c
}

// pause pauses a sandbox.
func (e *env) pause(id string) {
	e.Helper()
	e.OK(e.rt.Pause(e.Ctx, id))
	e.is(id, runtime.StatePaused)
}

// resume resumes a sandbox.
func (e *env) resume(id string) {
	e.Helper()
	e.OK(e.rt.Resume(e.Ctx, id))
	e.is(id, runtime.StateRunning)
}

// A process of a paused sandbox does nothing, and what needs one is refused. Afterwards it goes on.
func pauseStopsProcesses(e *env) {
	dir := e.dir()
	e.OK(os.Chmod(dir, 0o777))
	s := e.start(pausable(e.open(dir)))
	e.process(s.ID, &runtime.Command{Command: sh("n=0; while :; do n=$((n+1)); echo $n >count; done")})
	count := func() string {
		b, err := os.ReadFile(dir + "/count")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.Error(err)
		}
		return string(b)
	}
	e.Until("the process counts", func() bool { return count() != "" })
	e.pause(s.ID)
	e.pause(s.ID) // again is no error
	before := count()
	time.Sleep(soon)
	if now := count(); now != before {
		e.Errorf("the process goes on while the sandbox is paused: %q, then %q", before, now)
	}
	_, err := e.rt.Exec(e.Ctx, s.ID, &runtime.Command{Command: []string{"true"}})
	e.Wrong("a command in it", err, runtime.ErrConflict)
	if !strings.Contains(fmt.Sprint(err), "wolffia resume "+s.ID) {
		e.Errorf("a command in a paused sandbox: %v does not say how to resume it", err)
	}
	_, err = e.rt.StartProcess(e.Ctx, s.ID, &runtime.Command{Command: []string{"true"}})
	e.Wrong("a process in it", err, runtime.ErrConflict)
	if e.has(Ports) {
		_, err = e.rt.DialPort(e.Ctx, s.ID, 1)
		e.Wrong("a port of it", err, runtime.ErrConflict)
	}
	e.Wrong("start it", e.rt.Start(e.Ctx, s.ID), runtime.ErrConflict)
	e.resume(s.ID)
	e.resume(s.ID)
	e.Until("the process goes on", func() bool { return count() != before })
	e.prints(s.ID, "echo works", "works\n")
}

func pauseKeepsSessions(e *env) {
	sessions, is := e.rt.(runtime.RuntimeWithSession)
	if !is {
		e.Fatalf("%T has no sessions", e.rt)
	}
	s := e.start(pausable(nil))
	session, err := sessions.CreateSession(e.Ctx, s.ID, nil)
	e.OK(err)
	do := func(text string) string {
		e.Helper()
		r, err := sessions.SessionExec(e.Ctx, session.ID, &runtime.Command{Command: []string{text}})
		e.OK(err)
		return string(r.Stdout)
	}
	do("cd /tmp; kept=5; sleep 1000 &")
	pid := do("echo $! $$")
	e.pause(s.ID)
	_, err = sessions.SessionExec(e.Ctx, session.ID, &runtime.Command{Command: []string{"true"}})
	e.Wrong("a command in its session", err, runtime.ErrConflict)
	_, err = sessions.ListSessions(e.Ctx, s.ID)
	e.Wrong("its sessions", err, runtime.ErrConflict)
	e.resume(s.ID)
	if got := do("kill -0 $! && echo $PWD $kept; echo $! $$"); got != "/tmp 5\n"+pid {
		e.Errorf("after the pause: %q, want the directory, the variable and the processes %q", got, pid)
	}
}

// What a client has sent to a process, before or while its sandbox is paused, arrives.
func pauseKeepsConnections(e *env) {
	s := e.start(pausable(nil))
	p := e.process(s.ID, &runtime.Command{Command: sh("while read x; do echo got $x; done"), OpenStdin: true})
	out := bufio.NewReader(p.Stdout())
	exchange := func(during func()) {
		e.Helper()
		for i := range 50 {
			if _, err := fmt.Fprintln(p.Stdin(), i); err != nil {
				e.Fatal(err)
			}
			if i == 25 {
				during()
			}
		}
		for i := range 50 {
			if line, err := out.ReadString('\n'); err != nil || line != fmt.Sprintf("got %d\n", i) {
				e.Fatalf("line %d: %q, %v", i, line, err)
			}
		}
	}
	exchange(func() {})
	for range 5 {
		exchange(func() {
			e.pause(s.ID)
			e.resume(s.ID)
		})
	}
	e.pause(s.ID)
	resumed := make(chan error, 1)
	exchange(func() { go func() { resumed <- e.rt.Resume(e.Ctx, s.ID) }() })
	e.OK(<-resumed)
	e.OK(p.Stdin().Close())
	if exit := e.wait(p); exit.ExitCode != 0 {
		e.Errorf("wait: got %+v, want exit code 0", exit)
	}
}

// A pause that is longer than the time-out of a command does not end the command, of a session or
// not. The time-out counts afterwards.
func pauseAndTimeouts(e *env) {
	s := e.start(pausable(nil))
	sessions, _ := e.rt.(runtime.RuntimeWithSession)
	for _, session := range []string{"", "dev"} {
		if session != "" && sessions == nil {
			continue
		}
		began := false
		suite.Timeouts(func(timeout time.Duration) bool {
			text := "echo begun; read x; echo $x; sleep 1000"
			cmd := &runtime.Command{Command: sh(text), OpenStdin: true, Timeout: timeout}
			if session != "" {
				cmd.Command, cmd.Session, cmd.Create = []string{text}, session, true
			}
			begun := time.Now()
			p, err := e.rt.StartProcess(e.Ctx, s.ID, cmd)
			e.OK(err)
			defer p.Close()
			out := bufio.NewReader(p.Stdout())
			line, err := out.ReadString('\n')
			e.pause(s.ID)
			if began = err == nil && line == "begun\n" && time.Since(begun) < timeout*3/4; began {
				time.Sleep(timeout)
			}
			e.resume(s.ID)
			if !began {
				return false
			}
			_, _ = fmt.Fprintln(p.Stdin(), "on")
			line, err = out.ReadString('\n')
			exit := e.wait(p)
			if err != nil || line != "on\n" || !exit.TimedOut {
				e.Errorf("a command of session %q with a time-out of %v, after a pause as long: %q, %v, then %+v; want on, then its end by the time-out", session, timeout, line, err, exit)
			}
			return true
		})
		if !began {
			e.Error("a command does not begin within its time-out, whatever that is")
		}
	}
}

// The time to live counts while the sandbox is paused, the idle timeout does not.
func pauseAndLifetime(e *env) {
	e.idling(func(timeout time.Duration) bool {
		s := e.start(pausable(&runtime.SandboxConfig{IdleTimeout: timeout}))
		if e.late(e.rt.Pause(e.Ctx, s.ID)) {
			return false
		}
		time.Sleep(timeout + soon)
		e.is(s.ID, runtime.StatePaused)
		_, err := e.rt.Renew(e.Ctx, s.ID, late)
		e.OK(err)
		e.OK(e.rt.Resume(e.Ctx, s.ID))
		e.expired(s.ID, runtime.ExpiredIdle)
		return true
	})
	s := e.start(pausable(&runtime.SandboxConfig{TTL: late}))
	e.pause(s.ID)
	_, err := e.rt.Renew(e.Ctx, s.ID, soon)
	e.OK(err)
	e.Until("its end while it is paused", func() bool { return e.get(s.ID).Expired == runtime.ExpiredTTL })
}

// Stop, Destroy and the death of its host process end a paused sandbox, with all processes.
func pauseEnds(e *env) {
	background := func() (id, tag string) {
		s := e.start(pausable(nil))
		return s.ID, e.background(s.ID, "")
	}
	id, tag := background()
	e.pause(id)
	e.OK(e.rt.Stop(e.Ctx, id))
	e.is(id, runtime.StateStopped)
	if n := onHost(tag); n != 0 {
		e.Errorf("%d processes outlived Stop", n)
	}
	e.OK(e.rt.Start(e.Ctx, id))
	e.is(id, runtime.StateRunning)
	e.prints(id, "echo works", "works\n")
	e.pause(id)
	e.OK(e.rt.Destroy(e.Ctx, id))
	if !e.has(Death) {
		return
	}
	id, tag = background()
	e.pause(id)
	e.Crash(e.TB, e.rt, id)
	e.is(id, runtime.StateDead)
	e.Wrong("resume a dead one", e.rt.Resume(e.Ctx, id), runtime.ErrConflict)
	e.OK(e.rt.Start(e.Ctx, id))
	e.is(id, runtime.StateRunning)
	e.gone(id, tag)
	e.prints(id, "echo works", "works\n")
}

// Another process sees the pause, and may end it.
func pauseByOthers(e *env) {
	s := e.start(pausable(nil))
	e.prints(s.ID, "echo connected", "connected\n")
	other := e.other()
	e.OK(other.Pause(e.Ctx, s.ID))
	e.is(s.ID, runtime.StatePaused)
	_, err := e.rt.Exec(e.Ctx, s.ID, &runtime.Command{Command: []string{"true"}})
	e.Wrong("a command in it", err, runtime.ErrConflict)
	e.OK(other.Resume(e.Ctx, s.ID))
	e.prints(s.ID, "echo works", "works\n")
}

func pauseOfWhatDoesNotRun(e *env) {
	s := e.create(pausable(nil))
	e.Wrong("pause it", e.rt.Pause(e.Ctx, s.ID), runtime.ErrConflict)
	e.Wrong("resume it", e.rt.Resume(e.Ctx, s.ID), runtime.ErrConflict)
	e.Wrong("pause what does not exist", e.rt.Pause(e.Ctx, runtime.NewID()), runtime.ErrNotFound)
	e.is(s.ID, runtime.StateCreated)
}

// What needs no process inside works: the changes of a copied codebase.
func pauseAndReview(e *env) {
	dir := e.dir()
	c := e.open(dir)
	c.CopyOnWrite = true
	s := e.start(pausable(c))
	e.sh(s.ID, "echo new >file")
	e.pause(s.ID)
	changes, err := e.workspace().Changes(e.Ctx, s.ID, runtime.ChangesOptions{})
	e.OK(err)
	if len(changes) != 1 || changes[0].Path != "file" {
		e.Errorf("changes: %+v, want one, of file", changes)
	}
	_, err = e.workspace().Apply(e.Ctx, s.ID, runtime.ApplyOptions{})
	e.OK(err)
	if got := e.read(dir + "/file"); got != "new\n" {
		e.Errorf("after apply the host has %q", got)
	}
	e.resume(s.ID)
	e.prints(s.ID, "cat file", "new\n")
}

// With the idle action pause a sandbox that is not used is paused, and its next use resumes it.
func idlePauses(e *env) {
	s := e.start(pausable(&runtime.SandboxConfig{IdleTimeout: soon, IdleAction: runtime.IdlePause}))
	sessions, _ := e.rt.(runtime.RuntimeWithSession)
	paused := func() {
		e.Helper()
		e.Until("its pause", func() bool { return e.get(s.ID).State == runtime.StatePaused })
		if now := e.get(s.ID); !now.WakesOnUse || !now.Usable() || now.Expired != "" {
			e.Errorf("paused since it was not used, it is %+v", now)
		}
	}
	paused()
	e.prints(s.ID, "echo 1", "1\n")
	paused()
	e.OK(e.rt.Touch(e.Ctx, s.ID))
	paused()
	if sessions != nil {
		session, err := sessions.CreateSession(e.Ctx, s.ID, nil)
		e.OK(err)
		_, err = sessions.SessionExec(e.Ctx, session.ID, &runtime.Command{Command: []string{"x=kept"}})
		e.OK(err)
		paused()
		r, err := sessions.SessionExec(e.Ctx, session.ID, &runtime.Command{Command: []string{"echo $x"}})
		e.OK(err)
		if string(r.Stdout) != "kept\n" {
			e.Errorf("its session has x=%q", r.Stdout)
		}
	}
	paused()
	e.pause(s.ID) // from now on it is the caller's
	_, err := e.rt.Exec(e.Ctx, s.ID, &runtime.Command{Command: []string{"true"}})
	e.Wrong("a command in it", err, runtime.ErrConflict)
	e.resume(s.ID)
}

// Whenever a use comes, it finds the sandbox running, or resumes it.
func idlePauseRaces(e *env) {
	s := e.start(pausable(&runtime.SandboxConfig{IdleTimeout: runtime.MinLifetime, IdleAction: runtime.IdlePause}))
	for i := range 30 {
		time.Sleep(runtime.MinLifetime - 15*time.Millisecond + time.Duration(i)*time.Millisecond)
		e.prints(s.ID, "echo works", "works\n")
	}
	p := e.process(s.ID, &runtime.Command{Command: sh("read x; echo $x"), OpenStdin: true})
	time.Sleep(3 * runtime.MinLifetime)
	e.is(s.ID, runtime.StateRunning)
	_, err := fmt.Fprintln(p.Stdin(), "on")
	e.OK(err)
	if got := e.All(p.Stdout()); got != "on\n" {
		e.Errorf("a command that runs for longer than the idle timeout has printed %q", got)
	}
}

// With the idle action stop it is stopped, and stays.
func idleStops(e *env) {
	s := e.start(&runtime.SandboxConfig{IdleTimeout: soon, IdleAction: runtime.IdleStop})
	e.Until("its stop", func() bool { return e.get(s.ID).State == runtime.StateStopped })
	if now := e.get(s.ID); now.Expired != "" || now.Reason == "" {
		e.Errorf("stopped since it was not used, it is %+v, want a reason, and its lifetime not over", now)
	}
	e.list()
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.is(s.ID, runtime.StateRunning)
}

func idleActionRefused(e *env) {
	for _, c := range []runtime.SandboxConfig{
		{IdleAction: runtime.IdlePause},
		{IdleTimeout: late, IdleAction: "sleep"},
		{IdleAction: runtime.IdleHibernate},
	} {
		_, err := e.rt.Create(e.Ctx, &c)
		e.Wrong(fmt.Sprintf("idle action %s", c.IdleAction), err, runtime.ErrInvalid)
	}
	e.empty()
}
