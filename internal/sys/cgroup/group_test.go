package cgroup_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/sys/cgroup"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// open makes a group with limits around a sleeping process, by whatever way this
// host has.
func open(t *testing.T, name string, l *cgroup.Limits) (*cgroup.Group, *exec.Cmd) {
	t.Helper()
	testenv.Cgroups(t)
	plan, refused := cgroup.ThisHost().Plan(l.Wants())
	if refused != nil {
		t.Fatal(refused)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	g, err := plan.Open(ctx, name, cmd.Process.Pid)
	if err == nil {
		t.Cleanup(func() {
			if err := g.Remove(wait.Limit); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait()
			gone(t, g)
		})
		err = g.Fill(l, cmd.Process.Pid)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		t.Fatal(err)
	}
	return g, cmd
}

// gone waits until a group, and the scope that it may be in, is not there any more.
func gone(t *testing.T, g *cgroup.Group) {
	t.Helper()
	for _, dir := range g.Dirs {
		if filepath.Base(dir) == cgroup.InScope {
			dir = filepath.Dir(dir)
		}
		wait.Until(t, "the removal of "+dir, func() bool { return !cgroup.Exists(dir) })
	}
}

func name(t *testing.T) string {
	return fmt.Sprintf("wolffia-%s-%d", strings.ToLower(t.Name()), os.Getpid())
}

// The process is in its group, which has the limits; and from outside the same
// group is found by the process.
func TestFill(t *testing.T) {
	testenv.Both(t)
	g, cmd := open(t, name(t), &cgroup.Limits{Memory: 64 << 20, CPUs: 0.25, PIDs: 12})
	want := map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "cpu.max": "25000 100000", "pids.max": "12"}
	if g.Dirs[""] == "" {
		want = map[string]string{
			"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864",
			"cpu.cfs_quota_us": "25000", "cpu.cfs_period_us": "100000", "pids.max": "12",
		}
	}
	for file, value := range want {
		controller, _, _ := strings.Cut(file, ".")
		if got := strings.TrimSpace(cgroup.Read(filepath.Join(g.Dir(controller), file))); got != value {
			t.Errorf("%s is %q, want %q", file, got, value)
		}
	}
	for c, dir := range g.Dirs {
		if c == "" {
			dir += "/inside"
		}
		if got := strings.TrimSpace(cgroup.Read(dir + "/cgroup.procs")); got != strconv.Itoa(cmd.Process.Pid) {
			t.Errorf("in %s there is %q", dir, got)
		}
	}
	of := cgroup.Of(cmd.Process.Pid, name(t))
	if of == nil || fmt.Sprint(of.Dirs) != fmt.Sprint(g.Dirs) {
		t.Errorf("%+v, want %+v", of, g)
	}
	if of := cgroup.Of(os.Getpid(), "wolffia-"); of != nil {
		t.Errorf("the test itself is in %+v", of)
	}
	if n := g.OOMKills(); n != 0 {
		t.Errorf("%d kills", n)
	}
}

// What serves a sandbox is bound by its limits of memory and processors, and is not
// counted among its processes.
func TestFillServer(t *testing.T) {
	testenv.Cgroups(t)
	l := &cgroup.Limits{Memory: 64 << 20, CPUs: 0.5, PIDs: 12}
	plan, refused := cgroup.ThisHost().Plan(l.Wants())
	if refused != nil {
		t.Fatal(refused)
	}
	var pids []int
	for range 2 {
		cmd := exec.CommandContext(t.Context(), "sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Wait() })
		pids = append(pids, cmd.Process.Pid)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	g, err := plan.Open(ctx, name(t), pids[0], pids[1])
	if err == nil {
		defer func() {
			if err := g.Remove(wait.Limit); err != nil {
				t.Error(err)
			}
			gone(t, g)
		}()
		err = g.Fill(l, pids[0], pids[1])
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		of := cgroup.Of(pid, name(t))
		if of == nil {
			t.Fatalf("process %d is in no group of the sandbox", pid)
		}
		server := pid == pids[1]
		for _, c := range []string{cgroup.Memory, cgroup.CPU, cgroup.PIDs} {
			if g.Dirs[""] == "" && (of.Dirs[c] == "") != (server && c == cgroup.PIDs) {
				t.Errorf("%s, server %v: in %v", c, server, of.Dirs)
			}
		}
	}
	if got := strings.TrimSpace(cgroup.Read(g.Dir(cgroup.PIDs) + "/pids.current")); got != "1" {
		t.Errorf("%s processes are counted, want one", got)
	}
}

// What is left in a group ends with it, and only that.
func TestRemove(t *testing.T) {
	testenv.Both(t)
	g, cmd := open(t, name(t), &cgroup.Limits{PIDs: 12})
	other, lives := open(t, name(t)+"x", &cgroup.Limits{PIDs: 12})
	if err := g.Remove(wait.Limit); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended so: %v", err)
	}
	gone(t, g)
	if err := g.Remove(wait.Limit); err != nil {
		t.Errorf("twice: %v", err)
	}
	if err := lives.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another's process: %v", err)
	}
	for _, dir := range other.Dirs {
		if !cgroup.Exists(dir) {
			t.Errorf("another's group %s is gone", dir)
		}
	}
}

// A name that is taken is not taken over.
func TestFillTaken(t *testing.T) {
	testenv.Both(t)
	g, cmd := open(t, name(t), &cgroup.Limits{PIDs: 12})
	again := &cgroup.Group{Dirs: g.Dirs}
	if err := again.Fill(&cgroup.Limits{PIDs: 1000}, cmd.Process.Pid); err == nil {
		t.Error("it was")
	}
	if got := cgroup.Read(filepath.Join(g.Dir(cgroup.PIDs), "pids.max")); got != "12\n" {
		t.Errorf("the limit is %q", got)
	}
}

// The kernel's kills are counted.
func TestOOMKills(t *testing.T) {
	testenv.Tools(t, "python3")
	testenv.Cgroups(t)
	l := &cgroup.Limits{Memory: 32 << 20}
	plan, refused := cgroup.ThisHost().Plan(l.Wants())
	if refused != nil {
		t.Fatal(refused)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read x; python3 -c 'b = bytearray(100 << 20)' </dev/null; echo $?; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	g, err := plan.Open(ctx, name(t), cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Remove(wait.Limit); err != nil {
			t.Error(err)
		}
		gone(t, g)
	}()
	if err := g.Fill(l, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	code, err := bufio.NewReader(out).ReadString('\n')
	if n := g.OOMKills(); n != 1 || code != "137\n" || err != nil {
		t.Errorf("%d kills, want 1; it ended with %q, %v", n, code, err)
	}
}
