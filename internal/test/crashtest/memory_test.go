package crashtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/gvisor"
	"wolffia/service"
)

// A process is killed at any step of what keeps memory, and brings it back: the sandbox that was
// there goes on with it, or is dead; a fork has all of it, or does not exist.
func TestCrashMemory(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Runsc, probe.Fuse)
	operations := slices.Concat(memory{get: "echo $A", set: "A="}.lines(), memory{
		name: ", copied", flags: []string{"--cow"},
		get: "[ $A = $(cat /workspace/own) ] && echo $A", set: "put() { A=$1; echo $1 >/workspace/own; }; put ",
	}.lines(), slices.DeleteFunc(commandLines(), func(o operation) bool { return o.needs == nil })) // and pauses
	crash(t, backend{name: gvisor.Name, shims: gvisor.Backend()}, operations, 1)
}

// A memory is what a sandbox has in memory and in its own files, as a word that its shell can set
// and get.
type memory struct {
	name     string   // of the operations, after their own
	flags    []string // of the sandbox
	get, set string   // commands; the word follows set
}

// lines are the operations.
func (m memory) lines() []operation {
	ends := func(more ...runtime.State) func(e *end) []runtime.State {
		return func(e *end) []runtime.State {
			switch {
			case e.callerKilled:
				return append(append(e.alive(), e.state), more...)
			case e.partKilled:
				return append(more, runtime.StateDead, runtime.StateStopped, e.state)
			case len(more) > 0:
				return more
			}
			return e.alive()
		}
	}
	all := []operation{
		{
			name: "hibernate", prepare: m.running, begin: line("pause", "--hibernate", "ID"),
			after: ends(runtime.StateHibernated), check: m.stays,
		},
		{name: "wake", prepare: m.hibernated, begin: line("start", "ID"), after: ends(), check: m.stays},
		{name: "wake by use", prepare: m.hibernated, begin: line("exec", "ID", "--", "true"), after: ends(), check: m.stays},
		{
			name: "snapshot with memory", prepare: m.running, begin: line("snapshot", "create", "--memory", "ID", "one"),
			after: ends(), check: m.snapshots,
		},
		{
			name: "restore memory", prepare: m.withSnapshot, begin: line("snapshot", "restore", "ID", "one"),
			after: ends(runtime.StateStopped), check: m.snapshots,
		},
		{
			name: "restore what hibernates", prepare: m.hibernatedLater, begin: line("snapshot", "restore", "ID", "one"),
			after: ends(runtime.StateStopped), check: m.snapshotsOr2,
		},
		{name: "start what is restored", prepare: m.restored, begin: line("start", "ID"), after: ends(), check: m.snapshots},
		{name: "fork with memory", prepare: m.running, begin: line("fork", "--memory", "ID"), judge: m.forked},
	}
	for i := range all {
		all[i].name += m.name
	}
	return all
}

// running makes a sandbox that has the word 0.
func (m memory) running(w *world) subject {
	w.Helper()
	s := made(w, m.flags...)
	w.inSession(w.open(), s.id, m.set+"0")
	return s
}

// hibernated makes one that hibernates.
func (m memory) hibernated(w *world) subject {
	w.Helper()
	s := m.running(w)
	w.OK(w.open().Hibernate(w.Ctx, s.id))
	s.state = runtime.StateHibernated
	return s
}

// withSnapshot makes one that was stopped, with a snapshot of that word.
func (m memory) withSnapshot(w *world) subject {
	w.Helper()
	s, rt := m.running(w), w.open()
	_, err := rt.Snapshot(w.Ctx, s.id, "one", runtime.SnapshotOptions{Memory: true})
	w.OK(err)
	w.OK(rt.Stop(w.Ctx, s.id))
	s.state = runtime.StateStopped
	return s
}

// restored makes one whose next start restores a snapshot.
func (m memory) restored(w *world) subject {
	w.Helper()
	s := m.withSnapshot(w)
	w.OK(w.open().Restore(w.Ctx, s.id, "one"))
	return s
}

