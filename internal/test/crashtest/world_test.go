package crashtest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	hostproc "wolffia/internal/sys/proc"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/docker"
	"wolffia/runtime/launch"
	"wolffia/service"
	"wolffia/service/registry"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m.Run()
	testbin.Remove()
}

// The owners: of the sandbox that a round is about, and of the one that it is
// not about.
var (
	theOwner = registry.Owner{OrganizationID: "o", ProjectID: "p", UserID: "subject"}
	another  = registry.Owner{OrganizationID: "o", ProjectID: "p", UserID: "bystander"}
)

// A world is a state directory with a sandbox in it that nobody touches, the
// bystander.
type world struct {
	suite.T
	steps                *steps
	bin                  string
	state, codebase, tmp string
	backend              backend
	bystander            string
}

// A backend is what the rounds run on.
type backend struct {
	name  string
	shims launch.Backend
	flags []string // of all creates but the bystander's
}

func newWorld(t testing.TB, b backend) *world {
	t.Helper()
	return newWorldAt(t, b, "")
}

// newWorldAt is newWorld with a state directory somewhere else.
func newWorldAt(t testing.TB, b backend, state string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{
		T: suite.New(t), steps: newSteps(t), bin: testbin.Crash(t), backend: b,
		state: cmp.Or(state, filepath.Join(dir, "state")), codebase: filepath.Join(dir, "codebase"), tmp: filepath.Join(dir, "tmp"),
	}
	for _, d := range []string{filepath.Dir(dir), dir} { // the user that root drops to must get here
		w.OK(os.Chmod(d, 0o755))
	}
	for _, d := range []string{w.codebase, w.tmp} {
		w.OK(os.Mkdir(d, 0o777))
		w.OK(os.Chmod(d, 0o777))
	}
	rt := w.open()
	s, err := rt.Create(w.Ctx, w.config(another))
	w.OK(err)
	w.OK(rt.Start(w.Ctx, s.ID))
	w.bystander = s.ID
	w.inSession(rt, s.ID, "KEPT=bystander")
	t.Cleanup(func() { w.destroyAll() })
	return w
}

// config is what all sandboxes here are.
func (w *world) config(o registry.Owner) *runtime.SandboxConfig {
	c := &runtime.SandboxConfig{Runtime: w.backend.name, CodebasePath: w.codebase, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}}}
	service.SetOwner(c, o, false)
	return c
}

// open returns a runtime as another process has it: nobody waits at steps of
// what it starts.
func (w *world) open() *local.Runtime {
	w.Helper()
	rt, err := local.New(&local.Options{StateDir: w.state, Binary: filepath.Join(w.bin, "wolffia")}, w.backend.shims)
	w.OK(err)
	w.Cleanup(func() { _ = rt.Close() })
	return rt
}

// destroyAll leaves nothing, and fails if that is not enough.
func (w *world) destroyAll() {
	w.T = suite.New(w.TB)
	rt := w.open()
	all, err := rt.List(w.Ctx)
	w.OK(err)
	for _, s := range all {
		w.OK(rt.Destroy(w.Ctx, s.ID))
	}
	w.bystander = ""
	w.settled(rt)
	if left, err := os.ReadDir(filepath.Join(w.state, "sandboxes")); err != nil || len(left) > 0 {
		w.Errorf("left in the state directory: %v, %v", left, err)
	}
}

// endAll kills all there is, after a failure.
func (w *world) endAll() {
	for {
		all := slices.DeleteFunc(processes(w.TB), w.backend.engines)
		if len(all) == 0 {
			break
		}
		for _, p := range all {
			_ = p.kill()
		}
	}
	if w.backend.name == docker.Name {
		for _, name := range dockertest.Containers(w.TB) {
			dockertest.Docker(w.TB, "rm", "--force", name)
		}
	}
}

