package local_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/test/wait"
	"wolffia/local"
)

// pidOf returns the PID of a sandbox's process whose command line begins with part, or 0.
func pidOf(t *testing.T, id, part string) (pid int) {
	t.Helper()
	for _, line := range processes(t, id) {
		number, cmdline, _ := strings.Cut(line, " ")
		if strings.HasPrefix(cmdline, part) {
			pid, _ = strconv.Atoi(number)
		}
	}
	return pid
}

// outlives reports whether a process whose command line begins with part is alive when Destroy has returned for its sandbox, in which
// script has started it. It waits for its end.
func outlives(t *testing.T, rt *local.Runtime, codebase, part, script string) bool {
	t.Helper()
	id := started(t, rt, codebase)
	if out, code := sh(t, rt, id, "id="+id+"\n"+script); code != 0 {
		t.Fatalf("%s: %q, code %d", script, out, code)
	}
	pid := wait.For(t, "process ID of "+part, func() int { return pidOf(t, id, part) }, func(pid int) bool { return pid != 0 })
	if err := rt.Destroy(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	left := syscall.Kill(pid, 0) == nil // at once
	allGone(t, id)
	return left
}

// A stop does not wait for the end of a PID 1 without processes. It does end.
func TestDestroyBeforePID1Ends(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	for range 20 { // a busy machine can keep the test from looking in time
		if outlives(t, rt, codebase, "/run/wolffia/guest", "true") {
			return
		}
	}
	t.Error("20 times PID 1 had ended when Destroy returned")
}

// Whatever else runs inside has ended when Destroy returns.
func TestDestroyAfterProcessesEnd(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	for _, script := range []string{
		`setsid -f bash -c "exec -a left-$id sleep 1000" </dev/null >/dev/null 2>&1`,
		`setsid -f bash -c "trap '' TERM HUP; exec -a left-$id sleep 1000" </dev/null >/dev/null 2>&1`,
	} {
		if outlives(t, rt, codebase, "left-", script) {
			t.Errorf("%s: it is alive when Destroy has returned", script)
		}
	}
}
