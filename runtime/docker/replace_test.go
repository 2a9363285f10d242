package docker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/shimtest"
	"wolffia/perm"
	"wolffia/runtime"
)

// kill9 kills a process of a sandbox, and waits until it is gone.
func kill9(t testing.TB, id, part string) {
	t.Helper()
	pid := 0
	until(t, part+" is there", func() bool {
		pid = partsOf(t, id)[part]
		return pid != 0
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, part+" is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// bash makes a session with state: x is 1, and so is what is counted from.
func bash(t testing.TB, rt *shimtest.Runtime, id string) string {
	t.Helper()
	s, err := rt.CreateSession(t.Context(), id, &runtime.SessionConfig{Name: "s"})
	if err != nil {
		t.Fatal(err)
	}
	inBash(t, rt, s.ID, "x=1; cd /tmp; f() { x=$((x+1)); echo $x $PWD; }", "")
	return s.ID
}

func inBash(t testing.TB, rt *shimtest.Runtime, session, script, want string) {
	t.Helper()
	r, err := rt.SessionExec(t.Context(), session, &runtime.SessionExecRequest{Command: script})
	if err != nil || r.ExitCode != 0 || string(r.Stdout) != want || r.Session.Ended || r.Session.Restored != "" {
		t.Fatalf("%s: %+v, %v", script, r, err)
	}
}

// running fails unless the sandbox runs.
func running(t testing.TB, rt *shimtest.Runtime, id string) {
	t.Helper()
	if s, err := rt.Get(t.Context(), id); err != nil || s.State != runtime.StateRunning {
		t.Fatalf("%+v, %v", s, err)
	}
}

// When the shim is killed, another takes its place; nobody who comes meanwhile is
// told anything but that the sandbox runs.
func TestKilledShim(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	session := bash(t, rt, s.ID)
	was := partsOf(t, s.ID)
	for i := range 3 {
		kill9(t, s.ID, "wolffia shim")
		running(t, rt, s.ID)
		if err := rt.Start(t.Context(), s.ID); !errors.Is(err, runtime.ErrConflict) {
			t.Errorf("start it again: %v", err)
		}
		other := backend.Reopen(t, rt) // which had no connection
		inBash(t, other, session, "f", fmt.Sprintf("%d /tmp\n", i+2))
		sh(t, other, s.ID, "cat file")
		running(t, rt, s.ID)
		now := partsOf(t, s.ID)
		if len(now) != 4 || now["wolffia tree"] != was["wolffia tree"] || now["wolffia-docker keep"] != was["wolffia-docker keep"] || now["wolffia shim"] == was["wolffia shim"] {
			t.Errorf("its parts are %v, and were %v", now, was)
		}
		was = now
	}
	if err := rt.SetPermissions(t.Context(), s.ID, []perm.Rule{{Pattern: "**", Level: perm.Write}, {Pattern: "file", Level: perm.None}}); err != nil {
		t.Error(err)
	}
	if r, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"cat", "file"}}); err != nil || r.ExitCode == 0 {
		t.Errorf("a file that is hidden now: %+v, %v", r, err)
	}
	if d, err := rt.Inspect(t.Context(), s.ID); err != nil || d.Tree == nil || !d.Tree.Current {
		t.Errorf("%+v, %v", d, err)
	}
	if err := rt.Stop(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	is(t, rt, s.ID, runtime.StateStopped)
	gone(t, rt, s.ID)
	destroy(t, rt, s.ID)
}

// What waits for something of a shim that is killed is told so, and ends in the
// sandbox too; a session's command is interrupted, and its state stays.
func TestKilledShimDuringCommands(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	session := bash(t, rt, s.ID)
	for _, spec := range []*runtime.ProcessSpec{
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
		kill9(t, s.ID, "wolffia shim")
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if exit, err := p.Wait(ctx); !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "lost the connection") {
			t.Errorf("%+v, %v", exit, err)
		}
		cancel()
		_ = p.Close()
		sh(t, rt, s.ID, "while pgrep -f '^sleep 1111'; do :; done")
		inBash(t, rt, session, "echo $x", "1\n")
	}
	destroy(t, rt, s.ID)
}

// A job goes on, and its output is complete, however often the shim is killed and
// at what moment.
func TestKilledShimDuringJob(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	session := bash(t, rt, s.ID)
	const lines = 200_000
	job, err := rt.StartJob(t.Context(), session, "count", &runtime.SessionExecRequest{Command: fmt.Sprintf("for ((i = 0; i < %d; i++)); do echo $i; done; until [ -e /tmp/enough ]; do sleep 0.01; done; echo end", lines)})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		kill9(t, s.ID, "wolffia shim")
		jobs, err := rt.SessionJobs(t.Context(), session)
		if err != nil || len(jobs) != 1 || jobs[0].ID != job.ID || jobs[0].State != "running" {
			t.Fatalf("%+v, %v", jobs, err)
		}
	}
	sh(t, rt, s.ID, "touch /tmp/enough")
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	if exit, err := rt.WaitJob(ctx, session, job.ID); err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	kill9(t, s.ID, "wolffia shim")
	p, err := rt.JobOutput(ctx, session, job.ID, 0, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil || !bytes.HasSuffix(out, []byte(fmt.Sprintf("\n%d\nend\n", lines-1))) {
		t.Errorf("%d bytes, which end with %q (%v)", len(out), out[max(0, len(out)-20):], err)
	}
	want := 4
	for i := range lines {
		want += len(fmt.Sprintln(i))
	}
	if jobs, err := rt.SessionJobs(ctx, session); err != nil || len(jobs) != 1 || jobs[0].Stdout.End != uint64(want) {
		t.Errorf("%+v, %v, want %d bytes", jobs, err, want)
	}
	destroy(t, rt, s.ID)
}

