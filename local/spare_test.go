package local_test

import (
	"testing"
	"time"

	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// spared returns a runtime with n spares for the empty configuration.
func spared(t *testing.T, n int, idle time.Duration) (rt *local.Runtime, state, codebase string, ids []string) {
	t.Helper()
	testenv.Unprivileged(t)
	rt, state, codebase = newRuntime(t)
	for range n {
		id, err := rt.StartSpare(t.Context(), &runtime.SandboxConfig{}, idle)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return rt, state, codebase, ids
}

// A sandbox whose configuration matches is made of a spare.
func TestSpareIsTaken(t *testing.T) {
	rt, _, codebase, ids := spared(t, 1, time.Hour)
	write(t, codebase, "a", "content\n")
	write(t, codebase, "secret", "content\n")
	if all, err := rt.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("a spare is listed: %v, %v", all, err)
	}
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
		CodebasePath: codebase, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}, {Pattern: "secret", Level: perm.None}},
		Labels: map[string]string{"k": "v"}, Env: map[string]string{"E": "e"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.ID != ids[0] || s.State != runtime.StateCreated {
		t.Fatalf("%+v, and the spare is %v", s, ids)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if s, err = rt.Get(t.Context(), s.ID); err != nil || s.State != runtime.StateRunning {
		t.Fatalf("%+v, %v", s, err)
	}
	if out, code := sh(t, rt, s.ID, "ls; cat a; echo $E; pwd; hostname"); out != "a\ncontent\ne\n/workspace\n"+s.ID+"\n" || code != 0 {
		t.Errorf("%q, %d", out, code)
	}
}
