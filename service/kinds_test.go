package service_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/docker"
	"wolffia/runtime/gvisor"
	"wolffia/runtime/launch"
	"wolffia/service"
)

// A kind is what the tests' sandboxes run on.
type kind struct {
	backend launch.Backend
	needs   []probe.Feature
}

var kinds = map[string]kind{
	"bwrap":  {bwrap.Backend(), []probe.Feature{probe.Bubblewrap}},
	"gvisor": {gvisor.Backend(), []probe.Feature{probe.Runsc}},
	"docker": {docker.Backend(), []probe.Feature{probe.Docker}},
}

// on is the kind of the test that runs; no two run at once.
var on = kinds["bwrap"]

// The driver and the service do the same on everything that sandboxes run on.
func TestOnDocker(t *testing.T) {
	runOn(t, "docker", map[string]func(*testing.T){
		"CreateScanDestroy": TestCreateScanDestroy, "CreateThatFails": TestCreateThatFailsLeavesNothing,
		"ExecuteBash": TestExecuteBash, "Files": TestFiles, "FilesByRule": TestFilesByRule, "Git": TestGit,
		"Ensure": TestEnsureReplacesTheUnhealthy, "Reconcile": TestReconcile,
		"Lost": lost, "KilledService": TestKilledService, "RestartKeepsSessions": TestRestartKeepsSessions,
	})
}

func TestOnGvisor(t *testing.T) {
	runOn(t, "gvisor", map[string]func(*testing.T){
		"CreateScanDestroy": TestCreateScanDestroy, "ExecuteBash": TestExecuteBash, "Git": TestGit,
		"Files": TestFiles, "FilesByRule": TestFilesByRule,
		"RestartKeepsSessions": TestRestartKeepsSessions, "DueWhilePaused": dueWhilePaused,
	})
}

// deaf is a runtime whose service cannot signal jobs, as while their sandbox is paused.
type deaf struct{ service.Runtime }

func (deaf) SignalJob(context.Context, runtime.SessionID, string, syscall.Signal) error {
	return runtime.ErrConflict
}

// A background command whose time is over while its sandbox is paused ends when that is resumed,
// also by another service.
func dueWhilePaused(t *testing.T) {
	w := newWorld(t)
	first := w.driverOver(deaf{w.rt}).Service
	b, _, err := first.Create(w.Ctx, &service.Params{})
	w.OK(err)
	all := service.Caller{All: true}
	in, err := first.Inside(w.Ctx, all, b.ID)
	w.OK(err)
	id, err := in.Background(w.Ctx, &runtime.Command{Command: []string{"sleep 1000"}, Timeout: time.Millisecond})
	w.OK(err)
	w.OK(in.Pause(w.Ctx))
	_, err = w.driver().Service.Thaw(w.Ctx, all, b.ID)
	w.OK(err)
	wait.Until(t, "its end", func() bool {
		now, _, err := in.Status(w.Ctx, id)
		return err == nil && !now.EndedAt.IsZero()
	})
	w.OK(first.Destroy(w.Ctx, all, b.ID))
}

// The service says what an engine has of a sandbox that the state directory lost,
// and does not take it for its owner's.
func lost(t *testing.T) {
	w := newWorld(t)
	d := newDriver(w.rt, nil)
	s, _ := w.service(d)
	m, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	w.OK(s.Close())
	dir := filepath.Join(w.state, "sandboxes", m.SandboxID)
	text, err := os.ReadFile(filepath.Join(dir, "shim.json"))
	w.OK(err)
	var shim struct{ PID int }
	w.OK(json.Unmarshal(text, &shim))
	t.Cleanup(func() { _ = syscall.Kill(shim.PID, syscall.SIGKILL) })
	shimtest.Stop(t, shim.PID) // or the sandbox would end with its directory
	w.OK(os.RemoveAll(dir))
	s, log := w.service(d)
	for _, line := range []string{"removed a stale entry: its sandbox is gone\" sandboxId=" + m.SandboxID, "lost a sandbox", "sandboxId=" + m.SandboxID + " organizationId=acme"} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("the log does not say once: %s\n%s", line, log)
		}
	}
	_, err = s.Owned().FindSandbox(w.Ctx, zoe)
	w.Wrong("what was lost", err, runtime.ErrNotFound)
	again, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	if again.SandboxID == m.SandboxID {
		t.Error("it is the same one")
	}
	w.OK(d.DestroySandbox(w.Ctx, m.SandboxID))
	if left, err := service.Lost(w.Ctx, w.rt); err != nil || len(left) > 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}

func runOn(t *testing.T, kind string, tests map[string]func(*testing.T)) {
	defer func() { on = kinds["bwrap"] }()
	on = kinds[kind]
	for name, test := range tests {
		t.Run(name, test)
	}
}
