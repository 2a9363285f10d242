package runtimetest

import (
	"context"
	"errors"
	"os"

	"wolffia/runtime"
)

var lifecycleTests = []test{
	{"StateChanges", nil, stateChanges},
	{"StopKeeps", nil, stopKeeps},
	{"StopEndsProcesses", nil, stopEndsProcesses},
	{"StopEndsStubbornProcesses", nil, stopEndsStubbornProcesses},
	{"StopManyTimes", nil, stopManyTimes},
	{"DestroyEndsProcesses", nil, destroyEndsProcesses},
	{"DestroyKeepsCodebase", nil, destroyKeepsCodebase},
	{"DestroyLate", nil, destroyLate},
	{"StartCanceled", nil, startCanceled},
	{"StartFails", nil, startFails},
	{"BoundToCaller", nil, boundToCaller},
	{"BoundNotStarted", []Feature{Recovery}, boundNotStarted},
	{"BoundCopied", []Feature{CopyOnWrite, Recovery}, boundCopied},
	{"NotBoundToCaller", []Feature{Recovery}, notBoundToCaller},
}

// reach brings a fresh sandbox to a state.
func (e *env) reach(state runtime.State) string {
	e.Helper()
	s := e.create(nil)
	if state != runtime.StateCreated {
		e.OK(e.rt.Start(e.Ctx, s.ID))
	}
	switch state {
	case runtime.StateStopped:
		e.OK(e.rt.Stop(e.Ctx, s.ID))
	case runtime.StateDead:
		e.Crash(e.TB, e.rt, s.ID)
	}
	e.is(s.ID, state)
	return s.ID
}

// Every call in every state: what it says, and the state after it.
func stateChanges(e *env) {
	type row struct {
		err  error
		next runtime.State // empty: it is gone
	}
	const created, running, stopped, dead = runtime.StateCreated, runtime.StateRunning, runtime.StateStopped, runtime.StateDead
	table := map[runtime.State]map[string]row{
		created: {"Start": {nil, running}, "Stop": {nil, created}, "Destroy": {}},
		running: {"Start": {runtime.ErrConflict, running}, "Stop": {nil, stopped}, "Destroy": {}},
		stopped: {"Start": {nil, running}, "Stop": {nil, stopped}, "Destroy": {}},
		dead:    {"Start": {nil, running}, "Stop": {nil, dead}, "Destroy": {}},
	}
	if !e.has(Death) {
		delete(table, dead)
	}
	for state, rows := range table {
		exec := row{runtime.ErrConflict, state}
		if state == running {
			exec.err = nil
		}
		rows["Exec"], rows["ExecStream"], rows["StartProcess"], rows["Get"] = exec, exec, exec, row{nil, state}
		id := "" // of a sandbox in that state: one that a call leaves in it is the next one's
		for name, call := range calls(e) {
			want := rows[name]
			if id == "" {
				id = e.reach(state)
			}
			switch err := call(id); {
			case want.err != nil:
				e.Wrong(name+" when "+string(state), err, want.err)
			case err != nil:
				e.Errorf("%s when %s: %v", name, state, err)
			}
			if want.next == "" {
				e.empty()
				id = ""
				continue
			}
			e.is(id, want.next)
			if want.next == running {
				e.prints(id, "echo alive", "alive\n")
			}
			if want.next != state {
				e.OK(e.rt.Destroy(e.Ctx, id))
				e.empty()
				id = ""
			}
		}
		if id != "" {
			e.OK(e.rt.Destroy(e.Ctx, id))
			e.empty()
		}
	}
}

// Stop keeps the sandbox and the codebase, and nothing temporary.
func stopKeeps(e *env) {
	dir := e.dir()
	e.write(dir+"/file", "host\n")
	c := e.open(dir)
	c.Labels, c.Env = map[string]string{"k": "v"}, map[string]string{"A": "b"}
	s := e.start(c)
	e.prints(s.ID, "echo edited >file && echo new >new && echo t >$HOME/temporary && cat $HOME/temporary", "t\n")
	if e.has(Isolation) {
		e.prints(s.ID, "echo t >/tmp/t && cat /tmp/t", "t\n")
	}
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	if got := e.read(dir+"/file") + e.read(dir+"/new"); got != "edited\nnew\n" {
		e.Errorf("the codebase has %q", got)
	}
	e.OK(e.rt.Start(e.Ctx, s.ID))
	if got := e.get(s.ID).Labels["k"]; got != "v" {
		e.Errorf("the label is %q", got)
	}
	e.prints(s.ID, "cat file new; echo $A; test ! -e $HOME/temporary || echo still there", "edited\nnew\nb\n")
	if e.has(Isolation) {
		e.prints(s.ID, "ls -A /tmp", "")
	}

	empty := e.start(nil) // its mount point is temporary too
	e.prints(empty.ID, "echo t >t && cat t", "t\n")
	e.OK(e.rt.Stop(e.Ctx, empty.ID))
	e.OK(e.rt.Start(e.Ctx, empty.ID))
	e.prints(empty.ID, "ls -A", "")
}

