package docker_test

import (
	"os"
	"syscall"
	"testing"

	"wolffia/internal/probe"
	"wolffia/internal/test/attack/attacktest"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/runtime/docker"
	"wolffia/runtime/runtimetest"
	"wolffia/session/sessiontest"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077) // nothing must depend on a friendlier one
	code := dockertest.Main(m)
	testbin.Remove()
	os.Exit(code)
}

// backend is what the runtimes of the tests are made with.
var backend = shimtest.Of(docker.Backend())

// need skips the test, or fails it, where sandboxes cannot work.
func need(t testing.TB) {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Docker)
	if os.Geteuid() != 0 {
		testenv.Need(t, probe.Fusermount)
	}
}

// fresh is a runtime over an empty state directory, which must be empty in the
// end, as must be the engine.
func fresh(t testing.TB) *shimtest.Runtime {
	t.Helper()
	rt := backend.Fresh(t)
	t.Cleanup(func() {
		if left := dockertest.Docker(t, "ps", "--all", "--quiet", "--filter", "label=wolffia.stateDir="+rt.State); left != "" {
			t.Errorf("containers are left: %s", left)
		}
	})
	return rt
}

func config() runtimetest.Config {
	return runtimetest.Config{
		New: func(t testing.TB) runtime.RuntimeWithExecutor { return fresh(t) },
		Reopen: func(t testing.TB, rt runtime.RuntimeWithExecutor) runtime.RuntimeWithExecutor {
			return backend.Reopen(t, rt)
		},
		Crash: shimtest.Crash,
		// An engine has one user namespace for all, its own, unless it is told
		// otherwise; then the numbers of files' owners differ from the host's.
		Lacks: []runtimetest.Feature{runtimetest.UserNamespace},
	}
}

func TestRuntime(t *testing.T) {
	testenv.Both(t)
	need(t)
	runtimetest.Run(t, config())
}

// Whose engine it is makes no difference to a session: once is enough.
func TestSessions(t *testing.T) {
	testenv.Root(t)
	need(t)
	sessiontest.Run(t, sessiontest.Config{
		Sample: true,
		New:    func(t testing.TB) runtime.RuntimeWithExecutor { return fresh(t) },
		Reopen: func(t testing.TB, rt runtime.RuntimeWithSession) runtime.RuntimeWithSession {
			return backend.Reopen(t, rt)
		},
	})
}

func TestTable(t *testing.T) {
	runtimetest.CheckTable(t, "../../docs/backends.md", docker.Name, config().Lacks)
}

func TestAttackMatrix(t *testing.T) {
	testenv.Both(t)
	need(t)
	attacktest.Run(t, &attacktest.Config{Backend: docker.Name, New: fresh, Sample: true})
}
