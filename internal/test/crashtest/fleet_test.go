package crashtest

import (
	"context"
	"fmt"
	"slices"

	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/service"
)

// theParams are those of the fleet's sandbox; the program of the service has the same.
func theParams() *service.Params {
	return &service.Params{Owner: theOwner, Key: theOwner.UserID, Metadata: map[string]string{"kept": "yes"}, Entrypoint: []string{"sleep", "1000"}}
}

// fleet returns a service as the next process has it, without the registry.
func (w *world) fleet(rt *local.Runtime) *service.Service {
	return service.New(rt, &service.Options{Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
		return &runtime.SandboxConfig{Runtime: w.backend.name, CodebasePath: w.codebase, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}}}, nil
	}})
}

// judgeFleet compares what is there, and what the next fleet knows, with what may be. The same
// request, sent again, gets the sandbox that there is, or the only one.
func (w *world) judgeFleet(r *round, e *end) {
	w.Helper()
	rt := w.open()
	defer rt.Close()
	id, state := w.allowed(rt, r, e)
	f, caller := w.fleet(rt), service.Caller{Owner: theOwner}
	all, err := f.List(w.Ctx, caller)
	if err != nil || len(all) > 1 || (len(all) == 1) != (state != none) || len(all) == 1 && (all[0].ID != id || all[0].Owner != theOwner || all[0].Metadata["kept"] != "yes") {
		w.Fatalf("it has %+v, %v; there is %s, %q", all, err, id, state)
	}
	if others, err := f.List(w.Ctx, service.Caller{Owner: another}); err != nil || len(others) > 0 {
		w.Fatalf("another owner has %+v, %v", others, err)
	}
	if r.operation.check != nil {
		r.operation.check(w, rt, e, id, state)
	}
	again, created, err := f.Create(w.Ctx, theParams())
	if err != nil || created != (state == none) || !created && again.ID != id {
		w.Fatalf("the same request again: %+v, %v, %v; there was %s, %q", again, created, err, id, state)
	}
	if again.State == runtime.StateRunning {
		in, err := f.Inside(w.Ctx, caller, again.ID)
		w.OK(err)
		if s, _, err := in.Status(w.Ctx, "entrypoint"); err != nil || !s.EndedAt.IsZero() {
			w.Fatalf("the entrypoint: %v, %v", fmt.Sprintf("%+v", s), err)
		}
	}
	if there := w.subjects(); !slices.Equal(there, []string{again.ID}) {
		w.Fatalf("there are %v, and %s was asked for", there, again.ID)
	}
	w.OK(f.Destroy(w.Ctx, caller, again.ID))
	w.nothing(rt)
}

// fleets are the operations of a service on the sandboxes of OpenSandbox's API.
func fleets() []operation {
	has := func(w *world) subject {
		w.Helper()
		s := serving(w)
		c := s.was.ask("fleet-create subject")
		w.ends("fleet-create", c.done)
		if !c.ok {
			w.Fatalf("fleet-create: %s", c.answer)
		}
		s.id, s.state = c.answer, runtime.StateRunning
		return s
	}
	// A service that has started a sandbox has its connection already: another one has to connect.
	finds := func(w *world) subject {
		w.Helper()
		s := has(w)
		s.was.end(w)
		s.was = serving(w).was
		return s
	}
	ask := func(line string) func(w *world, s *subject) *call {
		return func(_ *world, s *subject) *call { return s.was.ask(line) }
	}
	return []operation{
		{name: "fleet create", prepare: serving, begin: ask("fleet-create subject"), judge: (*world).judgeFleet, after: func(e *end) []runtime.State {
			switch {
			case e.callerKilled:
				return []runtime.State{none, runtime.StateCreated, runtime.StateRunning}
			case e.ok:
				return e.alive()
			}
			return []runtime.State{none}
		}, check: func(w *world, _ *local.Runtime, e *end, id string, state runtime.State) {
			w.Helper()
			if e.ok && state != none && id != e.answer {
				w.Fatalf("there is %s, acknowledged was %s", id, e.answer)
			}
		}},
		{name: "fleet background", prepare: finds, begin: ask("fleet-background subject sleep 1000"), judge: (*world).judgeFleet, after: func(e *end) []runtime.State {
			return e.alive()
		}, check: func(w *world, rt *local.Runtime, e *end, id string, state runtime.State) {
			w.Helper()
			if !e.ok || state != runtime.StateRunning {
				return
			}
			in, err := w.fleet(rt).Inside(w.Ctx, service.Caller{All: true}, id)
			w.OK(err)
			if s, _, err := in.Status(w.Ctx, e.answer); err != nil || !s.EndedAt.IsZero() {
				w.Fatalf("the command that was acknowledged: %v, %v", fmt.Sprintf("%+v", s), err)
			}
		}},
		{name: "fleet destroy", prepare: has, begin: ask("fleet-destroy subject"), judge: (*world).judgeFleet, after: func(e *end) []runtime.State {
			if e.callerKilled {
				return []runtime.State{none, runtime.StateRunning, runtime.StateStopped}
			}
			return []runtime.State{none}
		}},
	}
}
