package service_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/leak"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	if state := os.Getenv(crashState); state != "" {
		serveUntilKilled(state)
	}
	code := dockertest.Main(m)
	testbin.Remove()
	os.Exit(code)
}

// A world is a state directory and a codebase, with all that a test makes there.
type world struct {
	suite.T
	state, codebase string
	rt              *local.Runtime
	rules           []perm.Rule
	network         runtime.Network
}

func newWorld(t testing.TB) *world {
	t.Helper()
	testenv.Need(t, append([]probe.Feature{probe.UserNamespaces, probe.Fuse}, on.needs...)...)
	if on.backend.Place == launch.InEngine && os.Geteuid() != 0 {
		testenv.Need(t, probe.Fusermount)
	}
	leak.Check(t)
	dir := t.TempDir()
	w := &world{
		T: suite.New(t), state: filepath.Join(dir, "state"), codebase: filepath.Join(dir, "codebase"),
		rules: []perm.Rule{{Pattern: "**", Level: perm.Write}, {Pattern: "secret", Level: perm.None, Priority: 10}},
	}
	for _, d := range []string{filepath.Dir(dir), dir} { // the user that root drops to must get here
		w.OK(os.Chmod(d, 0o755))
	}
	w.OK(os.Mkdir(w.codebase, 0o777))
	w.OK(os.Chmod(w.codebase, 0o777))
	w.rt = w.open()
	t.Cleanup(func() {
		shimtest.DestroyAll(t, w.open())
		if on.backend.Place == launch.InEngine {
			if left := dockertest.Docker(t, "ps", "--all", "--quiet", "--filter", "label=wolffia.stateDir="+w.state); left != "" {
				t.Errorf("containers are left: %s", left)
			}
		}
	})
	return w
}

// open returns a runtime as another process has it.
func (w *world) open() *local.Runtime {
	w.Helper()
	rt, err := local.New(&local.Options{StateDir: w.state, Binary: filepath.Join(testbin.Dir(w.TB), "wolffia")}, on.backend)
	w.OK(err)
	w.Cleanup(func() { _ = rt.Close() })
	return rt
}

// A driver is a [service.SandboxDriver], and what a service over the same runtime is opened with.
type driver struct {
	service.SandboxDriver
	unchecked
	rt   service.Runtime
	opts service.Options
}

// unchecked has methods of a service that SandboxDriver has too, in another form.
type unchecked struct{ *service.Service }

func newDriver(rt service.Runtime, opts *service.Options) driver {
	if opts == nil {
		opts = &service.Options{}
	}
	s := service.New(rt, opts)
	return driver{s.Driver(), unchecked{s}, rt, *opts}
}

func (w *world) driver() driver { return w.driverOver(w.rt) }

// driverOver is driver over another runtime.
func (w *world) driverOver(rt service.Runtime) driver {
	return newDriver(rt, &service.Options{
		Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
			return &runtime.SandboxConfig{CodebasePath: w.codebase, Permissions: w.rules, Network: w.network}, nil
		},
	})
}

// box makes a sandbox with a driver.
func (w *world) box(d service.SandboxDriver, git *service.GitConfig) string {
	w.Helper()
	s, err := d.CreateSandbox(w.Ctx, &service.Params{SandboxID: runtime.NewID(), Owner: zoe, GitConfig: git})
	w.OK(err)
	return s.SandboxID
}

func (w *world) file(name string) string { return filepath.Join(w.codebase, name) }

// put makes a file of the codebase, which the sandbox may change.
func (w *world) put(name, content string, mode os.FileMode) {
	w.Helper()
	w.OK(os.WriteFile(w.file(name), []byte(content), mode))
	w.OK(os.Chmod(w.file(name), mode))
	if os.Geteuid() == 0 {
		st, err := os.Stat(w.codebase)
		w.OK(err)
		w.OK(os.Chown(w.file(name), int(st.Sys().(*syscall.Stat_t).Uid), -1))
	}
}

func (w *world) holds(name, want string) {
	w.Helper()
	if got, err := os.ReadFile(w.file(name)); err != nil || string(got) != want {
		w.Errorf("%s holds %.200q (%v), want %.200q", name, got, err, want)
	}
}

// run evaluates a command in a sandbox's shell; it must end with code 0.
func (w *world) run(d service.SandboxDriver, id, command string) string {
	w.Helper()
	r, err := d.ExecuteBash(w.Ctx, id, &runtime.Command{Command: []string{command}})
	w.OK(err)
	if r.ExitCode != 0 {
		w.Fatalf("%s: exit code %d, stdout %q, stderr %q", command, r.ExitCode, r.Stdout, r.Stderr)
	}
	return string(r.Stdout)
}
