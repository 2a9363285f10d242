package kubernetes_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/host/statedir"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

// outage is for how long a component of the cluster that was killed stays away.
const outage = 2 * time.Second

// kill kills a component of a cluster of scripts/kube, which comes back after a while.
func kill(t testing.TB, component string) {
	t.Helper()
	dir := files(t)
	away := filepath.Join(dir, component+".down")
	err := os.WriteFile(away, nil, 0o644)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "kill"), []byte(component+"\n"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(outage)
	if err := os.Remove(away); err != nil {
		t.Fatal(err)
	}
}

// A world is a sandbox with all that can run in it.
type world struct {
	*testing.T
	rt     *shimtest.Runtime
	id     string
	broken map[string]runtime.Process // what ends with the connection
}

// populate starts everything in a new sandbox.
func populate(t *testing.T) *world {
	w := &world{T: t, rt: fresh(t), broken: map[string]runtime.Process{}}
	w.id = start(t, w.rt, &runtime.SandboxConfig{})
	s, err := w.rt.CreateSession(t.Context(), w.id, &runtime.SessionConfig{Name: "s"})
	if err != nil {
		t.Fatal(err)
	}
	w.session("X=kept; cd /tmp; echo file > f")
	if _, err = w.rt.StartJob(t.Context(), s.ID, "j", &runtime.Command{Command: []string{"while sleep 0.1; do :; done"}}); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]*runtime.Command{
		"command": {Command: []string{"sh", "-c", "echo up; sleep 1000"}},
		"output":  {Command: []string{"yes", "up"}},
		"input":   {Command: []string{"sh", "-c", "echo up; exec cat >/dev/null"}, OpenStdin: true},
		"session": {Command: []string{"echo up; sleep 1000"}, Session: "busy"},
		"kept":    {Command: []string{"sh", "-c", "echo up; sleep 1000"}, Keep: "label"},
	} {
		if c.Session != "" {
			if _, err := w.rt.CreateSession(t.Context(), w.id, &runtime.SessionConfig{Name: c.Session}); err != nil {
				t.Fatal(err)
			}
		}
		p, err := w.rt.StartProcess(t.Context(), w.id, c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(p.Stdout(), make([]byte, 3)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		w.broken[what] = p
		if what == "input" {
			go func() { _, _ = io.Copy(p.Stdin(), zeros{}) }() // ends with the process
		}
		if what == "output" {
			go func() { _, _ = io.Copy(io.Discard, p.Stdout()) }() // ends with the process
		}
	}
	return w
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// session runs a line in the session of the world.
func (w *world) session(line string) string {
	w.Helper()
	r, err := w.rt.Exec(w.Context(), w.id, &runtime.ExecRequest{Command: []string{line}, Session: "s"})
	if err != nil || r.ExitCode != 0 {
		w.Fatalf("%s: %+v, %v", line, r, err)
	}
	return string(r.Stdout)
}

// fails expects that all that ran over the connection has an error, with the words of want.
func (w *world) fails(want string) {
	w.Helper()
	for what, p := range w.broken {
		ctx, cancel := context.WithTimeout(w.Context(), wait.Limit)
		r, err := p.Wait(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			w.Errorf("%s: %+v, %v", what, r, err)
		}
	}
}

// goesOn expects all that is to outlive a connection, and nothing else.
func (w *world) goesOn() {
	w.Helper()
	if got := w.session("echo $X $PWD $(cat f)"); got != "kept /tmp file\n" {
		w.Errorf("the session has %q", got)
	}
	if jobs, err := w.rt.SessionJobs(w.Context(), runtime.SessionIn(w.id, "s")); err != nil || len(jobs) != 1 || jobs[0].State != "running" {
		w.Errorf("jobs: %+v, %v", jobs, err)
	}
	if all, err := runtime.Kept(w.Context(), w.rt, w.id); err != nil || len(all) != 1 || all[0].Keep != "label" {
		w.Errorf("kept: %+v, %v", all, err)
	}
	if left := sh(w, w.rt, w.id, "pgrep yes; pgrep cat; true"); left != "" {
		w.Errorf("left: %q", left)
	}
	r, err := w.rt.Exec(w.Context(), w.id, &runtime.ExecRequest{Command: []string{"echo back"}, Session: "busy"})
	if err != nil || string(r.Stdout) != "back\n" {
		w.Errorf("the busy session: %+v, %v", r, err)
	}
}

// A component of the cluster that is killed, and comes back, costs what runs over the connection, with
// an error that says so, and nothing else. A command that comes meanwhile waits.
func TestClusterCrashes(t *testing.T) {
	need(t)
	testenv.Root(t)
	files(t)
	for _, component := range []string{"api", "kubelet", "containerd"} {
		t.Run(component, func(t *testing.T) {
			w := populate(t)
			kill(t, component)
			began := time.Now()
			sh(t, w.rt, w.id, "echo meanwhile")
			t.Logf("a command is run %v later", time.Since(began))
			w.fails("the connection to PID 1 broke, and what ran over it was ended")
			w.goesOn()
			destroy(t, w.rt, w.id)
		})
	}
}

// A pod that somebody else deletes is not mistaken for the one that the cluster makes in its place.
func TestDeletedPod(t *testing.T) {
	need(t)
	testenv.Root(t)
	w := populate(t)
	api(t, http.MethodDelete, "/api/v1/namespaces/default/pods/wolffia-"+w.id+"?gracePeriodSeconds=0", "")
	dies(t, w.rt, w.id)
	w.fails("")
	if s, err := w.rt.Get(t.Context(), w.id); err != nil || !strings.Contains(s.Reason, "was deleted") {
		t.Errorf("%+v, %v", s, err)
	}
	if err := w.rt.Start(t.Context(), w.id); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, w.rt, w.id, "ls /tmp; pgrep sleep; true"); got != "" {
		t.Errorf("the pod before: %q", got)
	}
	destroy(t, w.rt, w.id)
}

// When the keeper is killed the sandbox is dead. A start attaches to the pod, which runs on.
func TestKilledKeeper(t *testing.T) {
	need(t)
	testenv.Root(t)
	w := populate(t)
	dir, err := statedir.Open(w.rt.State)
	if err != nil {
		t.Fatal(err)
	}
	for what, kill := range map[string]func(statedir.Processes) error{
		"keeper":          func(ps statedir.Processes) error { return ps.KillKeeper(wait.Limit) },
		"keeper and shim": func(statedir.Processes) error { shimtest.Kill(t, w.rt.State, w.id); return nil },
	} {
		if err := kill(dir.Record(w.id).Processes()); err != nil {
			t.Fatal(err)
		}
		dies(t, w.rt, w.id)
		w.fails("")
		w.broken = nil
		if err := w.rt.Start(t.Context(), w.id); err != nil {
			t.Fatalf("start after the end of %s: %v", what, err)
		}
		w.goesOn()
	}
	destroy(t, w.rt, w.id)
}

// When the shim is killed its keeper ends the pod: a start brings another.
func TestKilledShim(t *testing.T) {
	need(t)
	testenv.Root(t)
	w := populate(t)
	dir, err := statedir.Open(w.rt.State)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(dir.Record(w.id).Processes().Shim().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	dies(t, w.rt, w.id)
	w.fails("is dead: its shim was killed")
	if err := w.rt.Start(t.Context(), w.id); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, w.rt, w.id, "ls /tmp; pgrep sleep; true"); got != "" {
		t.Errorf("the pod before: %q", got)
	}
	destroy(t, w.rt, w.id)
}

// A killed client takes its command along, and nothing else.
func TestKilledCommand(t *testing.T) {
	need(t)
	testenv.Root(t)
	w := populate(t)
	cmd := exec.Command(filepath.Join(testbin.Dir(t), "wolffia"), "--state-dir", w.rt.State, "exec", w.id, "--", "sh", "-c", "echo up; exec sleep 4321")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	_, _ = cmd.Process.Kill(), cmd.Wait()
	wait.Equal(t, "the command of the client", "", func() string { return sh(t, w.rt, w.id, "pgrep -f 'sleep 432[1]'; true") })
	if got := w.session("echo $X"); got != "kept\n" {
		t.Errorf("the session has %q", got)
	}
	for _, p := range w.broken {
		_ = p.Close()
	}
	destroy(t, w.rt, w.id)
}
