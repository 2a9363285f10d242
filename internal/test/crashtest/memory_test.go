package crashtest

import (
	"slices"
	"testing"

	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/gvisor"
)

// A process is killed at any step of what keeps memory, and brings it back: the sandbox that was
// there goes on with it, or is dead; a fork has all of it, or does not exist.
func TestCrashMemory(t *testing.T) {
	onGVisor(t)
	crash(t, backend{name: gvisor.Name, shims: gvisor.Backend()}, memoryLines(), 1)
}

// memoryLines are the operations.
func memoryLines() []operation {
	ends := func(more ...runtime.State) func(e *end) []runtime.State {
		return func(e *end) []runtime.State {
			switch {
			case e.callerKilled:
				return append(append(e.alive(), e.state), more...)
			case e.partKilled:
				return append(more, runtime.StateDead, runtime.StateStopped)
			case len(more) > 0:
				return more
			}
			return e.alive()
		}
	}
	return []operation{
		{
			name: "hibernate", prepare: shell, begin: line("pause", "--hibernate", "ID"),
			after: ends(runtime.StateStopped), check: keeps,
		},
		{name: "wake", prepare: hibernated, begin: line("start", "ID"), after: ends(), check: keeps},
		{
			name: "snapshot with memory", prepare: shell, begin: line("snapshot", "create", "--memory", "ID", "one"),
			after: ends(), check: keepsSnapshot,
		},
		{
			name: "restore memory", prepare: withSnapshot, begin: line("snapshot", "restore", "ID", "one"),
			after: ends(runtime.StateStopped), check: keepsSnapshot,
		},
		{name: "fork with memory", prepare: shell, begin: line("fork", "--memory", "ID"), judge: forkedWithMemory},
	}
}

// hibernated makes a sandbox that hibernates, with a shell in which A is 0.
func hibernated(w *world) subject {
	w.Helper()
	s := shell(w)
	w.OK(w.open().Hibernate(w.Ctx, s.id))
	s.state = runtime.StateStopped
	return s
}

// withSnapshot makes a sandbox that was stopped, with a snapshot of a shell in which A is 0.
func withSnapshot(w *world) subject {
	w.Helper()
	s, rt := shell(w), w.open()
	_, err := rt.Snapshot(w.Ctx, s.id, "one", runtime.SnapshotOptions{Memory: true})
	w.OK(err)
	w.OK(rt.Stop(w.Ctx, s.id))
	s.state = runtime.StateStopped
	return s
}

// keeps checks that a sandbox has the shell in which A is 0, unless it is dead.
func keeps(w *world, rt *local.Runtime, e *end, id string, state runtime.State) {
	w.Helper()
	s, err := rt.Get(w.Ctx, id)
	w.OK(err)
	if state == runtime.StateDead || state == runtime.StateStopped && !s.WakesOnUse && e.partKilled && !e.ok {
		return // its state says that the processes are lost
	}
	if got := w.inSession(rt, id, "echo $A"); got != "0" {
		w.Fatalf("A is %q in a sandbox that is %s; the operation: %v, %q", got, state, e.ok, e.answer)
	}
	if !state.Runs() {
		w.OK(rt.Stop(w.Ctx, id)) // as it was
	}
}

// keepsSnapshot checks that a sandbox that runs has its shell, and that a snapshot is complete: it
// can be restored, twice.
func keepsSnapshot(w *world, rt *local.Runtime, e *end, id string, state runtime.State) {
	w.Helper()
	if state == runtime.StateRunning {
		keeps(w, rt, e, id, state)
	}
	all, err := rt.Snapshots(w.Ctx, id)
	w.OK(err)
	if e.ok && len(all) != 1 {
		w.Fatalf("snapshots: got %+v; want one", all)
	}
	for range all {
		if state.Runs() {
			w.OK(rt.Stop(w.Ctx, id))
		}
		for range 2 {
			w.OK(rt.Restore(w.Ctx, id, "one"))
			w.OK(rt.Start(w.Ctx, id))
			if got := w.inSession(rt, id, "echo $A; A=1"); got != "0" {
				w.Fatalf("A is %q after a restore", got)
			}
			w.OK(rt.Stop(w.Ctx, id))
		}
		if state.Runs() {
			w.OK(rt.Start(w.Ctx, id))
		}
	}
}

// forkedWithMemory judges a fork with memory.
func forkedWithMemory(w *world, _ *round, e *end) {
	w.Helper()
	rt := w.open()
	defer rt.Close()
	states := w.settled(rt)
	delete(states, w.bystander)
	if !slices.Contains(append(e.alive(), runtime.StateRunning), states[e.id]) {
		w.Fatalf("the parent is %q; the fork: %v, %q", states[e.id], e.ok, e.answer)
	}
	if e.ok && len(states) != 2 {
		w.Fatalf("there are %v after a fork", states)
	}
	for id, state := range states {
		switch state {
		case runtime.StateCreated: // its first start has the memory
			w.OK(rt.Start(w.Ctx, id))
			fallthrough
		case runtime.StateRunning:
			if got := w.inSession(rt, id, "echo $A"); got != "0" {
				w.Fatalf("A is %q in %s, the parent: %v", got, id, id == e.id)
			}
		case runtime.StateDead:
		default:
			w.Fatalf("%s is %q", id, state)
		}
		w.OK(rt.Destroy(w.Ctx, id))
	}
	w.nothing(rt)
}