// background leaves processes running that end by themselves only after ages,
// and returns the argument by which to find them.
func (e *env) background(id, prefix string) string {
	e.Helper()
	tag := newTag()
	e.prints(id, prefix+" sleep "+tag+" >/dev/null 2>&1 & setsid sleep "+tag+" >/dev/null 2>&1 & echo started", "started\n")
	e.Until("two processes in the background", func() bool { return e.count(id, tag) == 2 })
	return tag
}

func stopEndsProcesses(e *env) {
	s := e.start(nil)
	tag := e.background(s.ID, "")
	e.prints(s.ID, "true", "")
	if n := e.count(s.ID, tag); n != 2 {
		e.Errorf("%d of 2 processes outlived the command that started them", n)
	}
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	if n := onHost(tag); n != 0 {
		e.Errorf("%d processes outlived Stop", n)
	}
	e.OK(e.rt.Start(e.Ctx, s.ID))
	if n := e.count(s.ID, tag); n != 0 {
		e.Errorf("%d processes are back", n)
	}
}

func stopEndsStubbornProcesses(e *env) {
	s := e.start(nil)
	tag := e.background(s.ID, "trap '' TERM INT HUP;")
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	if n := onHost(tag); n != 0 {
		e.Errorf("%d processes outlived Stop", n)
	}
}

func stopManyTimes(e *env) {
	s := e.create(nil)
	for range 5 {
		e.OK(e.rt.Start(e.Ctx, s.ID))
		e.prints(s.ID, "echo alive", "alive\n")
		e.OK(e.rt.Stop(e.Ctx, s.ID))
		e.OK(e.rt.Stop(e.Ctx, s.ID))
	}
	e.is(s.ID, runtime.StateStopped)
}

func destroyEndsProcesses(e *env) {
	s := e.start(nil)
	tag := e.background(s.ID, "trap '' TERM;")
	e.OK(e.rt.Destroy(e.Ctx, s.ID))
	if n := onHost(tag); n != 0 {
		e.Errorf("%d processes outlived Destroy", n)
	}
	e.empty()
	e.Wrong("destroy it again", e.rt.Destroy(e.Ctx, s.ID), runtime.ErrNotFound)
}

func destroyKeepsCodebase(e *env) {
	dir := e.dir()
	e.write(dir+"/sub/file", "host\n")
	s := e.start(e.open(dir))
	e.prints(s.ID, "echo x >sub/new", "")
	e.OK(e.rt.Destroy(e.Ctx, s.ID))
	if got := e.read(dir+"/sub/file") + e.read(dir+"/sub/new"); got != "host\nx\n" {
		e.Errorf("the codebase has %q", got)
	}
}

// An ending context ends as soon as a call has looked at it.
type ending struct {
	context.Context
	end func()
}

func (c ending) Err() error {
	defer c.end()
	return c.Context.Err()
}

func (c ending) Done() <-chan struct{} {
	defer c.end()
	return c.Context.Done()
}

// A caller whose context has ended, as in a deferred call, or ends meanwhile, leaves no sandbox.
func destroyLate(e *env) {
	for _, state := range []runtime.State{runtime.StateCreated, runtime.StateRunning, runtime.StateStopped} {
		for _, before := range []bool{true, false} {
			id, tag := e.reach(state), ""
			if state == runtime.StateRunning {
				tag = e.background(id, "")
			}
			over, cancel := context.WithCancel(e.Ctx)
			ctx := context.Context(ending{over, cancel})
			if before {
				cancel()
				ctx = over
			}
			e.OK(e.rt.Destroy(ctx, id))
			cancel()
			if n := onHost(tag); tag != "" && n != 0 {
				e.Errorf("%d processes outlived Destroy", n)
			}
			e.empty()
		}
	}
}

// A canceled Start leaves the sandbox as it was, or has started it.
func startCanceled(e *env) {
	s := e.create(nil)
	ctx, cancel := context.WithCancel(e.Ctx)
	cancel()
	err := e.rt.Start(ctx, s.ID)
	if err == nil {
		e.is(s.ID, runtime.StateRunning)
		return
	}
	if !errors.Is(err, context.Canceled) && runtime.Class(err) == nil {
		e.Errorf("error %v is of no class", err)
	}
	e.is(s.ID, runtime.StateCreated)
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.prints(s.ID, "echo alive", "alive\n")
}

// A Start that fails leaves the sandbox as it was, and it can be started once
// the reason is gone.
func startFails(e *env) {
	dir := e.dir() + "/code"
	e.write(dir+"/file", "there\n")
	s := e.create(e.open(dir))
	for _, state := range []runtime.State{runtime.StateCreated, runtime.StateStopped} {
		e.is(s.ID, state)
		e.OK(os.Rename(dir, dir+".away"))
		if err := e.rt.Start(e.Ctx, s.ID); err == nil || runtime.Class(err) == nil {
			e.Errorf("start without the codebase when %s: %v", state, err)
		}
		e.is(s.ID, state)
		e.OK(os.Rename(dir+".away", dir))
		e.OK(e.rt.Start(e.Ctx, s.ID))
		e.prints(s.ID, "cat file", "there\n")
		e.OK(e.rt.Stop(e.Ctx, s.ID))
	}
}
