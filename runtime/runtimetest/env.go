package runtimetest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"wolffia/runtime"
)

// An env is what one test works with. Its methods that fail the test at once
// are for the test's own goroutine.
type env struct {
	testing.TB
	*Config
	rt  runtime.RuntimeWithExecutor
	ctx context.Context // bounds every call
}

// newEnv makes a runtime for a test, and sees to it that none of its sandboxes
// is left.
func newEnv(t testing.TB, c *Config) *env {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	e := &env{TB: t, Config: c, rt: c.New(t), ctx: ctx}
	t.Cleanup(func() { // before New's own
		e.ctx, cancel = context.WithTimeout(context.Background(), limit)
		defer cancel()
		for _, s := range e.list() {
			if err := e.rt.Destroy(e.ctx, s.ID); err != nil {
				t.Errorf("destroy %s, which is %s: %v", s.ID, s.State, err)
			}
		}
		e.empty()
	})
	return e
}

// create makes a sandbox; nil is the default one.
func (e *env) create(c *runtime.SandboxConfig) *runtime.Sandbox {
	e.Helper()
	if c == nil {
		c = &runtime.SandboxConfig{}
	}
	s, err := e.rt.Create(e.ctx, c)
	if err != nil {
		e.Fatalf("create %+v: %v", c, err)
	}
	return s
}

// start makes and starts a sandbox.
func (e *env) start(c *runtime.SandboxConfig) *runtime.Sandbox {
	e.Helper()
	s := e.create(c)
	e.ok(e.rt.Start(e.ctx, s.ID))
	return e.get(s.ID)
}

func (e *env) get(id string) *runtime.Sandbox {
	e.Helper()
	s, err := e.rt.Get(e.ctx, id)
	if err != nil {
		e.Fatalf("get %q: %v", id, err)
	}
	return s
}

func (e *env) list() []*runtime.Sandbox {
	e.Helper()
	all, err := e.rt.List(e.ctx)
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

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// wrong checks that err is of the class.
func (e *env) wrong(what string, err, class error) {
	e.Helper()
	if !errors.Is(err, class) {
		e.Errorf("%s: error is %v, want class %q", what, err, class)
	} else if strings.TrimSpace(err.Error()) == "" {
		e.Errorf("%s: the error says nothing", what)
	}
}

// exec runs a command to its end.
func (e *env) exec(id string, req *runtime.ExecRequest) *runtime.ExecResult {
	e.Helper()
	r, err := e.rt.Exec(e.ctx, id, req)
	if err != nil {
		e.Fatalf("exec %.200q: %v", req.Command, err)
	}
	return r
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
func (e *env) process(id string, spec *runtime.ProcessSpec) runtime.Process {
	e.Helper()
	p, err := e.rt.StartProcess(e.ctx, id, spec)
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
func (e *env) wait(p runtime.Process) runtime.Exit {
	e.Helper()
	exit, err := p.Wait(e.ctx)
	if err != nil {
		e.Fatalf("wait: %v", err)
	}
	return exit
}

// within waits for done.
func (e *env) within(what string, done <-chan struct{}) {
	e.Helper()
	select {
	case <-done:
	case <-e.ctx.Done():
		e.Fatalf("%s: it hangs", what)
	}
}

// until asks again and again, until it is so. Each question takes its time, so
// that this is no busy loop: a command in the sandbox, or a look at /proc.
func (e *env) until(what string, so func() bool) {
	e.Helper()
	for !so() {
		if e.ctx.Err() != nil {
			e.Fatalf("%s: not in %v", what, limit)
		}
	}
}

// expect reads exactly want.
func (e *env) expect(r io.Reader, want string) {
	e.Helper()
	got := make([]byte, len(want))
	done := make(chan error, 1)
	go func() { // ends with the stream
		_, err := io.ReadFull(r, got)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil || string(got) != want {
			e.Fatalf("read %q (%v), want %q", got, err, want)
		}
	case <-e.ctx.Done():
		e.Fatalf("%q does not come", want)
	}
}
