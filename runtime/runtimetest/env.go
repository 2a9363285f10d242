package runtimetest

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

// An env is what one test works with. Its methods that fail the test at once
// are for the test's own goroutine.
type env struct {
	suite.T // its context bounds every call
	*Config
	rt runtime.RuntimeWithExecutor
}

// newEnv makes a runtime for a test, and sees to it that none of its sandboxes
// is left.
func newEnv(t testing.TB, c *Config) *env {
	e := &env{T: suite.New(t), Config: c, rt: c.New(t)}
	own := *e
	t.Cleanup(func() { // before New's own
		ctx, cancel := context.WithTimeout(context.Background(), suite.Limit)
		defer cancel()
		own.Ctx = ctx
		for _, s := range own.list() {
			// One that was bound to its caller may be on its way already.
			if err := own.rt.Destroy(own.Ctx, s.ID); err != nil && !errors.Is(err, runtime.ErrNotFound) {
				t.Errorf("destroy %s, which is %s: %v", s.ID, s.State, err)
			}
		}
		own.empty()
	})
	return e
}

// common returns the default sandbox that the members share which run commands that no other
// command inside notices. From then on e works with that sandbox's runtime.
func (e *env) common() *runtime.Sandbox {
	e.Helper()
	e.rt = e.shared.rt
	return e.get(e.shared.id)
}

// create makes a sandbox; nil is the default one.
func (e *env) create(c *runtime.SandboxConfig) *runtime.Sandbox {
	e.Helper()
	if c == nil {
		c = &runtime.SandboxConfig{}
	}
	s, err := e.rt.Create(e.Ctx, c)
	if err != nil {
		e.Fatalf("create %+v: %v", c, err)
	}
	return s
}

// start makes and starts a sandbox.
func (e *env) start(c *runtime.SandboxConfig) *runtime.Sandbox {
	e.Helper()
	s := e.create(c)
	e.OK(e.rt.Start(e.Ctx, s.ID))
	return e.get(s.ID)
}

func (e *env) get(id string) *runtime.Sandbox {
	e.Helper()
	s, err := e.rt.Get(e.Ctx, id)
	if err != nil {
		e.Fatalf("get %q: %v", id, err)
	}
	return s
}

func (e *env) list() []*runtime.Sandbox {
	e.Helper()
	all, err := e.rt.List(e.Ctx)
	if err != nil {
		e.Errorf("list: %v", err)
	}
	return all
}

// empty checks that there is no sandbox.
func (e *env) empty() {
	e.Helper()
	for _, s := range e.list() {
		e.Errorf("sandbox %s is left, %s %s", s.ContainerName(), s.State, s.Reason)
	}
}

// is checks the state of a sandbox.
func (e *env) is(id string, want runtime.State) {
	e.Helper()
	if s := e.get(id); s.State != want {
		e.Errorf("sandbox %s is %s (%s), want %s", id, s.State, s.Reason, want)
	}
}

// exec runs a command to its end.
func (e *env) exec(id string, req *runtime.ExecRequest) *runtime.ExecResult {
	e.Helper()
	r, err := e.rt.Exec(e.Ctx, id, req)
	if err != nil {
		e.Fatalf("exec %.200q: %v\n%s", req.Command, err, e.log(id))
	}
	return r
}

// log returns what the processes of a sandbox on the host have said, if the runtime can tell.
func (e *env) log(id string) []byte {
	rt, can := e.rt.(interface {
		Log(id string) (*os.File, error)
	})
	if !can {
		return nil
	}
	f, err := rt.Log(id)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	return b
}

func sh(script string, args ...string) []string {
	return append([]string{"sh", "-c", script, "sh"}, args...)
}

// sh runs a shell command to its end.
func (e *env) sh(id, script string) *runtime.ExecResult {
	e.Helper()
	return e.exec(id, &runtime.ExecRequest{Command: sh(script)})
}

// out returns what a shell command prints. It must succeed and not complain.
func (e *env) out(id, script string) string {
	e.Helper()
	r := e.sh(id, script)
	if r.ExitCode != 0 || len(r.Stderr) > 0 {
		e.Errorf("%s\nexit code %d, stderr %q, stdout %.1000q", script, r.ExitCode, r.Stderr, r.Stdout)
	}
	return string(r.Stdout)
}

// prints checks what a shell command prints.
func (e *env) prints(id, script, want string) {
	e.Helper()
	if got := e.out(id, script); got != want {
		e.Errorf("%s\n got %.1000q\nwant %.1000q", script, got, want)
	}
}

// process starts a process and closes it after the test.
func (e *env) process(id string, spec *runtime.Command) runtime.Process {
	e.Helper()
	p, err := e.rt.StartProcess(e.Ctx, id, spec)
	if err != nil {
		e.Fatalf("start %q: %v", spec.Command, err)
	}
	e.Cleanup(func() {
		if err := p.Close(); err != nil {
			e.Errorf("close %q: %v", spec.Command, err)
		}
	})
	return p
}

// wait waits for the end of a process.
func (e *env) wait(p runtime.Process) runtime.Result {
	e.Helper()
	exit, err := p.Wait(e.Ctx)
	if err != nil {
		e.Fatalf("wait: %v", err)
	}
	return exit
}