// hibernatedLater makes one that hibernates with the word 2, with a snapshot of the word 0.
func (m memory) hibernatedLater(w *world) subject {
	w.Helper()
	s, rt := m.restored(w), w.open()
	w.OK(rt.Start(w.Ctx, s.id))
	w.inSession(rt, s.id, m.set+"2")
	w.OK(rt.Hibernate(w.Ctx, s.id))
	s.state = runtime.StateHibernated
	return s
}

// snapshotsOr2 is snapshots for one that still hibernates with the word 2, or has given it up.
func (m memory) snapshotsOr2(w *world, rt *local.Runtime, e *end, id string, state runtime.State) {
	w.Helper()
	if state == runtime.StateHibernated {
		m.has(w, rt, &end{}, id, "2")
	}
	m.snapshots(w, rt, e, id, state)
}

// has checks that a sandbox has a word. What a caller that was killed has asked of it may interrupt
// the first looks.
func (m memory) has(w *world, rt *local.Runtime, e *end, id, word string) {
	w.Helper()
	var r *runtime.Result
	w.OK(wait.For(w, "an answer of the sandbox", func() (err error) {
		r, err = service.New(rt, nil).Driver().ExecuteBash(w.Ctx, id, &runtime.Command{Command: []string{m.get}})
		return err
	}, func(err error) bool { return err == nil || !e.callerKilled }))
	if got := strings.TrimSpace(string(r.Stdout)); got != word {
		w.Fatalf("%s has %q; want %q; the operation: %v, %q", id, got, word, e.ok, e.answer)
	}
}

// stays checks that a sandbox has its word, unless it is dead.
func (m memory) stays(w *world, rt *local.Runtime, e *end, id string, state runtime.State) {
	w.Helper()
	if state == runtime.StateDead || state == runtime.StateStopped && e.partKilled && !e.ok {
		return // its state says that the processes are lost
	}
	m.has(w, rt, e, id, "0")
	if !state.Runs() {
		w.OK(rt.Stop(w.Ctx, id)) // as it was
	}
}

// snapshots checks that a sandbox that runs has its word, and that a snapshot is complete: it can be
// restored, twice.
func (m memory) snapshots(w *world, rt *local.Runtime, e *end, id string, state runtime.State) {
	w.Helper()
	if state == runtime.StateRunning {
		m.has(w, rt, e, id, "0")
	}
	all, err := rt.Snapshots(w.Ctx, id)
	w.OK(err)
	if e.ok && len(all) != 1 {
		w.Fatalf("snapshots: got %+v; want one", all)
	}
	for range all {
		w.OK(rt.Stop(w.Ctx, id))
		for range 2 {
			w.OK(rt.Restore(w.Ctx, id, "one"))
			w.OK(rt.Start(w.Ctx, id))
			m.has(w, rt, &end{}, id, "0")
			w.inSession(rt, id, m.set+"1")
			w.OK(rt.Stop(w.Ctx, id))
		}
		if state.Runs() {
			w.OK(rt.Start(w.Ctx, id))
		}
	}
}

// forked judges a fork with memory.
func (m memory) forked(w *world, _ *round, e *end) {
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
			m.has(w, rt, e, id, "0")
			w.inSession(rt, id, m.set+id) // it is its own
		case runtime.StateDead:
		default:
			w.Fatalf("%s is %q", id, state)
		}
	}
	for id, state := range states {
		if state != runtime.StateDead {
			m.has(w, rt, e, id, id)
		}
		wait.For(w, "hidden snapshots that a list does not remove", func() []os.DirEntry {
			w.settled(rt)
			list, _ := os.ReadDir(filepath.Join(w.state, "sandboxes", id, "cow", "snapshots")) // it may not exist
			return list
		}, func(list []os.DirEntry) bool { return len(list) == 0 })
		w.OK(rt.Destroy(w.Ctx, id))
	}
	w.nothing(rt)
}
