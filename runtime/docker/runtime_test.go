package docker_test

import (
	"os"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/attack/attacktest"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/runtime/docker"
	"wolffia/runtime/runtimetest"
	"wolffia/session/sessiontest"
)

func TestMain(m *testing.M) { shimtest.Main(func() int { return dockertest.Main(m) }) }

// backend makes the runtimes of the tests.
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

// lacks: an engine has one user namespace for all containers, the host's, unless it is
// configured otherwise. Then the owners of files differ from the host's.
var lacks = []runtimetest.Feature{runtimetest.UserNamespace}

func TestRuntime(t *testing.T) {
	testenv.Both(t)
	need(t)
	c := backend.Config(fresh, lacks...)
	c.Sample = true
	runtimetest.Run(t, c)
}

// Whose engine it is makes no difference to a session: once is enough.
func TestSessions(t *testing.T) {
	testenv.Root(t)
	need(t)
	c := backend.Sessions(fresh)
	c.Sample = true
	sessiontest.Run(t, c)
}

func TestTable(t *testing.T) {
	runtimetest.CheckTable(t, "../../docs/backends.md", docker.Name, lacks)
}

func TestDescriptorsInFlight(t *testing.T) {
	need(t)
	shimtest.InFlight(t, fresh(t))
}

func TestTwice(t *testing.T) {
	need(t)
	shimtest.Twice(t, backend, true)
}

func TestAttackMatrix(t *testing.T) {
	testenv.Both(t)
	need(t)
	attacktest.Run(t, &attacktest.Config{Backend: docker.Name, New: fresh, Sample: true})
}

func TestReview(t *testing.T) {
	testenv.Both(t)
	need(t)
	shimtest.Review(t, fresh(t))
}
