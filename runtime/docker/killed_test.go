package docker_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

// killShim kills a sandbox's shim, and waits until it is gone.
func killShim(t testing.TB, id string) {
	t.Helper()
	pid := 0
	wait.Until(t, "the shim is there", func() bool {
		pid = partsOf(t, id)["wolffia shim"]
		return pid != 0
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the shim is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// When the shim is killed the sandbox is dead, and the keeper removes what is in
// the engine. It can be started again.
func TestKilledShim(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	sh(t, rt, s.ID, "trap '' TERM; (setsid sleep 1000 &) >/dev/null 2>&1")
	killShim(t, s.ID)
	dies(t, rt, s.ID)
	partless(t, s.ID)
	gone(t, s.ID)
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	sh(t, rt, s.ID, "cat file")
	destroy(t, rt, s.ID)
}

// A client that waits for a command is told when the shim is killed.
func TestKilledShimDuringCommands(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	if _, err := rt.CreateSession(t.Context(), s.ID, &runtime.SessionConfig{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	var processes []runtime.Process
	for _, spec := range []*runtime.Command{
		{Command: []string{"sh", "-c", "trap '' TERM INT HUP; echo up; sleep 1111"}},
		{Command: []string{"echo up; sleep 1111"}, Session: "s"},
		{Command: []string{"sh", "-c", "echo up; sleep 1111"}, TTY: true},
	} {
		p, err := rt.StartProcess(t.Context(), s.ID, spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(p.Stdout(), make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		processes = append(processes, p)
	}
	killShim(t, s.ID)
	for _, p := range processes {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		if exit, err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), "its shim was killed") && !strings.Contains(err.Error(), "lost the connection") {
			t.Errorf(`Wait: got exit %+v, err %v; want err != nil and (err.Error() contains "its shim was killed" or err.Error() contains "lost the connection")`,
				exit, err)
		}
		cancel()
		_ = p.Close()
	}
	partless(t, s.ID)
	gone(t, s.ID)
	destroy(t, rt, s.ID)
}

// A container that is frozen ends with its shim, too.
func TestKilledShimOfFrozen(t *testing.T) {
	need(t)
	t.Parallel()
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	dockertest.Docker(t, "pause", "wolffia-"+s.ID)
	killShim(t, s.ID)
	dies(t, rt, s.ID)
	partless(t, s.ID)
	gone(t, s.ID)
	destroy(t, rt, s.ID)
}

// A shim that hangs is killed with its sandbox by who wants that to end, and has
// no successor.
func TestStoppedShim(t *testing.T) {
	need(t)
	t.Parallel()
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	pid := partsOf(t, s.ID)["wolffia shim"]
	shimtest.Stop(t, pid)
	destroy(t, rt, s.ID)
}

// Shim and keeper are killed, in whatever order: the sandbox is dead, and the caller that
// comes next removes the rest.
func TestKilledShimAndKeeper(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	for _, order := range [][]string{{"wolffia shim", "wolffia-oci keep"}, {"wolffia-oci keep", "wolffia shim"}} {
		sh(t, rt, s.ID, "trap '' TERM; (setsid sleep 1000 &) >/dev/null 2>&1")
		parts := partsOf(t, s.ID)
		for _, part := range order {
			if err := syscall.Kill(parts[part], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		partless(t, s.ID)
		is(t, rt, s.ID, runtime.StateDead)
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		sh(t, rt, s.ID, "cat file")
	}
	destroy(t, rt, s.ID)
}

// A keeper that is told to end ends the sandbox, and nothing is left of it; also
// while the shim hangs.
func TestTerminatedKeeper(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	for _, hangs := range []bool{false, true} {
		parts := partsOf(t, s.ID)
		if hangs {
			shimtest.Stop(t, parts["wolffia shim"])
		}
		if err := syscall.Kill(parts["wolffia-oci keep"], syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "keeper and PID 1 are gone", func() bool {
			left := partsOf(t, s.ID)
			delete(left, "wolffia shim")
			delete(left, "wolffia tree")
			return len(left) == 0
		})
		if err := syscall.Kill(parts["wolffia shim"], syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		partless(t, s.ID)
		gone(t, s.ID)
		is(t, rt, s.ID, runtime.StateDead)
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	destroy(t, rt, s.ID)
}
