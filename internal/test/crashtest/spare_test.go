package crashtest

import (
	"os"
	"slices"

	"wolffia/internal/host/statedir"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/runtime"
)

// spares are the directories of spares, those that processes live of.
func (w *world) spares() map[string]bool {
	w.Helper()
	dir, err := statedir.Open(w.state)
	w.OK(err)
	lives := map[string]bool{}
	for _, id := range w.subjects() {
		if rec := dir.Record(id); rec.IsIncomplete() && rec.Pooled().IsAlive() {
			lives[id] = true
		}
	}
	return lives
}

// spareOperations are those that start sandboxes before they have a user, and take them. Root has none.
func spareOperations() []operation {
	if os.Geteuid() == 0 {
		return nil
	}
	ask := func(line string) func(w *world, s *subject) *call {
		return func(_ *world, s *subject) *call { return s.was.ask(line) }
	}
	with := func(w *world) subject {
		w.Helper()
		s := serving(w)
		c := s.was.ask("spare 4s") // it must not end before it is taken
		w.ends("spare", c.done)
		if !c.ok {
			w.Fatalf("spare: %s", c.answer)
		}
		return s
	}
	return []operation{
		{name: "spare starts", prepare: serving, begin: ask("spare 1s"), judge: judgeSpares, after: func(*end) []runtime.State { return []runtime.State{none} }},
		// If a process of the spare is killed, the sandbox is started without.
		{name: "spare is taken", prepare: with, begin: ask("take"), judge: judgeSpares, after: func(e *end) []runtime.State {
			switch {
			case e.callerKilled:
				return []runtime.State{none, runtime.StateCreated, runtime.StateRunning}
			case e.ok && e.partKilled:
				return []runtime.State{runtime.StateRunning, runtime.StateDead}
			case e.ok:
				return []runtime.State{runtime.StateRunning}
			}
			return []runtime.State{runtime.StateCreated, runtime.StateDead}
		}},
	}
}

// judgeSpares compares what is there with what may be: one sandbox at most, which can be used, and no spare that
// stays.
func judgeSpares(w *world, r *round, e *end) {
	w.Helper()
	rt := w.open()
	defer rt.Close()
	id, state := w.allowed(rt, r, e)
	if e.ok && state != none && id != e.answer {
		w.Fatalf("there is %s, acknowledged was %s", id, e.answer)
	}
	if state != none {
		if state != runtime.StateRunning {
			if err := rt.Start(w.Ctx, id); err != nil && runtime.Class(err) != runtime.ErrConflict { // a caller that was killed has asked for it
				w.OK(err)
			}
		}
		got, err := rt.Exec(w.Ctx, id, &runtime.ExecRequest{Command: []string{"sh", "-c", "echo alive; ls -d /workspace"}})
		if err != nil || string(got.Stdout) != "alive\n/workspace\n" {
			w.Fatalf("%s says %+v, %v", id, got, err)
		}
		if spares, err := rt.PooledSandboxes(); err != nil || slices.Contains(ids(spares), id) {
			w.Fatalf("it is a spare too: %v, %v", spares, err)
		}
		w.OK(rt.Destroy(w.Ctx, id))
	}
	spares, err := rt.PooledSandboxes()
	w.OK(err)
	for _, s := range ids(spares) {
		w.OK(rt.TerminatePooled(w.Ctx, s))
	}
	dir, err := statedir.Open(w.state)
	w.OK(err)
	for spare := range w.spares() { // claimed, or not offered, by who was killed then: its time ends it
		w.OK(dir.Record(spare).WaitUnlocked(w.Ctx, wait.Limit))
	}
	w.nothing(rt)
}

func ids(spares []local.PooledSandbox) []string {
	var all []string
	for i := range spares {
		all = append(all, spares[i].ID)
	}
	return all
}
