package docker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/sys/proc"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// start makes and starts a sandbox with a codebase, which has a file.
func start(t testing.TB, rt *shimtest.Runtime, c *runtime.SandboxConfig) *runtime.Sandbox {
	t.Helper()
	c.CodebasePath = shimtest.PublicDir(t)
	if err := os.WriteFile(c.CodebasePath+"/file", []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Permissions = []perm.Rule{{Pattern: "**", Level: perm.Write}}
	s, err := rt.Create(t.Context(), c)
	if err == nil {
		err = rt.Start(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sh runs a command that must succeed.
func sh(t testing.TB, rt *shimtest.Runtime, id, script string) string {
	t.Helper()
	r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"sh", "-c", script}})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%s: got r %+v, err %v; want err == nil and r.ExitCode == 0", script, r, err)
	}
	return string(r.Stdout)
}

// destroy destroys a sandbox; then nothing of it is left in the engine or on the
// host.
func destroy(t testing.TB, rt *shimtest.Runtime, id string) {
	t.Helper()
	if err := rt.Destroy(t.Context(), id); err != nil {
		t.Error(err)
	}
	gone(t, id)
}

// gone checks that the engine has no container, and the host no mount, of a sandbox, and
// waits until the last of its processes has ended: each gives up the sandbox's lock first.
func gone(t testing.TB, id string) {
	t.Helper()
	if all := dockertest.Containers(t); strings.Contains(strings.Join(all, " "), id) {
		t.Errorf("containers: %q", all)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), id) {
		t.Errorf("its mount is left (%v)", err)
	}
	for part, pid := range partsOf(t, id) {
		stop := make(chan struct{})
		timer := time.AfterFunc(wait.Limit, func() { close(stop) })
		proc.Await(pid, stop)
		if !timer.Stop() {
			t.Errorf("process %d is left: %s", pid, part)
		}
	}
}

// partsOf are the processes whose last argument is the sandbox's tag, by program.
func partsOf(t testing.TB, id string) map[string]int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]int{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		args := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		if err != nil || !strings.HasPrefix(args[len(args)-1], id+"-") {
			continue // or gone since
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		parts[strings.Join(args[:min(2, len(args)-1)], " ")] = pid
	}
	return parts
}

