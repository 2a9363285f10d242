package server_test

import (
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/gvisor"
)

// Calls fork, keep and restore the memory of a sandbox that works on the host's directory itself,
// and one that hibernates is brought back by its next use.
func TestMemory(t *testing.T) {
	testenv.Need(t, probe.Runsc)
	c := &copied{World: servetest.NewProcess(t, "", "--runtime", "gvisor").World}
	c.id = c.ok("createSandbox", nil).SandboxID
	is := func(id, script, want string) {
		t.Helper()
		if got := strings.TrimSpace(c.ok("executeBash", m{"sandboxId": id, "command": script}).Stdout); got != want {
			t.Errorf("%s: %s: got %q; want %q", id, script, got, want)
		}
	}
	c.bash("X=5; cd /tmp; echo kept >file")
	forks := c.ok("forkSandbox", m{"memory": true, "count": 2}).Sandboxes
	if len(forks) != 2 || forks[0] == forks[1] {
		t.Fatalf("forkSandbox: got %q; want two ids", forks)
	}
	one, two := forks[0].SandboxID, forks[1].SandboxID
	is(one, `echo "$X $PWD $(cat file)"; X=6; echo own >file`, "5 /tmp kept")
	is(two, `echo "$X $PWD $(cat file)"`, "5 /tmp kept")

	c.ok("createSnapshot", m{"snapshot": "one", "memory": true})
	c.bash("X=7; echo later >file")
	c.ok("restoreSnapshot", m{"snapshot": "one"})
	is(c.id, `echo "$X $(cat file)"`, "5 kept")
	c.fails("forkSandbox", m{"count": -1}, 400, "count")
	c.fails("forkSandbox", m{"memory": true, "count": 101}, 400, "at most 100")

	rt, err := local.New(&local.Options{StateDir: c.State, Binary: filepath.Join(testbin.Dir(t), "wolffia")}, gvisor.Backend())
	c.OK(err)
	t.Cleanup(func() { _ = rt.Close() })
	c.OK(rt.Hibernate(c.Ctx, c.id))
	is(c.id, `echo "$X $(cat file)"`, "5 kept")
	for call, more := range map[string]m{"resumeSandbox": {"sandboxId": c.id}, "ensureSandbox": nil} {
		c.OK(rt.Hibernate(c.Ctx, c.id))
		state := func() runtime.State {
			for _, b := range c.ok("listSandboxes", nil).Sandboxes {
				if b.SandboxID == c.id {
					return b.State
				}
			}
			return ""
		}
		if got := state(); got != runtime.StateHibernated {
			t.Errorf("listSandboxes: one that hibernates has the state %q", got)
		}
		c.ok(call, more)
		if got := state(); got != runtime.StateRunning {
			t.Errorf("listSandboxes after %s: the state is %q", call, got)
		}
		is(c.id, `echo "$X $(cat file)"`, "5 kept")
	}
	c.OK(rt.Hibernate(c.Ctx, one))
	third := c.ok("forkSandbox", m{"sandboxId": one, "memory": true}).SandboxID
	is(third, `echo "$X $(cat file)"`, "6 own")
	is(one, `echo "$X $(cat file)"`, "6 own")
	c.OK(rt.Hibernate(c.Ctx, one))
	c.OK(rt.Destroy(c.Ctx, one))
	if left, err := filepath.Glob(filepath.Join(c.State, "sandboxes", one)); err != nil || len(left) > 0 {
		t.Errorf("a sandbox that hibernated leaves %v, %v", left, err)
	}
}
