package crashtest

import (
	"os"
	"slices"

	"wolffia/internal/host/statedir"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/runtime"
)

// pooled sandboxes are the directories of pooled sandboxes, those that processes live of.
func (w *world) pooled() map[string]bool {
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

// pooledOperations are those that start sandboxes before they have a user, and take them. Root has none.
func pooledOperations() []operation {
	if os.Geteuid() == 0 {
		return nil
	}
	ask := func(line string) func(w *world, s *subject) *call {
		return func(_ *world, s *subject) *call { return s.was.ask(line) }
	}
	with := func(w *world) subject {
		w.Helper()
		s := serving(w)
		c := s.was.ask("pooled 4s") // it must not end before it is claimed
		w.ends("pooled", c.done)
		if !c.ok {
			w.Fatalf("pooled: %s", c.answer)
		}
		return s
	}
	return []operation{
		{name: "pooled starts", prepare: serving, begin: ask("pooled 1s"), judge: judgePooled, after: func(*end) []runtime.State { return []runtime.State{none} }},
		// If a process of the pooled sandbox is killed, the sandbox is started without.
		{name: "pooled is claimed", prepare: with, begin: ask("claim"), judge: judgePooled, after: func(e *end) []runtime.State {
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

// judgePooled compares what is there with what may be: one sandbox at most, which can be used, and no pooled sandbox that
// stays.
func judgePooled(w *world, r *round, e *end) {
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
		if pooled, err := rt.PooledSandboxes(); err != nil || slices.Contains(ids(pooled), id) {
			w.Fatalf("it is a pooled sandbox too: %v, %v", pooled, err)
		}
		w.OK(rt.Destroy(w.Ctx, id))
	}
	pooled, err := rt.PooledSandboxes()
	w.OK(err)
	for _, s := range ids(pooled) {
		w.OK(rt.TerminatePooled(w.Ctx, s))
	}
	dir, err := statedir.Open(w.state)
	w.OK(err)
	for id := range w.pooled() { // claimed, or not offered, by who was killed then: its time ends it
		w.OK(dir.Record(id).WaitUnlocked(w.Ctx, wait.Limit))
	}
	w.nothing(rt)
}

func ids(pooled []local.PooledSandbox) []string {
	var all []string
	for i := range pooled {
		all = append(all, pooled[i].ID)
	}
	return all
}
