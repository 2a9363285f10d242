package shimtest

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/perm"
	"wolffia/runtime"
)

// Limits tests what the host sees of a sandbox's limits. ownKernel is
// [shim.Backend]'s.
func Limits(t *testing.T, backend Backend, ownKernel bool) {
	for name, test := range map[string]func(*testing.T, Backend, bool){
		"Told": limitsTold, "Throttled": throttled, "ShimKilled": shimKilled, "SameID": sameID, "CallerGone": callerGone, "Refused": limitsRefused,
		"TreeServer": treeServerLimited,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, backend, ownKernel)
		})
	}
}

func all() runtime.Resources { return runtime.Resources{Memory: 256 << 20, CPUs: 0.5, PIDs: 30} }

// limits asks what keeps the limits of a sandbox.
func limits(t *testing.T, rt *Runtime, id string) runtime.LimitsState {
	t.Helper()
	d, err := rt.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if d.Limits == nil {
		t.Fatal("inspect says nothing of limits")
	}
	if d.Limits.Memory == runtime.ByCgroup && d.Limits.MemoryUsed == 0 || d.Limits.CPUTime < 0 {
		t.Errorf("inspect: %+v uses no memory, or less than no time", *d.Limits)
	}
	l := *d.Limits
	l.MemoryUsed, l.CPUTime = 0, 0
	return l
}

// Everybody can see what keeps limits, and that memory was not enough.
func limitsTold(t *testing.T, backend Backend, ownKernel bool) {
	testenv.Cgroups(t)
	rt := backend.Fresh(t)
	s := on(t, rt, &runtime.SandboxConfig{Resources: all()})
	want := runtime.LimitsState{Memory: runtime.ByCgroup, CPUs: runtime.ByCgroup, PIDs: runtime.ByCgroup}
	if ownKernel {
		want.PIDs = runtime.ByRlimit
	}
	other := backend.Reopen(t, rt)
	if got := limits(t, other, s.ID); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	r, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"false"}})
	if err != nil || r.OutOfMemory {
		t.Errorf("Exec: got r %+v, err %v; want err == nil and not r.OutOfMemory", r, err)
	}
	if ownKernel {
		return // it is dead then, and says why
	}
	r, err = rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"python3", "-c", "b = bytearray(500 << 20)"}})
	if err != nil || !r.OutOfMemory || r.Signal != 9 {
		t.Errorf("Exec: got r %+v, err %v; want err == nil and r.OutOfMemory and r.Signal == 9", r, err)
	}
	if want.OOMKills = 1; limits(t, other, s.ID) != want {
		t.Errorf("%+v, want %+v", limits(t, other, s.ID), want)
	}
	if _, err := rt.CreateSession(t.Context(), s.ID, &runtime.SessionConfig{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	r, err = rt.SessionExec(t.Context(), runtime.SessionIn(s.ID, "x"), &runtime.SessionExecRequest{Command: []string{"A=kept; python3 -c 'b = bytearray(500 << 20)'"}})
	if err != nil || !r.OutOfMemory || r.ExitCode != 137 {
		t.Errorf("in a session: %+v, %v", r, err)
	}
	r, err = rt.SessionExec(t.Context(), runtime.SessionIn(s.ID, "x"), &runtime.SessionExecRequest{Command: []string{"echo $A; false"}})
	if err != nil || r.OutOfMemory || string(r.Stdout) != "kept\n" {
		t.Errorf("the session afterwards: %+v, %v", r, err)
	}
}

// The server of the filtered tree is within the limits of memory and processors of the
// sandbox that it serves, and is not one of its processes. What would make it grow most
// by the least work inside does not.
func treeServerLimited(t *testing.T, backend Backend, _ bool) {
	testenv.Cgroups(t)
	rt := backend.Fresh(t)
	s := on(t, rt, &runtime.SandboxConfig{CodebasePath: PublicDir(t), Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}}, Resources: runtime.Resources{Memory: 256 << 20, CPUs: 1, PIDs: 30}})
	pid := treeOf(t, s.ID)
	groups, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		within := strings.Contains(f[2], "wolffia-"+s.ID+"-")
		switch f[1] {
		case "memory", "cpu":
			if !within {
				t.Errorf("the tree server is not in the group of %s: %s", f[1], f[2])
			}
		case "pids":
			if within {
				t.Errorf("the tree server is counted among the processes: %s", f[2])
			}
		case "":
			if !within && !strings.Contains(string(groups), ":memory:") {
				t.Errorf("the tree server is not in the group: %s", f[2])
			}
		}
	}
	const deep = `
import os
fd = os.open("/workspace", os.O_RDONLY)
for i in range(1000):
    os.mkdir("d" * 250, dir_fd=fd)
    below = os.open("d" * 250, os.O_RDONLY, dir_fd=fd)
    os.close(fd)
    fd = below
files = []
for i in range(800):
    files.append(os.open(str(i), os.O_RDWR | os.O_CREAT, dir_fd=fd))
    os.unlink(str(i), dir_fd=fd)
print(len(files))
`
	r, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"python3", "-c", deep}})
	if err != nil || string(r.Stdout) != "800\n" {
		t.Fatalf("Exec: got err %v, r.Stdout %s, r.Stderr %s; want err == nil and r.Stdout == %q", err, r.Stdout, r.Stderr, "800\n")
	}
	status, _ := os.ReadFile(filepath.Join("/proc", pid, "status"))
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			const most = 96 << 10 // KB; the paths of the files have 200 MB
			kb, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			if err != nil || kb > most {
				t.Errorf("the tree server has used %s of memory", strings.TrimSpace(text))
			}
		}
	}
	if err := rt.Stop(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
}

