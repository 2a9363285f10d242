package sessiontest

import (
	"context"
	"testing"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

// An env is what one test works with: a runtime with one sandbox that runs.
// Its methods that fail the test at once are for the test's own goroutine.
type env struct {
	suite.T // its context bounds every call
	*Config
	rt  runtime.RuntimeWithSession
	box string // the sandbox's id
}

// newEnv starts a sandbox for a test, and sees to it that none is left.
func newEnv(t testing.TB, c *Config) *env {
	t.Helper()
	e := &env{T: suite.New(t), Config: c, rt: c.runtime(t)}
	t.Cleanup(func() { // before New's own
		ctx, cancel := context.WithTimeout(context.Background(), suite.Limit)
		defer cancel()
		all, err := e.rt.List(ctx)
		if err != nil {
			t.Errorf("list: %v", err)
		}
		for _, s := range all {
			if err := e.rt.Destroy(ctx, s.ID); err != nil {
				t.Errorf("destroy %s, which is %s: %v", s.ID, s.State, err)
			}
		}
	})
	s, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{})
	e.OK(err)
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.box = s.ID
	return e
}

// fork is the env of a subtest: the same sandbox, with time of its own.
func (e *env) fork(t testing.TB) *env {
	f := *e
	f.T = suite.New(t)
	return &f
}

// outside runs a command in the sandbox, in no session, and returns what it
// prints.
func (e *env) outside(script string, args ...string) string {
	e.Helper()
	r, err := e.rt.Exec(e.Ctx, e.box, &runtime.ExecRequest{Command: append([]string{"sh", "-c", script, "sh"}, args...)})
	if err != nil {
		e.Fatalf("%s: %v", script, err)
	}
	if r.ExitCode != 0 {
		e.Fatalf("%s: exit code %d, stderr %q", script, r.ExitCode, r.Stderr)
	}
	return string(r.Stdout)
}
