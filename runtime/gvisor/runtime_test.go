package gvisor_test

import (
	"os"
	"syscall"
	"testing"

	"wolffia/internal/probe"
	"wolffia/internal/test/attack/attacktest"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/runtime/gvisor"
	"wolffia/runtime/runtimetest"
	"wolffia/session/sessiontest"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077) // nothing must depend on a friendlier one
	code := m.Run()
	testbin.Remove()
	os.Exit(code)
}

// backend is what the runtimes of the tests are made with.
var backend = shimtest.Of(gvisor.Backend())

// need skips the test, or fails it, where sandboxes cannot work.
func need(t testing.TB) {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
}

func config() runtimetest.Config {
	return runtimetest.Config{
		New: func(t testing.TB) runtime.RuntimeWithExecutor { return backend.Fresh(t) },
		Reopen: func(t testing.TB, rt runtime.RuntimeWithExecutor) runtime.RuntimeWithExecutor {
			return backend.Reopen(t, rt)
		},
		Crash: shimtest.Crash,
		Lacks: []runtimetest.Feature{
			// The point of it.
			runtimetest.HostKernel,
			// What takes too much is gVisor's kernel itself.
			runtimetest.OutOfMemory,
			// It makes a FIFO in memory where the host refuses one.
			runtimetest.RefusedFifos,
		},
	}
}

// here is config for this host.
func here() runtimetest.Config {
	c := config()
	c.Lacks = append(c.Lacks, shimtest.LacksHere()...)
	return c
}

func TestTable(t *testing.T) {
	runtimetest.CheckTable(t, "../../docs/backends.md", gvisor.Name, config().Lacks)
}

func TestRuntime(t *testing.T) {
	testenv.Both(t)
	need(t)
	runtimetest.Run(t, here())
}

func TestImages(t *testing.T) {
	testenv.Both(t)
	need(t)
	shimtest.Images(t, backend, "/proc/1/root") // of which the gofer has a /proc
}

// A session does not know who started its sandbox: so once is enough.
func TestSessions(t *testing.T) {
	testenv.Unprivileged(t)
	need(t)
	sessiontest.Run(t, sessiontest.Config{
		New: func(t testing.TB) runtime.RuntimeWithExecutor { return backend.Fresh(t) },
		Reopen: func(t testing.TB, rt runtime.RuntimeWithSession) runtime.RuntimeWithSession {
			return backend.Reopen(t, rt)
		},
		Sample: true,
		Lacks: []sessiontest.Feature{
			// gVisor lets a background program read from its terminal.
			sessiontest.TerminalStops,
			// It looks at the limit when a program is executed.
			sessiontest.StackLimit,
			// A process takes some milliseconds to be made: setsid(1) has not
			// forked yet when the command that it is a part of is over.
			sessiontest.Daemons,
			// Its /proc/PID/status has no signals.
			sessiontest.ShellSignals,
			// Its getcwd(2) fails as none may, and bash aborts.
			sessiontest.LongCwd,
		},
	})
}

func TestLimits(t *testing.T) {
	testenv.Both(t)
	need(t)
	shimtest.Limits(t, backend, true)
}

func TestAttackMatrix(t *testing.T) {
	testenv.Both(t)
	need(t)
	attacktest.Run(t, &attacktest.Config{
		Backend: gvisor.Name, New: func(t testing.TB) *shimtest.Runtime { return backend.Fresh(t) }, Sample: true,
	})
}