// An operation goes on without its caller, who gets all of it from another shim.
func TestKilledShimDuringOperation(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	session := bash(t, rt, s.ID)
	req := &runtime.SessionExecRequest{
		Command:   "echo before; touch /tmp/begun; until [ -e /tmp/enough ]; do sleep 0.01; done; x=kept; echo after",
		Operation: "op",
	}
	lost := make(chan error, 1)
	go func() {
		_, err := rt.SessionExec(t.Context(), session, req)
		lost <- err
	}()
	sh(t, rt, s.ID, "until [ -e /tmp/begun ]; do :; done")
	kill9(t, s.ID, "wolffia shim")
	if err := <-lost; !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	sh(t, rt, s.ID, "touch /tmp/enough")
	if r, err := rt.SessionExec(t.Context(), session, req); err != nil || string(r.Stdout) != "before\nafter\n" {
		t.Errorf("%+v, %v", r, err)
	}
	inBash(t, rt, session, "echo $x", "kept\n")
	destroy(t, rt, s.ID)
}

// The next shim knows of the lifetime as it was renewed, and of what runs without
// anybody waiting for it.
func TestKilledShimLifetime(t *testing.T) {
	need(t)
	t.Parallel()
	rt := fresh(t)
	over := func(id string, why runtime.Expiry) {
		t.Helper()
		until(t, "the end of its lifetime", func() bool {
			s, err := rt.Get(t.Context(), id)
			return err == nil && s.Expired == why && s.State != runtime.StateRunning
		})
		partless(t, id)
		destroy(t, rt, id)
	}
	const timeout = 4 * time.Second // for a slow machine
	idle := start(t, rt, &runtime.SandboxConfig{IdleTimeout: timeout})
	session := bash(t, rt, idle.ID)
	inBash(t, rt, session, "(until [ -e /workspace/file2 ]; do sleep 0.1; done) &", "")
	kill9(t, idle.ID, "wolffia shim")
	time.Sleep(timeout + time.Second)
	running(t, rt, idle.ID)
	if err := os.WriteFile(filepath.Join(idle.CodebasePath, "file2"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	over(idle.ID, runtime.ExpiredIdle)

	timed := start(t, rt, &runtime.SandboxConfig{TTL: time.Hour})
	if _, err := rt.Renew(t.Context(), timed.ID, timeout); err != nil {
		t.Fatal(err)
	}
	kill9(t, timed.ID, "wolffia shim")
	running(t, rt, timed.ID)
	over(timed.ID, runtime.ExpiredTTL)
}

// The shim is killed twenty times at any moment while as much as can be goes both
// ways, so that frames are cut: what is said afterwards is exact.
func TestKilledShimUnderLoad(t *testing.T) {
	need(t)
	t.Parallel()
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	session := bash(t, rt, s.ID)
	zeros := make([]byte, 1<<20)
	for round := range 20 {
		var floods []runtime.Process
		var first [4]byte
		for _, spec := range []*runtime.ProcessSpec{
			{Command: []string{"sh", "-c", "echo up; exec cat"}, Stdin: true},
			{Command: []string{"sh", "-c", "echo up; exec cat >/dev/null"}, Stdin: true},
			{Command: []string{"sh", "-c", "echo up; exec yes"}},
			{Command: []string{"echo up; yes"}, Session: "s"},
		} {
			p, err := rt.StartProcess(t.Context(), s.ID, spec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(p.Stdout(), first[:3]); err != nil || string(first[:3]) != "up\n" {
				t.Fatalf("%q, %v", first, err)
			}
			floods = append(floods, p)
			if spec.Stdin {
				go func() { // ends with the shim
					for {
						if _, err := p.Stdin().Write(zeros); err != nil {
							return
						}
					}
				}()
			}
			go func() { _, _ = io.Copy(io.Discard, p.Stdout()) }() // ends with the shim
		}
		time.Sleep(rand.N(50 * time.Millisecond)) // any moment
		kill9(t, s.ID, "wolffia shim")
		if round%3 == 0 {
			kill9(t, s.ID, "wolffia shim") // or the next one, on its way
		}
		for _, p := range floods {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			if exit, err := p.Wait(ctx); !errors.Is(err, runtime.ErrUnavailable) {
				t.Errorf("%+v, %v", exit, err)
			}
			cancel()
			_ = p.Close()
		}
		inBash(t, rt, session, "f", fmt.Sprintf("%d /tmp\n", round+2))
		sh(t, rt, s.ID, "while pgrep -x 'yes|cat'; do :; done")
		if round%4 == 3 { // many in a row are given up
			time.Sleep(1100 * time.Millisecond)
		}
	}
	destroy(t, rt, s.ID)
}

// While there is no shim, a sandbox can be stopped and stopped as a whole.
func TestKilledShimAndEnd(t *testing.T) {
	need(t)
	t.Parallel()
	rt := fresh(t)
	for range 5 {
		s := start(t, rt, &runtime.SandboxConfig{})
		kill9(t, s.ID, "wolffia shim")
		if err := rt.Stop(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		is(t, rt, s.ID, runtime.StateStopped)
		gone(t, rt, s.ID)
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		kill9(t, s.ID, "wolffia shim")
		destroy(t, rt, s.ID)
	}
}

// The shim is killed at any moment while the sandbox starts, and ends: then it runs,
// or does not, and nothing is left of it.
func TestKilledShimOnTheWay(t *testing.T) {
	need(t)
	t.Parallel()
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	for range 10 {
		stopped := make(chan struct{})
		go func() {
			time.Sleep(rand.N(200 * time.Millisecond)) // any moment
			if pid := partsOf(t, s.ID)["wolffia shim"]; pid != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			close(stopped)
		}()
		if err := rt.Stop(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		<-stopped
		if got, err := rt.Get(t.Context(), s.ID); err != nil || got.State != runtime.StateStopped && got.State != runtime.StateDead {
			t.Errorf("%+v, %v", got, err)
		}
		partless(t, s.ID)
		gone(t, rt, s.ID)

		started := make(chan error, 1)
		go func() { started <- rt.Start(t.Context(), s.ID) }()
		pid := 0
		until(t, "the shim is there", func() bool {
			pid = partsOf(t, s.ID)["wolffia shim"]
			return pid != 0 || len(started) > 0
		})
		time.Sleep(rand.N(150 * time.Millisecond)) // any moment
		if pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err := <-started; err != nil {
			partless(t, s.ID)
			gone(t, rt, s.ID)
			if err := rt.Start(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
		running(t, rt, s.ID)
	}
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
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	destroy(t, rt, s.ID)
}

// Shim and keeper are killed, in whatever order: the sandbox is dead, and whoever
// comes next removes the rest.
func TestKilledShimAndKeeper(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	for _, order := range [][]string{{"wolffia shim", "wolffia-docker keep"}, {"wolffia-docker keep", "wolffia shim"}} {
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
			if err := syscall.Kill(parts["wolffia shim"], syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Kill(parts["wolffia-docker keep"], syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		until(t, "keeper and PID 1 are gone", func() bool {
			left := partsOf(t, s.ID)
			delete(left, "wolffia shim")
			delete(left, "wolffia tree")
			return len(left) == 0
		})
		if err := syscall.Kill(parts["wolffia shim"], syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		partless(t, s.ID)
		gone(t, rt, s.ID)
		is(t, rt, s.ID, runtime.StateDead)
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	destroy(t, rt, s.ID)
}

// Shims that end again and again are given up: then the sandbox is dead, and
// nothing is left of it.
func TestKilledShims(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	kills := 0
	for was, begun := 0, time.Now(); ; {
		if time.Since(begun) > limit {
			t.Fatalf("%d times, and it has another", kills)
		}
		parts := partsOf(t, s.ID)
		if parts["wolffia-docker keep"] == 0 {
			break
		}
		if pid := parts["wolffia shim"]; pid != 0 && pid != was && syscall.Kill(pid, syscall.SIGKILL) == nil {
			was = pid
			kills++
		}
	}
	if kills < 10 { // more if it was slow: that is not again and again
		t.Errorf("after %d", kills)
	}
	is(t, rt, s.ID, runtime.StateDead)
	partless(t, s.ID)
	gone(t, rt, s.ID)
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	sh(t, rt, s.ID, "cat file")
	destroy(t, rt, s.ID)
}

// If PID 1 does not answer the next shim, the sandbox is dead.
func TestKilledShimOfFrozen(t *testing.T) {
	need(t)
	t.Parallel()
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	dockertest.Docker(t, "pause", "wolffia-"+s.ID)
	kill9(t, s.ID, "wolffia shim")
	dies(t, rt, s.ID)
	partless(t, s.ID)
	gone(t, rt, s.ID)
	destroy(t, rt, s.ID)
}

// A sandbox that is bound to its caller ends with that also if the shim was
// killed before.
func TestKilledShimOfCaller(t *testing.T) {
	need(t)
	rt := fresh(t)
	caller := backend.Reopen(t, rt)
	s := start(t, caller, &runtime.SandboxConfig{BoundToCaller: true})
	kill9(t, s.ID, "wolffia shim")
	sh(t, rt, s.ID, "cat file")
	if err := caller.Close(); err != nil {
		t.Error(err)
	}
	partless(t, s.ID)
	gone(t, rt, s.ID)
	if all, err := rt.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
