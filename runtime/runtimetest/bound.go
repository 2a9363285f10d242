package runtimetest

import (
	"errors"
	"io"

	"wolffia/runtime"
)

// closeRuntime ends a runtime as the end of its process would.
func (e *env) closeRuntime(rt runtime.Runtime) {
	e.Helper()
	c, ok := rt.(io.Closer)
	if !ok {
		e.Fatalf("%T has no Close", rt)
	}
	e.OK(c.Close())
}

// other returns a runtime over the same state, if there can be one.
func (e *env) other() runtime.RuntimeWithExecutor {
	if e.Reopen == nil {
		return e.rt
	}
	return e.Reopen(e.TB, e.rt)
}

func boundToCaller(e *env) {
	first := e.rt
	s := e.start(&runtime.SandboxConfig{BoundToCaller: true})
	tag := e.background(s.ID, "trap '' TERM;")
	e.rt = e.other()
	e.is(s.ID, runtime.StateRunning)
	e.closeRuntime(first)
	e.Until("the end of the sandbox", func() bool {
		s, err := e.rt.Get(e.Ctx, s.ID)
		return errors.Is(err, runtime.ErrNotFound) || err == nil && s.State == runtime.StateStopped
	})
	if n := onHost(tag); n != 0 {
		e.Errorf("%d processes outlived the caller", n)
	}
}

// One that was never started goes with its caller too, and not before.
func boundNotStarted(e *env) {
	first := e.rt
	s := e.create(&runtime.SandboxConfig{BoundToCaller: true})
	e.rt = e.other()
	if len(e.list()) != 1 {
		e.Errorf("it went before its caller")
	}
	e.OK(first.Start(e.Ctx, s.ID))
	e.OK(first.Stop(e.Ctx, s.ID))
	_, err := first.Create(e.Ctx, &runtime.SandboxConfig{BoundToCaller: true})
	e.OK(err)
	e.closeRuntime(first)
	// A child that another test is just starting may have the caller's lock yet.
	e.Until("the end of both", func() bool { return len(e.list()) == 0 })
}

// The changes of one with a copied codebase outlive its caller, whether it runs or was stopped,
// and a later start binds it to no process.
func boundCopied(e *env) {
	first := e.rt
	dir := e.copiedSource()
	before := e.hostTree(dir)
	var ids []string
	for range 2 {
		c := e.open(dir)
		c.CopyOnWrite, c.BoundToCaller = true, true
		id := e.start(c).ID
		e.out(id, "echo kept >work")
		ids = append(ids, id)
	}
	e.OK(first.Stop(e.Ctx, ids[0]))
	e.rt = e.other()
	e.closeRuntime(first)
	for _, id := range ids {
		e.Until("the end of the sandbox", func() bool { return e.get(id).State == runtime.StateStopped })
	}
	if n := len(e.list()); n != 2 {
		e.Errorf("%d of 2 sandboxes with changes outlived the caller", n)
	}
	for _, id := range ids {
		e.OK(e.rt.Start(e.Ctx, id))
		e.prints(id, "cat work", "kept\n")
	}
	second := e.rt
	e.rt = e.other()
	e.closeRuntime(second)
	for _, id := range ids {
		e.is(id, runtime.StateRunning)
	}
	if got := e.hostTree(dir); got != before {
		e.Errorf("the host has\n%s\nwant\n%s", got, before)
	}
}

// A sandbox that is not bound does not care.
func notBoundToCaller(e *env) {
	first := e.rt
	s := e.start(nil)
	tag := e.background(s.ID, "")
	e.rt = e.other()
	e.closeRuntime(first)
	e.is(s.ID, runtime.StateRunning)
	if n := e.count(s.ID, tag); n != 2 {
		e.Errorf("%d of 2 processes outlived the caller", n)
	}
}