// inSession runs a command in a sandbox's shell; it must end with code 0.
func (w *world) inSession(rt *local.Runtime, id, command string) string {
	w.Helper()
	r, err := service.New(rt, nil).Driver().ExecuteBash(w.Ctx, id, &runtime.Command{Command: []string{command}})
	w.OK(err)
	if r.ExitCode != 0 {
		w.Fatalf("%s: exit code %d, %q, %q", command, r.ExitCode, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(string(r.Stdout))
}

// A call is a process that does one operation: a command line, or a service.
type call struct {
	cmd    *exec.Cmd
	proc   proc
	in     *os.File // a service's
	lines  chan string
	output bytes.Buffer
	done   chan struct{} // closed when the operation has ended
	ok     bool          // it has been acknowledged; read after done
	answer string        // read after done
	gone   chan struct{} // closed when the process has
}

func (w *world) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(w.bin, program), args...)
	cmd.Env = []string{"PATH=" + w.bin + ":" + os.Getenv("PATH"), "HOME=" + w.tmp, "TMPDIR=" + w.tmp, "WOLFFIA_STATE_DIR=" + w.state, w.steps.env(), "DOCKER_HOST=" + os.Getenv("DOCKER_HOST")}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// started notes a process that was started.
func (c *call) started() {
	own.Store(c.cmd.Process.Pid, true)
	c.gone = make(chan struct{})
	c.proc.Process, _ = hostproc.Read(c.cmd.Process.Pid) // one that has ended cannot be killed
}

// cli starts a command line.
func (w *world) cli(args ...string) *call {
	w.Helper()
	c := &call{cmd: w.command("wolffia", args...), done: make(chan struct{})}
	var out, errs bytes.Buffer
	c.cmd.Stdout, c.cmd.Stderr = &out, &errs
	w.OK(c.cmd.Start())
	c.started()
	go func() { // ends with the process
		err := c.cmd.Wait()
		own.Delete(c.cmd.Process.Pid)
		c.ok, c.answer = err == nil, strings.TrimSpace(out.String())
		if err != nil {
			c.answer = fmt.Sprintf("%v: %s%s", err, &out, &errs)
		}
		close(c.gone)
		close(c.done)
	}()
	return c
}

// serve starts a service. Its operation is to start.
func (w *world) serve() *call {
	w.Helper()
	c := &call{cmd: w.command("service", w.state, w.codebase), lines: make(chan string)}
	in, err := c.cmd.StdinPipe()
	w.OK(err)
	c.in = in.(*os.File)
	out, err := c.cmd.StdoutPipe()
	w.OK(err)
	c.cmd.Stderr = &c.output
	w.OK(c.cmd.Start())
	c.started()
	go func() { // ends with the process
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
		close(c.lines)
		_ = c.cmd.Wait()
		own.Delete(c.cmd.Process.Pid)
		close(c.gone)
	}()
	return c.listen()
}

// ask has a service do something.
func (c *call) ask(line string) *call {
	_, err := fmt.Fprintln(c.in, line)
	c.done = make(chan struct{})
	if err != nil {
		c.answer = err.Error()
		close(c.done)
		return c
	}
	return c.listen()
}

func (c *call) listen() *call {
	c.done = make(chan struct{})
	go func() { // ends with the answer, or the process
		line, open := <-c.lines
		c.ok, c.answer = false, line
		if c.answer, c.ok = strings.CutPrefix(line, "ok "); !open {
			c.answer = "it has ended: " + line
		}
		close(c.done)
	}()
	return c
}

// end waits until the process has ended; a service is told to.
func (c *call) end(w *world) {
	w.Helper()
	if c.in != nil {
		_ = c.in.Close()
	}
	w.ends("the caller", c.gone)
}

// ends waits for something that must happen.
func (w *world) ends(what string, done <-chan struct{}) {
	w.Helper()
	select {
	case <-done:
	case <-time.After(wait.Limit):
		w.Fatalf("%s: it hangs; there are %v", what, processes(w.TB))
	}
}

// subjects returns the ids of all sandboxes that have a directory but the
// bystander.
func (w *world) subjects() []string {
	w.Helper()
	entries, err := os.ReadDir(filepath.Join(w.state, "sandboxes"))
	w.OK(err)
	var ids []string
	for _, e := range entries {
		if e.Name() != w.bystander {
			ids = append(ids, e.Name())
		}
	}
	return ids
}

// settled waits until each sandbox's processes are those of its state, and there
// are no others. It returns the states.
func (w *world) settled(rt *local.Runtime) map[string]runtime.State {
	w.Helper()
	var states map[string]runtime.State
	wait.For(w, "what does not fit the states of the sandboxes",
		func() (wrong []string) { states, wrong = w.compare(rt); return wrong }, func(wrong []string) bool { return len(wrong) == 0 })
	return states
}

// compare returns the states of the sandboxes, and what does not fit them.
func (w *world) compare(rt *local.Runtime) (states map[string]runtime.State, wrong []string) {
	w.Helper()
	list, err := rt.List(w.Ctx)
	w.OK(err)
	all := processes(w.TB)
	states = map[string]runtime.State{}
	known := map[int]bool{}
	for _, s := range list {
		states[s.ID] = s.State
		there := below(all, s.ID)
		for _, p := range there {
			known[p.PID] = true
		}
		has := parts(all, s.ID)
		switch {
		case s.State.Runs():
			for _, what := range w.backend.parts(s) {
				if _, is := has[what]; !is {
					wrong = append(wrong, fmt.Sprintf("%s runs and has no %s", s.ID, what))
				}
			}
		case len(there) > 0:
			wrong = append(wrong, fmt.Sprintf("%s is %s and has %v", s.ID, s.State, there))
		}
	}
	pooled := w.pooled()
	for id, lives := range pooled {
		if !lives {
			continue
		}
		for _, p := range below(all, id) {
			known[p.PID] = true
		}
	}
	for _, p := range all {
		if _, is := own.Load(p.PID); !known[p.PID] && !is && !w.backend.engines(p) {
			wrong = append(wrong, fmt.Sprintf("process %v", p))
		}
	}
	for _, id := range w.subjects() {
		if _, is := states[id]; !is && !pooled[id] {
			wrong = append(wrong, "directory "+id)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	w.OK(err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, w.state) && !w.mounted(states, line) {
			wrong = append(wrong, "mount "+line)
		}
	}
	return states, wrong
}

// mounted reports whether a mount in the host's namespace may be: engines need one
// for each sandbox. One whose keeper was killed is there until start or rm.
func (w *world) mounted(states map[string]runtime.State, line string) bool {
	return w.backend.name == docker.Name && slices.ContainsFunc(strings.Split(line, "/"), func(name string) bool { return states[name] != none })
}

// engines reports whether a process is the engine's, which the test has started
// too. What it runs for us is looked for by name, in the end.
func (b backend) engines(p proc) bool {
	return b.name == docker.Name && !strings.HasPrefix(filepath.Base(p.args[0]), "wolffia")
}

func (b backend) parts(s *runtime.Sandbox) []string {
	switch b.name {
	case bwrap.Name:
		if s.Root {
			return []string{theShim, theTree, theUsr, theBackend, theGuest}
		}
		return []string{theShim, theTree, theBackend, theGuest}
	case docker.Name:
		return []string{theShim, theTree, theKeeper}
	}
	return []string{theShim, theTree, theBackend}
}

// whole finds out whether a sandbox is one in every respect: it can be run, and
// run in, and is its owner's.
func (w *world) whole(rt *local.Runtime, id string, state runtime.State, o registry.Owner) error {
	if state == runtime.StatePaused {
		w.OK(rt.Resume(w.Ctx, id))
	}
	if !state.Runs() {
		if err := rt.Start(w.Ctx, id); err != nil {
			return err
		}
	}
	r, err := rt.Exec(w.Ctx, id, &runtime.ExecRequest{Command: []string{"sh", "-c", "echo alive; ls -d /workspace"}})
	if err != nil || string(r.Stdout) != "alive\n/workspace\n" {
		return fmt.Errorf("%s says %+v, %w", id, r, err)
	}
	found, err := service.Scan(w.Ctx, rt)
	if err != nil || !slices.ContainsFunc(found, func(m registry.Metadata) bool { return m.SandboxID == id && m.Owner == o }) {
		return fmt.Errorf("%s is not found as %v's: %v, %w", id, o, found, err)
	}
	return nil
}

// nothing checks that only the bystander is left, and that it did not notice.
func (w *world) nothing(rt *local.Runtime) {
	w.Helper()
	states := w.settled(rt)
	if len(states) != 1 || states[w.bystander] != runtime.StateRunning || len(w.subjects()) > 0 {
		w.Fatalf("there is more or less than the bystander: %v, %v", states, w.subjects())
	}
	if got := w.inSession(rt, w.bystander, "echo $KEPT"); got != "bystander" {
		w.Fatalf("the bystander's shell says %q", got)
	}
	if left, err := os.ReadDir(w.tmp); err != nil || len(left) > 0 {
		w.Fatalf("temporary files are left: %v, %v", left, err)
	}
	if w.backend.name == docker.Name {
		if got := dockertest.Containers(w.TB); len(got) != 1 || !strings.Contains(got[0], w.bystander) {
			w.Fatalf("there are the containers %v", got)
		}
	}
	half, err := os.ReadDir(w.state)
	w.OK(err)
	for _, e := range half {
		if !slices.Contains([]string{"lock", "mnt", "sandboxes", "images", "codebases", "history", "pooled", "registry.db", "registry.db.damaged", "registry.lock", "tokens.key"}, e.Name()) {
			w.Fatalf("left in the state directory: %s", e.Name())
		}
	}
}

// openService returns the service that a user would start now.
func (w *world) openService(rt *local.Runtime) *service.Service {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Ctx, wait.Limit)
	defer cancel()
	s, err := service.Open(ctx, rt, w.state, &service.Options{
		Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
			return w.config(theOwner), nil
		},
	})
	if err != nil {
		w.Fatalf("a service does not start: %v", err)
	}
	return s
}

// find returns the owner's sandbox as a service knows it; empty: none.
func (w *world) find(s *service.Service, o registry.Owner) string {
	w.Helper()
	m, err := s.Owned().FindSandbox(w.Ctx, o)
	if errors.Is(err, runtime.ErrNotFound) {
		return ""
	}
	w.OK(err)
	return m.SandboxID
}