// treeOf returns the number of the process that serves the codebase of a sandbox.
func treeOf(t *testing.T, id string) string {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, _ := os.ReadFile(file); strings.HasPrefix(string(line), "wolffia\x00tree\x00"+id+"-") {
			return filepath.Base(filepath.Dir(file))
		}
	}
	t.Fatalf("sandbox %s has no tree server", id)
	return ""
}

// The kernel holds up what would take more than its share of the processors.
func throttled(t *testing.T, backend Backend, _ bool) {
	testenv.Cgroups(t)
	rt := backend.Fresh(t)
	s := on(t, rt, &runtime.SandboxConfig{Resources: runtime.Resources{CPUs: 0.1}})
	count := func() (n int64) {
		for _, dir := range groups(t, rt.State, true) {
			for _, file := range []string{"cpu.stat", "sandbox/cpu.stat"} { // the latter in a scope
				stat, _ := os.ReadFile(filepath.Join(dir, file))
				for line := range strings.Lines(string(stat)) {
					if text, ok := strings.CutPrefix(line, "nr_throttled "); ok {
						k, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
						n = max(n, k)
					}
				}
			}
		}
		return n
	}
	before := count()
	// Where the machine is busy, even a small share may take a while to use up.
	for end := time.Now().Add(wait.Limit); count() < before+3; {
		if time.Now().After(end) {
			t.Fatalf("it was held up %d times", count()-before)
		}
		r, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"}})
		if err != nil || r.ExitCode != 0 {
			t.Fatalf("Exec: got r %+v, err %v; want err == nil and r.ExitCode == 0", r, err)
		}
	}
}

// What a sandbox whose shim was killed has left goes with it, or when it starts.
func shimKilled(t *testing.T, backend Backend, _ bool) {
	testenv.Cgroups(t)
	rt := backend.Fresh(t)
	s := on(t, rt, &runtime.SandboxConfig{Resources: all()})
	for range 2 {
		Crash(t, rt, s.ID)
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	if len(groups(t, rt.State, true)) == 0 {
		t.Error("there is no group for the test to be about")
	}
	Crash(t, rt, s.ID) // Fresh looks for what is left then
}

// A sandbox's end touches no other's group, though that has the same id, in
// another state directory.
func sameID(t *testing.T, backend Backend, _ bool) {
	testenv.Cgroups(t)
	one, two := backend.Fresh(t), backend.Fresh(t)
	id := runtime.NewID()
	for _, rt := range []*Runtime{one, two} {
		on(t, rt, &runtime.SandboxConfig{ID: id, Resources: all()})
	}
	if err := one.Destroy(t.Context(), id); err != nil {
		t.Error(err)
	}
	if left := groups(t, one.State, false); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	says(t, two, id, "echo alive", "alive\n")
}

// What is bound to a caller that ends leaves nothing, at the next look.
func callerGone(t *testing.T, backend Backend, _ bool) {
	testenv.Cgroups(t)
	rt := backend.Fresh(t)
	caller := backend.Reopen(t, rt)
	on(t, caller, &runtime.SandboxConfig{Resources: all(), BoundToCaller: true})
	if err := caller.Close(); err != nil { // as the kernel does for one that was killed
		t.Fatal(err)
	}
	for ctx, cancel := context.WithTimeout(t.Context(), wait.Limit); ; {
		list, err := rt.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			cancel()
			return // and Fresh looks for groups
		}
	}
}

// Where limits cannot be kept exactly, there is an error, and nothing is left; or
// the best effort that was asked for, of which it is said what it is.
func limitsRefused(t *testing.T, backend Backend, ownKernel bool) {
	testenv.Unprivileged(t)
	if r := probe.Check(t.Context(), probe.Cgroups); r.OK {
		t.Skipf("this host can: %s", r.Found)
	}
	rt := backend.Fresh(t)
	for name, r := range map[string]runtime.Resources{"memory": {Memory: 64 << 20}, "processors": {CPUs: 1}, "processes": {PIDs: 10}} {
		_, err := rt.Create(t.Context(), &runtime.SandboxConfig{Resources: r})
		if ownKernel && r.PIDs > 0 {
			if err != nil {
				t.Errorf("its own kernel counts processes: %v", err)
			}
			continue
		}
		if runtime.Class(err) != runtime.ErrUnsupported || !strings.Contains(err.Error(), name+" cannot be limited exactly here") ||
			!strings.Contains(err.Error(), "wolffia doctor") {
			t.Errorf(`Create: got name %s, err %v; want runtime.Class(err) == runtime.ErrUnsupported and err.Error() contains %q and err.Error() contains "wolffia doctor"`,
				name, err, name+" cannot be limited exactly here")
		}
	}
	list, err := rt.List(t.Context())
	if err != nil || len(list) > 1 || len(list) == 1 && !ownKernel {
		t.Errorf("List: got list %v, err %v; want err == nil and len(list) <= 1 and (len(list) != 1 or ownKernel)", list, err)
	}
	for _, s := range list {
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
	}
	r := all()
	r.BestEffort = true
	s := on(t, rt, &runtime.SandboxConfig{Resources: r})
	want := runtime.LimitsState{Memory: runtime.ByRlimit, CPUs: runtime.ByNothing, PIDs: runtime.ByRlimit}
	if ownKernel {
		want.Memory = runtime.ByNothing
	}
	if got := limits(t, rt, s.ID); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if ownKernel {
		return
	}
	says(t, rt, s.ID, "ulimit -d; ulimit -d unlimited 2>/dev/null || echo bound; python3 -c 'b = bytearray(400 << 20)' 2>&1 | tail -n 1", "262144\nbound\nMemoryError\n")
}
