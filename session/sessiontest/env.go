package sessiontest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"wolffia/runtime"
)

// An env is what one test works with: a runtime with one sandbox that runs.
// Its methods that fail the test at once are for the test's own goroutine.
type env struct {
	testing.TB
	*Config
	rt  runtime.RuntimeWithSession
	ctx context.Context // bounds every call
	box string          // the sandbox's id
}

// newEnv starts a sandbox for a test, and sees to it that none is left.
func newEnv(t testing.TB, c *Config) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	e := &env{TB: t, Config: c, rt: c.New(t), ctx: ctx}
	t.Cleanup(func() { // before New's own
		ctx, cancel := context.WithTimeout(context.Background(), limit)
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
	s, err := e.rt.Create(ctx, &runtime.SandboxConfig{})
	e.ok(err)
	e.ok(e.rt.Start(ctx, s.ID))
	e.box = s.ID
	return e
}

// fork is the env of a subtest: the same sandbox, with time of its own.
func (e *env) fork(t testing.TB) *env {
	f := *e
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	f.TB, f.ctx = t, ctx
	return &f
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

// outside runs a command in the sandbox, in no session, and returns what it
// prints.
func (e *env) outside(script string, args ...string) string {
	e.Helper()
	r, err := e.rt.Exec(e.ctx, e.box, &runtime.ExecRequest{Command: append([]string{"sh", "-c", script, "sh"}, args...)})
	if err != nil {
		e.Fatalf("%s: %v", script, err)
	}
	if r.ExitCode != 0 {
		e.Fatalf("%s: exit code %d, stderr %q", script, r.ExitCode, r.Stderr)
	}
	return string(r.Stdout)
}

// until asks again and again, until it is so. Each question is a call to the
// sandbox and takes its time, so that this is no busy loop.
func (e *env) until(what string, so func() bool) {
	e.Helper()
	for !so() {
		if e.ctx.Err() != nil {
			e.Fatalf("%s: not in %v", what, limit)
		}
	}
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

// expect reads exactly want.
func (e *env) expect(r io.Reader, want string) {
	e.Helper()
	got := make([]byte, len(want))
	done := make(chan struct{})
	var err error
	go func() { // ends with the stream
		_, err = io.ReadFull(r, got)
		close(done)
	}()
	e.within("read "+want, done)
	if err != nil || string(got) != want {
		e.Fatalf("read %q (%v), want %q", got, err, want)
	}
}

// all reads a stream to its end.
func (e *env) all(r io.Reader) string {
	e.Helper()
	var b []byte
	var err error
	done := make(chan struct{})
	go func() { // ends with the stream
		b, err = io.ReadAll(r)
		close(done)
	}()
	e.within("read a stream", done)
	if err != nil {
		e.Errorf("read a stream: %v", err)
	}
	return string(b)
}

// atOnce calls f n times at the same time and returns what it said.
func atOnce(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}
