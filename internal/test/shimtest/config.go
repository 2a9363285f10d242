package shimtest

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"wolffia/internal/test/testbin"
	"wolffia/runtime"
	"wolffia/runtime/runtimetest"
	"wolffia/session/sessiontest"
)

// Main is the TestMain of a package whose tests start sandboxes. run is testing.M's Run, or
// a wrapper of it.
func Main(run func() int) {
	syscall.Umask(0o077) // no test may depend on a friendlier one
	code := run()
	for _, dir := range states.groups(false) {
		fmt.Fprintln(os.Stderr, "left of a sandbox's limits:", dir)
		code = max(code, 1)
	}
	testbin.Remove()
	os.Exit(code)
}

// Config returns the runtime suite's configuration for a backend without the given
// features, on any host. fresh returns a new runtime, as Fresh does.
func (b Backend) Config(fresh func(testing.TB) *Runtime, lacks ...runtimetest.Feature) runtimetest.Config {
	return runtimetest.Config{
		New: func(t testing.TB) runtime.RuntimeWithExecutor { return fresh(t) },
		Reopen: func(t testing.TB, rt runtime.RuntimeWithExecutor) runtime.RuntimeWithExecutor {
			return b.Reopen(t, rt)
		},
		Crash: Crash,
		Lacks: lacks,
	}
}

// Sessions returns the session suite's configuration, as Config does.
func (b Backend) Sessions(fresh func(testing.TB) *Runtime, lacks ...sessiontest.Feature) sessiontest.Config {
	return sessiontest.Config{
		New:    func(t testing.TB) runtime.RuntimeWithExecutor { return fresh(t) },
		Reopen: func(t testing.TB, rt runtime.RuntimeWithSession) runtime.RuntimeWithSession { return b.Reopen(t, rt) },
		Lacks:  lacks,
	}
}
