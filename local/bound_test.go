package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"wolffia/internal/test/wait"
	"wolffia/perm"
	"wolffia/runtime"
)

// The changes of a bound sandbox whose end the shim could not record, as on a full disk, outlive the caller, and a
// later start binds it to no process.
func TestBoundChangesWithoutRecord(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	caller := another(t, state)
	s, err := caller.Create(t.Context(), &runtime.SandboxConfig{
		CodebasePath: codebase, CopyOnWrite: true, BoundToCaller: true, Permissions: everything(perm.Write),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := caller.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", "echo kept >work"}}); err != nil {
		t.Fatal(err)
	}
	if err := caller.Stop(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(state, "sandboxes", s.ID, "run", "status.json")); err != nil {
		t.Fatal(err)
	}
	if err := caller.Close(); err != nil {
		t.Fatal(err)
	}
	if all, err := rt.List(t.Context()); err != nil || len(all) != 1 || all[0].State != runtime.StateCreated {
		t.Fatalf("%+v, %v; want the one sandbox, created", all, err)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	res, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"cat", "work"}})
	if err != nil || string(res.Stdout) != "kept\n" {
		t.Errorf("Exec: got res %+v, err %v; want err == nil and res.Stdout == %q", res, err, "kept\n")
	}
	if d, err := rt.Inspect(t.Context(), s.ID); err != nil || d.Config.BoundToCaller {
		t.Errorf("it is bound again (%v)", err)
	}
}

// A bound sandbox that its own caller has stopped, or whose shim was killed, stays as long as the caller lives.
func TestBoundStoppedByItsCaller(t *testing.T) {
	rt, state, _ := newRuntime(t)
	caller := another(t, state)
	s, err := caller.Create(t.Context(), &runtime.SandboxConfig{BoundToCaller: true})
	if err != nil {
		t.Fatal(err)
	}
	rec := caller.RecordFor(s.ID)
	for what, end := range map[string]func() error{
		"stopped": func() error { return caller.Stop(t.Context(), s.ID) },
		"dead": func() error {
			return errors.Join(rec.Processes().Shim().Kill(wait.Limit), rec.WaitUnlocked(t.Context(), wait.Limit))
		},
	} {
		if err := errors.Join(caller.Start(t.Context(), s.ID), end()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, lister := range []func() ([]*runtime.Sandbox, error){
			func() ([]*runtime.Sandbox, error) { return caller.List(t.Context()) },
			func() ([]*runtime.Sandbox, error) { return rt.List(t.Context()) },
		} {
			if all, err := lister(); err != nil || len(all) != 1 || string(all[0].State) != what {
				t.Fatalf("%s: %+v, %v; want the one sandbox", what, all, err)
			}
		}
	}
	if err := errors.Join(caller.Start(t.Context(), s.ID), caller.Stop(t.Context(), s.ID), caller.Close()); err != nil {
		t.Fatal(err)
	}
	if all, err := rt.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v; want none: the caller has ended", all, err)
	}
}
