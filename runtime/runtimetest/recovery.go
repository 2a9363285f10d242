package runtimetest

import (
	"reflect"
	"strings"

	"wolffia/runtime"
)

var deadTests = []test{
	{"DeadIsListed", []Feature{Death}, deadIsListed},
	{"DeathEndsProcesses", []Feature{Death}, deathEndsProcesses},
	{"DeathDuringExec", []Feature{Death}, deathDuringExec},
}

var recoveryTests = []test{
	{"RecoverySeesTheSame", []Feature{Recovery}, recoverySees},
	{"RecoveryWorks", []Feature{Recovery}, recoveryWorks},
	{"RecoveryOfAStoppedOne", []Feature{Recovery}, recoveryStopped},
}

func deadIsListed(e *env) {
	s := e.start(&runtime.SandboxConfig{Name: "ghost", Labels: map[string]string{"k": "v"}})
	e.Crash(e.TB, e.rt, s.ID)
	got := e.get("ghost")
	if got.State != runtime.StateDead || got.Reason == "" {
		e.Errorf("it is %s, because %q", got.State, got.Reason)
	}
	s.State, s.Reason = got.State, got.Reason
	if all := e.list(); len(all) != 1 || !reflect.DeepEqual(all[0], s) {
		e.Errorf("List is %+v\nwant %+v", all, s)
	}
	e.OK(e.rt.Start(e.Ctx, s.ID))
	if got := e.get(s.ID); got.State != runtime.StateRunning || got.Reason != "" {
		e.Errorf("started again it is %s, because %q", got.State, got.Reason)
	}
	e.prints(s.ID, "echo alive", "alive\n")
}

func deathEndsProcesses(e *env) {
	dir := e.dir()
	s := e.start(e.open(dir))
	e.prints(s.ID, "echo before >file", "")
	tag := e.background(s.ID, "trap '' TERM;")
	e.Crash(e.TB, e.rt, s.ID)
	e.Until("the end of its processes", func() bool { return onHost(tag) == 0 })
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.prints(s.ID, "cat file; ls -A", "before\nfile\n")
}

func deathDuringExec(e *env) {
	s, tag := e.start(nil), newTag()
	ended := async(func() error {
		_, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"sleep", tag}})
		return err
	})
	e.Until("the command", func() bool { return e.count(s.ID, tag) == 1 })
	e.Crash(e.TB, e.rt, s.ID)
	e.over(ended)
}

// Another process sees all that was made before, to the last label.
func recoverySees(e *env) {
	e.create(everything(e))
	e.start(&runtime.SandboxConfig{Name: "running"})
	stopped := e.start(nil)
	e.OK(e.rt.Stop(e.Ctx, stopped.ID))
	if e.has(Death) {
		dead := e.start(nil)
		e.Crash(e.TB, e.rt, dead.ID)
	}
	want := e.list()
	e.rt = e.other()
	if got := e.list(); !reflect.DeepEqual(got, want) {
		e.Errorf("the other one lists %+v\nwant %+v", got, want)
	}
	_, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{Name: "running"})
	e.Wrong("a name that the first one gave", err, runtime.ErrExists)
}

// Two processes work with one sandbox at the same time.
func recoveryWorks(e *env) {
	first, second := e.rt, e.other()
	s := e.start(&runtime.SandboxConfig{Name: "shared", Env: map[string]string{"A": "b"}})
	tag := e.background(s.ID, "")
	e.rt = second
	e.prints("shared", "echo $A; echo from the second >file", "b\n")
	if n := e.count(s.ID, tag); n != 2 {
		e.Errorf("the second one sees %d of 2 processes", n)
	}
	e.Wrong("start it again", e.rt.Start(e.Ctx, s.ID), runtime.ErrConflict)
	e.rt = first
	e.prints(s.ID, "cat file", "from the second\n")

	e.OK(second.Stop(e.Ctx, s.ID))
	e.is(s.ID, runtime.StateStopped)
	_, err := first.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"true"}})
	e.Wrong("the first one's Exec", err, runtime.ErrConflict)
	e.OK(second.Start(e.Ctx, s.ID))
	e.prints(s.ID, "echo alive again", "alive again\n")
	e.OK(second.Destroy(e.Ctx, s.ID))
	_, err = first.Get(e.Ctx, s.ID)
	e.Wrong("the first one's Get", err, runtime.ErrNotFound)
	e.empty()
	again, err := second.Create(e.Ctx, &runtime.SandboxConfig{ID: s.ID, Env: map[string]string{"A": "again"}})
	e.OK(err)
	e.OK(first.Start(e.Ctx, s.ID))
	again.State = runtime.StateRunning
	if got := e.get(s.ID); !reflect.DeepEqual(got, again) {
		e.Errorf("the first one sees %+v\nwant %+v", got, again)
	}
	e.prints(s.ID, "echo $A", "again\n")
}

func recoveryStopped(e *env) {
	dir := e.dir()
	e.write(dir+"/file", strings.Repeat("x", 10))
	s := e.create(e.open(dir))
	e.rt = e.other()
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.prints(s.ID, "cat file", strings.Repeat("x", 10))
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	e.rt = e.other()
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.prints(s.ID, "cat file", strings.Repeat("x", 10))
}
