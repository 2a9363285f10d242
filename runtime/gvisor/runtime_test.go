package gvisor_test

import (
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/attack"
	"wolffia/internal/test/attack/attacktest"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/runtime/gvisor"
	"wolffia/runtime/runtimetest"
	"wolffia/session/sessiontest"
)

func TestMain(m *testing.M) { shimtest.Main(m.Run) }

// backend makes the runtimes of the tests.
var backend = shimtest.Of(gvisor.Backend())

// need skips the test, or fails it, where sandboxes cannot work.
func need(t testing.TB) {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
}

var lacks = []runtimetest.Feature{
	runtimetest.HostKernel, // the purpose of gVisor
	// The process with too much memory is gVisor's kernel itself.
	runtimetest.OutOfMemory,
	// It makes a FIFO in memory where the host refuses one.
	runtimetest.RefusedFifos,
}

func TestTable(t *testing.T) {
	runtimetest.CheckTable(t, "../../docs/backends.md", gvisor.Name, lacks)
}

func TestRuntime(t *testing.T) {
	testenv.Both(t)
	need(t)
	c := backend.Config(backend.Fresh, append(lacks, shimtest.LacksHere()...)...)
	c.Sample = true
	runtimetest.Run(t, c)
}

func TestImages(t *testing.T) {
	testenv.Both(t)
	need(t)
	shimtest.Images(t, backend, "/proc/1/root") // the gofer has a /proc
}

// A session does not know who started its sandbox: so once is enough.
func TestSessions(t *testing.T) {
	testenv.Unprivileged(t)
	need(t)
	c := backend.Sessions(backend.Fresh,
		// gVisor lets a background program read from its terminal.
		sessiontest.TerminalStops,
		sessiontest.TerminalEnd, // a read waits though MIN is 0
		// It applies the limit when a program is executed.
		sessiontest.StackLimit,
		// A fork takes some milliseconds: setsid(1) has not forked yet when the
		// command that it is a part of ends.
		sessiontest.Daemons,
		// Its /proc/PID/status has no signals.
		sessiontest.ShellSignals,
		// Its getcwd(2) fails with an error that Linux does not have, and bash aborts.
		sessiontest.LongCwd)
	c.Sample = true
	sessiontest.Run(t, c)
}

func TestLimits(t *testing.T) {
	testenv.Both(t)
	need(t)
	shimtest.Limits(t, backend, true)
}

func TestTwice(t *testing.T) {
	need(t)
	shimtest.Twice(t, backend, false)
}

func TestRemoved(t *testing.T) {
	need(t)
	shimtest.Removed(t, backend)
}

func TestAttackMatrix(t *testing.T) {
	testenv.Both(t)
	need(t)
	attacktest.Run(t, &attacktest.Config{
		Backend: gvisor.Name, New: backend.Fresh, Sample: true,
	})
}

func TestReview(t *testing.T) {
	testenv.Unprivileged(t)
	need(t)
	shimtest.Review(t, backend.Fresh(t))
}

// The attacks again, by root inside.
func TestAttackMatrixWithRoot(t *testing.T) {
	testenv.Both(t)
	testenv.SubIDs(t)
	need(t)
	attacktest.Run(t, &attacktest.Config{Backend: gvisor.Name + attack.WithRoot, New: backend.Fresh, Sample: true})
}
