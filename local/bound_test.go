package local_test

import (
	"os"
	"path/filepath"
	"testing"

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
		t.Errorf("%+v, %v", res, err)
	}
	if d, err := rt.Inspect(t.Context(), s.ID); err != nil || d.Config.BoundToCaller {
		t.Errorf("it is bound again (%v)", err)
	}
}
