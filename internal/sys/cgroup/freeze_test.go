package cgroup_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"wolffia/internal/sys/cgroup"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// A frozen group's processes stand still, run on after Thaw, and Remove ends them frozen.
func TestFreeze(t *testing.T) {
	testenv.Both(t)
	g, cmd := open(t, "wolffia-test-freeze", &cgroup.Limits{PIDs: 10})
	if !g.CanFreeze() {
		t.Fatalf("%+v cannot be frozen", g)
	}
	// how often the process has been on a processor: each signal wakes it
	switches := func() string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(b), "\nvoluntary_ctxt_switches:")
		return after
	}
	signaled := func() {
		t.Helper()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := g.Freeze(wait.Limit); err != nil {
			t.Fatal(err)
		}
		if err := g.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Freeze(wait.Limit); err != nil {
		t.Fatal(err)
	}
	before := switches()
	signaled() // it would end
	if now := switches(); now != before {
		t.Errorf("a frozen process runs: %q, then %q", before, now)
	}
	if cmd.ProcessState != nil {
		t.Error("a frozen process has ended by a signal that it can catch")
	}
} // the end of the test removes the group, which is frozen

// Without a group there is nothing to freeze, and no error to thaw it.
func TestNoFreezer(t *testing.T) {
	for _, g := range []*cgroup.Group{nil, {}, {Dirs: map[string]string{cgroup.Memory: "/nowhere"}}} {
		if g.CanFreeze() {
			t.Errorf("%+v can be frozen", g)
		}
		if err := g.Thaw(); err != nil {
			t.Error(err)
		}
		if err := g.LetFreeze(0); err != nil {
			t.Error(err)
		}
		g.Reclaim()
	}
}