// killPart kills one of them.
func killPart(t testing.TB, id, part string) {
	t.Helper()
	pid := partsOf(t, id)[part]
	if pid == 0 {
		t.Fatalf("there is no %s: %v", part, partsOf(t, id))
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// partless waits until no process of the sandbox is left.
func partless(t testing.TB, id string) {
	t.Helper()
	wait.Until(t, "its parts are gone", func() bool { return len(partsOf(t, id)) == 0 })
}

// dies waits until the sandbox is dead.
func dies(t testing.TB, rt *shimtest.Runtime, id string) {
	t.Helper()
	wait.Until(t, "it is dead", func() bool {
		got, err := rt.Get(t.Context(), id)
		return err == nil && got.State == runtime.StateDead
	})
}

// is checks what the sandbox is.
func is(t testing.TB, rt *shimtest.Runtime, id string, state runtime.State) {
	t.Helper()
	if got, err := rt.Get(t.Context(), id); err != nil || got.State != state {
		t.Errorf("Get: got %+v, err %v; want err == nil and got.State == %v", got, err, state)
	}
}

// When the keeper is killed, the sandbox is dead; what is left is removed by
// the caller that destroys it, or starts it again.
func TestKilledKeeper(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	for range 2 {
		keeper := partsOf(t, s.ID)["wolffia-oci keep"]
		if keeper == 0 {
			t.Fatalf("there is no keeper: %v", partsOf(t, s.ID))
		}
		if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		partless(t, s.ID)
		if got, err := rt.Get(t.Context(), s.ID); err != nil || got.State != runtime.StateDead || !strings.Contains(got.Reason, "keeper") {
			t.Errorf(`Get: got %+v, err %v; want err == nil and got.State == runtime.StateDead and got.Reason contains "keeper"`, got, err)
		}
		if all := strings.Join(dockertest.Containers(t), " "); !strings.Contains(all, s.ID) {
			t.Error("the test is of no use: no container is left")
		}
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		sh(t, rt, s.ID, "cat file")
	}
	if err := syscall.Kill(partsOf(t, s.ID)["wolffia-oci keep"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	destroy(t, rt, s.ID)
}

// A container that somebody removes, or kills, is a dead sandbox.
func TestKilledContainer(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	for _, how := range [][]string{{"kill"}, {"rm", "--force"}} {
		dockertest.Docker(t, append(how, "wolffia-"+s.ID)...)
		dies(t, rt, s.ID)
		if got, err := rt.Get(t.Context(), s.ID); err != nil || !strings.Contains(got.Reason, "PID 1 was killed") {
			t.Errorf(`Get: got %+v, err %v; want err == nil and got.Reason contains "PID 1 was killed"`, got, err)
		}
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	destroy(t, rt, s.ID)
}

// A container that has the name and not the labels, or another state directory's
// labels, is never touched.
func TestForeignContainer(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	image := strings.TrimSpace(dockertest.Docker(t, "inspect", "--format", "{{.Config.Image}}", "wolffia-"+s.ID))
	if err := rt.Stop(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	gone(t, s.ID)
	for name, label := range map[string]string{"no label": "x=y", "another state directory": "wolffia.sandboxId=" + s.ID} {
		id := strings.TrimSpace(dockertest.Docker(t, "create", "--name", "wolffia-"+s.ID, "--label", label, image, "true"))
		err := rt.Start(t.Context(), s.ID)
		if !errors.Is(err, runtime.ErrConflict) || !strings.Contains(err.Error(), "left alone") {
			t.Errorf(`%s: got err %v; want err is runtime.ErrConflict and err.Error() contains "left alone"`, name, err)
		}
		if got := strings.TrimSpace(dockertest.Docker(t, "inspect", "--format", "{{.Id}} {{.State.Status}}", "wolffia-"+s.ID)); got != id+" created" {
			t.Errorf("%s: it is %q now", name, got)
		}
		if name == "another state directory" {
			if err := rt.Destroy(t.Context(), s.ID); err != nil {
				t.Error(err)
			}
			if got := strings.TrimSpace(dockertest.Docker(t, "inspect", "--format", "{{.Id}}", id)); got != id {
				t.Errorf("%q is left of it", got)
			}
			dockertest.Docker(t, "rm", id)
			break
		}
		dockertest.Docker(t, "rm", id)
	}
	_ = rt.Destroy(t.Context(), s.ID)
}

// Owners are found without the state directory.
func TestLabels(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{Name: "named", Labels: map[string]string{
		"wolffia.organizationId": "o", "wolffia.projectId": "p", "wolffia.userId": "u", "team": "a b",
	}})
	for label, want := range map[string]string{
		"wolffia.sandboxId": s.ID, "wolffia.organizationId": "o", "wolffia.projectId": "p", "wolffia.userId": "u",
		"wolffia.createdAt": strconv.FormatInt(s.CreatedAt.UnixMilli(), 10), "wolffia.name": "named", "wolffia.stateDir": rt.State, "team": "a b",
	} {
		got := strings.TrimSpace(dockertest.Docker(t, "inspect", "--format", `{{index .Config.Labels "`+label+`"}}`, "wolffia-"+s.ID))
		if got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	destroy(t, rt, s.ID)
}

// A state directory that is reached by a link is one like others.
func TestLinkedState(t *testing.T) {
	testenv.Both(t)
	need(t)
	rt := fresh(t)
	link := filepath.Join(shimtest.PublicDir(t), "link")
	if err := os.Symlink(rt.State, link); err != nil {
		t.Fatal(err)
	}
	linked := backend.Open(t, link)
	s := start(t, linked, &runtime.SandboxConfig{})
	if got := sh(t, rt, s.ID, "cat file"); got != "content" {
		t.Errorf(`sh "cat file": got %q, want "content"`, got)
	}
	destroy(t, linked, s.ID)
}

// Without an engine a start fails, and says so.
func TestNoEngine(t *testing.T) {
	need(t)
	rt := fresh(t)
	notEngine := filepath.Join(t.TempDir(), "sock")
	if err := os.WriteFile(notEngine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/nonexistent/docker.sock", notEngine} {
		s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Docker: &runtime.DockerConfig{Host: "unix://" + path}})
		if err != nil {
			t.Fatal(err)
		}
		err = rt.Start(t.Context(), s.ID)
		if !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "no engine answers at unix://"+path) {
			t.Error(err)
		}
		// Nothing can be in an engine that never existed: but no record says so.
		is(t, rt, s.ID, runtime.StateCreated)
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	if s, err := rt.Create(t.Context(), &runtime.SandboxConfig{}); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("Create: got s %+v, err %v; want err is runtime.ErrUnsupported", s, err)
	}
}

// withEngine starts an engine that the test uses, and stops it in the end.
func withEngine(t *testing.T, start func() (*dockertest.Engine, error)) *dockertest.Engine {
	t.Helper()
	engine, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("DOCKER_HOST", "unix://"+engine.Socket)
	return engine
}

// An engine that shows files by other numbers than the host's is refused.
func TestRemappedEngine(t *testing.T) {
	need(t)
	testenv.Root(t)
	withEngine(t, dockertest.StartRemapped)
	rt := fresh(t)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); !errors.Is(err, runtime.ErrUnsupported) || !strings.Contains(err.Error(), "userns-remap") {
		t.Error(err)
	}
	destroy(t, rt, s.ID)
}

// When the engine is killed in the middle of a command, the command ends and the
// sandbox is dead; when the engine is back, the rest is removed.
func TestEngineDies(t *testing.T) {
	need(t)
	testenv.Root(t)
	engine := withEngine(t, dockertest.Start)
	rt := fresh(t)
	kept := start(t, rt, &runtime.SandboxConfig{Image: busybox(t)})
	s := start(t, rt, &runtime.SandboxConfig{})
	p, err := rt.StartProcess(t.Context(), s.ID, &runtime.Command{Command: []string{"sh", "-c", "echo started; sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stdout().Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := engine.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if exit, err := p.Wait(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("Wait: got exit %+v, err %v; want err != nil and ctx.Err() == nil", exit, err)
	}
	_ = p.Close()
	dies(t, rt, s.ID)
	if pid := pid1(t, s.ID); pid != 0 {
		t.Errorf("the sandbox is dead, and its PID 1, process %d, runs on", pid)
	}
	if got, err := rt.Get(t.Context(), s.ID); err != nil || !strings.Contains(got.Reason, "engine") {
		t.Errorf(`Get: got %+v, err %v; want err == nil and got.Reason contains "engine"`, got, err)
	}
	if err := rt.Destroy(t.Context(), s.ID); !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "no engine answers") {
		t.Errorf("destroy without an engine: %v", err)
	}
	if err := engine.Run(); err != nil {
		t.Fatal(err)
	}
	destroy(t, rt, s.ID)
	if err := rt.Start(t.Context(), kept.ID); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, rt, kept.ID, "echo works"); got != "works\n" {
		t.Errorf(`sh "echo works": got %q, want %q`, got, "works\n")
	}
	destroy(t, rt, kept.ID)
}

// A keeper that is told to end ends PID 1 by itself, if the engine hangs.
func TestEngineHangs(t *testing.T) {
	need(t)
	testenv.Root(t)
	engine := withEngine(t, dockertest.Start)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	if err := engine.Hang(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(partsOf(t, s.ID)["wolffia-oci keep"], syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	wait.Until(t, "PID 1 is gone", func() bool { return pid1(t, s.ID) == 0 })
	if err := engine.Resume(); err != nil {
		t.Fatal(err)
	}
	partless(t, s.ID)
	is(t, rt, s.ID, runtime.StateDead)
	destroy(t, rt, s.ID)
}

// pid1 is the sandbox's PID 1, without which nothing inside runs; 0 if it has ended.
func pid1(t testing.TB, id string) int {
	t.Helper()
	for part, pid := range partsOf(t, id) {
		if strings.HasPrefix(part, launch.GuestPath) {
			return pid
		}
	}
	return 0
}
