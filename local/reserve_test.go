package local_test

import (
	"slices"
	"testing"

	"wolffia/local"
	"wolffia/runtime"
)

// isPooled reports whether a pooled sandbox of that id is offered.
func isPooled(t *testing.T, rt *local.Runtime, id string) bool {
	t.Helper()
	all, err := rt.PooledSandboxes()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(s local.PooledSandbox) bool { return s.ID == id })
}

// A reserved pooled sandbox becomes the sandbox of its id, or, if the configuration has another shape, gives way
// to one that is started as without a pool.
func TestReservePooled(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	write(t, codebase, "a", "content\n")
	if id := rt.ReservePooled("0123456789abcdef"); id != "" {
		t.Errorf("a pooled sandbox of no pool: %s", id)
	}
	p := newPool(t, rt, 3)
	for what, mountPoint := range map[string]string{"same shape": "", "other shape": "/elsewhere"} {
		id := rt.ReservePooled(p.Shape)
		if id == "" || isPooled(t, rt, id) {
			t.Fatalf("%s: reserved %q", what, id)
		}
		before := len(processes(t, id))
		c := configOf(codebase)
		c.ID, c.MountPoint = id, mountPoint
		sb, err := runtime.Launch(t.Context(), rt, c)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if out, code := sh(t, rt, id, "cat a; pwd"); code != 0 || out != "content\n"+c.MountPointOrDefault()+"\n" {
			t.Errorf("%s: got %q, %d; want %q+c.MountPointOrDefault()+%q, 0", what, out, code, "content\n", "\n")
		}
		if before == 0 || sb.ID() != id {
			t.Errorf("%s: %d processes, id %s", what, before, sb.ID())
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		allGone(t, id)
	}
	awaitPool(t, rt, p.Shape, "refilled", func(p *local.Pool) bool { return p.Ready == 3 && p.Claimed == 2 })
	for _, bad := range []string{"", "../..", "x"} {
		if id := rt.ReservePooled(bad); id != "" {
			t.Errorf(`%q: got %s, want ""`, bad, id)
		}
	}
}

// The id of a pooled sandbox that was not reserved is no way to it.
func TestPooledIsNotClaimedByID(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	newPool(t, rt, 1)
	all, err := rt.PooledSandboxes()
	if err != nil || len(all) != 1 {
		t.Fatalf("Pooled sandboxes: got all %v, err %v; want err == nil and len(all) == 1", all, err)
	}
	c := configOf(codebase)
	c.ID = all[0].ID
	if _, err := rt.Create(t.Context(), c); err == nil {
		t.Error("a pooled sandbox was claimed by its id")
	}
}
