package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var limitTests = []test{
	{"ExecMaxOutput", nil, execMaxOutput},
	{"ExecLargeOutput", nil, execLargeOutput},
	{"ExecTimeout", nil, execTimeout},
	{"ExecTimeoutNotReached", nil, execTimeoutNotReached},
	{"ExecCancel", nil, execCancel},
	{"ExecCanceledBefore", nil, execCanceledBefore},
}

func execMaxOutput(e *env) {
	s := e.common()
	const script = "printf 0123456789; printf abcdefghijkl >&2"
	for _, tt := range []struct {
		keep           int
		stdout, stderr string
	}{
		{1, "0", "a"},
		{10, "0123456789", "abcdefghij"},
		{11, "0123456789", "abcdefghijk"},
		{12, "0123456789", "abcdefghijkl"},
	} {
		r := e.exec(s.ID, &runtime.ExecRequest{Command: sh(script), MaxOutput: tt.keep})
		if string(r.Stdout) != tt.stdout || string(r.Stderr) != tt.stderr ||
			r.StdoutDropped != int64(10-len(tt.stdout)) || r.StderrDropped != int64(12-len(tt.stderr)) ||
			r.Truncated() != (tt.keep < 12) || r.ExitCode != 0 {
			e.Errorf("of at most %d: %+v", tt.keep, r)
		}
	}
	r := e.exec(s.ID, &runtime.ExecRequest{Command: sh(script), MaxOutput: 11, TailOutput: 3})
	if string(r.Stdout) != "0123456789" || r.StdoutDropped != 0 || string(r.Stderr) != "abcdefghjkl" || r.StderrDropped != 1 {
		e.Errorf("head and tail: %+v", r)
	}
	for _, tail := range []int{-1, 12} {
		_, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: sh(script), MaxOutput: 11, TailOutput: tail})
		e.Wrong("a tail that does not fit", err, runtime.ErrInvalid)
	}
}

// What is too much is counted and dropped, and what is kept is the beginning.
func execLargeOutput(e *env) {
	s := e.common()
	const size = 20_000_000
	r := e.exec(s.ID, &runtime.ExecRequest{Command: sh(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo done >&2; exit 3", size))})
	if len(r.Stdout) != runtime.DefaultMaxOutput || r.StdoutDropped != size-runtime.DefaultMaxOutput ||
		string(r.Stderr) != "done\n" || r.StderrDropped != 0 || !r.Truncated() || r.ExitCode != 3 {
		e.Errorf("%d bytes, %d dropped, stderr %q, exit code %d", len(r.Stdout), r.StdoutDropped, r.Stderr, r.ExitCode)
	}
	if n := bytes.Count(r.Stdout, []byte("x")); n != len(r.Stdout) {
		e.Errorf("%d of %d bytes are wrong", len(r.Stdout)-n, len(r.Stdout))
	}
	r = e.exec(s.ID, &runtime.ExecRequest{Command: sh(fmt.Sprintf("head -c %d /dev/zero", size)), MaxOutput: size})
	if len(r.Stdout) != size || r.Truncated() {
		e.Errorf("%d bytes, %d dropped", len(r.Stdout), r.StdoutDropped)
	}
}

// family is a script whose every process must be ended with it: children,
// daemons, and those that do not want to.
func family(tag string) []string {
	return sh(`echo partial; echo complaint >&2
		sleep ` + tag + ` & setsid sleep ` + tag + ` & (setsid setsid sleep ` + tag + ` &)
		trap '' TERM INT; echo ready; sleep ` + tag + `; sleep ` + tag)
}

func execTimeout(e *env) {
	s, tag := e.common(), newTag()
	var r *runtime.ExecResult
	suite.Timeouts(func(timeout time.Duration) (came bool) {
		begin := time.Now()
		r = e.exec(s.ID, &runtime.ExecRequest{Command: family(tag), Timeout: timeout})
		if took := time.Since(begin); took < timeout || r.Duration < timeout || r.Duration > took {
			e.Errorf("it took %v and says %v, the limit was %v", took, r.Duration, timeout)
		}
		return bytes.HasSuffix(r.Stdout, []byte("ready\n"))
	})
	if !r.TimedOut || string(r.Stdout) != "partial\nready\n" || string(r.Stderr) != "complaint\n" || r.ExitCode == 0 {
		e.Errorf("%+v, stdout %q, stderr %q", r, r.Stdout, r.Stderr)
	}
	e.gone(s.ID, tag)
	e.prints(s.ID, "echo alive", "alive\n")
}

// Only a limit that was reached is said to be.
func execTimeoutNotReached(e *env) {
	s := e.common()
	r := e.exec(s.ID, &runtime.ExecRequest{Command: sh("kill -9 $$"), Timeout: suite.Limit})
	if r.TimedOut || r.Signal != 9 {
		e.Errorf("exec: got r %+v; want not r.TimedOut and r.Signal == 9", r)
	}
}

func execCancel(e *env) {
	s, tag := e.common(), newTag()
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	ended := async(func() error {
		_, err := e.rt.Exec(ctx, s.ID, &runtime.ExecRequest{Command: family(tag)})
		return err
	})
	e.Until("four processes", func() bool { return e.count(s.ID, tag) == 4 })
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			e.Errorf("a canceled Exec says: %v", err)
		}
	case <-e.Ctx.Done():
		e.Error("a canceled Exec hangs")
	}
	e.gone(s.ID, tag)
	e.is(s.ID, runtime.StateRunning)
}

func execCanceledBefore(e *env) {
	s := e.start(nil)
	ctx, cancel := context.WithCancel(e.Ctx)
	cancel()
	_, err := e.rt.Exec(ctx, s.ID, &runtime.ExecRequest{Command: sh("echo >ran")})
	if !errors.Is(err, context.Canceled) {
		e.Errorf("a canceled Exec says: %v", err)
	}
	e.prints(s.ID, "ls", "")
}
