package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var streamTests = []test{
	{"StreamOrder", nil, streamOrder},
	{"StreamExitError", nil, streamExitError},
	{"StreamClosesAlways", nil, streamClosesAlways},
	{"StreamStdin", nil, streamStdin},
	{"StreamIsLive", nil, streamIsLive},
	{"StreamTimeout", nil, streamTimeout},
	{"StreamBackpressure", nil, streamBackpressure},
	{"StreamCancel", nil, streamCancel},
	{"StreamCancelStalled", nil, streamCancelStalled},
}

// stream runs a command and returns all of its output.
func (e *env) stream(id string, req *runtime.ExecRequest) (string, error) {
	e.Helper()
	return e.Collect(func(output chan<- []byte) error { return e.rt.ExecStream(e.Ctx, id, req, output) })
}

func streamOrder(e *env) {
	s := e.common()
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintf(&want, "out%d\nerr%d\n", i, i)
	}
	got, err := e.stream(s.ID, &runtime.ExecRequest{Command: sh("i=0; while [ $i -lt 100 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done")})
	if err != nil || got != want.String() {
		e.Errorf("stream: got %q, %v; want want.String(), nil", got, err)
	}
	if got, err = e.stream(s.ID, &runtime.ExecRequest{Command: sh("true")}); got != "" || err != nil {
		e.Errorf("true: %q, %v", got, err)
	}
	if got, err = e.stream(s.ID, &runtime.ExecRequest{Command: sh(`printf 'a\0\377'`)}); got != "a\x00\xff" || err != nil {
		e.Errorf("binary: %q, %v", got, err)
	}
}

func streamExitError(e *env) {
	s := e.common()
	for script, want := range map[string]runtime.Result{
		"echo x; exit 3":       {ExitCode: 3},
		"echo x; exit 124":     {ExitCode: 124},
		"echo x; kill -9 $$":   {ExitCode: 137, Signal: syscall.SIGKILL},
		"echo x; kill -USR1 0": {ExitCode: 128 + 10, Signal: syscall.SIGUSR1},
	} {
		got, err := e.stream(s.ID, &runtime.ExecRequest{Command: sh(script)})
		if ee, ok := errors.AsType[*runtime.ExitError](err); !ok || !reflect.DeepEqual(ee.Result, want) || got != "x\n" {
			e.Errorf("%s: %q, %#v, want %+v", script, got, err, want)
		}
	}
}

func streamClosesAlways(e *env) {
	s := e.start(nil)
	_, err := e.stream(s.ID, &runtime.ExecRequest{Command: []string{"no-such-program"}})
	e.startError("missing program", err, 127, runtime.ErrNotFound)
	_, err = e.stream(s.ID, &runtime.ExecRequest{})
	e.Wrong("no command", err, runtime.ErrInvalid)
	_, err = e.stream("nobody", &runtime.ExecRequest{Command: []string{"true"}})
	e.Wrong("no sandbox", err, runtime.ErrNotFound)
	_, err = e.stream(e.create(nil).ID, &runtime.ExecRequest{Command: []string{"true"}})
	e.Wrong("not started", err, runtime.ErrConflict)
}

func streamStdin(e *env) {
	s := e.common()
	in := strings.Repeat("line\n", 100_000)
	got, err := e.stream(s.ID, &runtime.ExecRequest{Command: []string{"cat"}, Stdin: strings.NewReader(in)})
	if got != in || err != nil {
		e.Errorf("of %d bytes %d came back, %v", len(in), len(got), err)
	}
}

// Output comes when it is written, not at the end, and what was sent is not
// written over.
func streamIsLive(e *env) {
	dir := e.dir()
	s := e.start(e.open(dir))
	output := make(chan []byte)
	ended := async(func() error {
		return e.rt.ExecStream(e.Ctx, s.ID, &runtime.ExecRequest{Command: sh("echo first; until [ -e go ]; do sleep 0.02; done; echo second")}, output)
	})
	first := <-output
	e.prints(s.ID, "echo >go", "")
	second := <-output
	if _, open := <-output; open {
		e.Error("there is more")
	}
	if err := <-ended; string(first) != "first\n" || string(second) != "second\n" || err != nil {
		e.Errorf("got %q, %q, %v; want %q, %q, nil", first, second, err, "first\n", "second\n")
	}
}

func streamTimeout(e *env) {
	s, tag := e.common(), newTag()
	var got string
	var err error
	suite.Timeouts(func(timeout time.Duration) (came bool) {
		got, err = e.stream(s.ID, &runtime.ExecRequest{Command: family(tag), Timeout: timeout})
		return strings.HasSuffix(got, "ready\n")
	})
	if ee, ok := errors.AsType[*runtime.ExitError](err); !ok || !ee.TimedOut || got != "partial\ncomplaint\nready\n" {
		e.Errorf("got %q, err %v; want ok and ee.TimedOut and got == %q", got, err, "partial\ncomplaint\nready\n")
	}
	e.gone(s.ID, tag)
}

// canceled checks how ExecStream ends that is canceled while its receiver
// reads, or does not.
func (e *env) canceled(command []string, tag string, processes int, reads bool) {
	e.Helper()
	s := e.common()
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	output := make(chan []byte)
	ended := async(func() error {
		return e.rt.ExecStream(ctx, s.ID, &runtime.ExecRequest{Command: command}, output)
	})
	drained := make(chan struct{})
	drain := func() {
		for range output {
		}
		close(drained)
	}
	if reads {
		go drain() // ends with the channel
	}
	e.Until("the processes", func() bool { return e.count(s.ID, tag) == processes })
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			e.Errorf("a canceled ExecStream says: %v", err)
		}
	case <-e.Ctx.Done():
		e.Fatal("a canceled ExecStream hangs")
	}
	if !reads {
		go drain() // ends with the channel
	}
	e.Within("close of the output", drained)
	e.gone(s.ID, tag)
}

func streamCancel(e *env) {
	tag := newTag()
	e.canceled(family(tag), tag, 4, true)
}

func streamCancelStalled(e *env) {
	tag := newTag()
	e.canceled(sh("sleep "+tag+" & "+floodWith), tag, 1, false)
}
