package runtimetest

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var processTests = []test{
	{"ProcessStreams", nil, processStreams},
	{"ProcessMerge", nil, processMerge},
	{"ProcessStdin", nil, processStdin},
	{"ProcessStdinBackpressure", nil, processStdinBackpressure},
	{"ProcessSignal", nil, processSignal},
	{"ProcessInterrupt", nil, processInterrupt},
	{"ProcessSignalGroup", nil, processSignalGroup},
	{"ProcessWait", nil, processWait},
	{"ProcessCtxEnds", nil, processCtxEnds},
	{"ProcessClose", nil, processClose},
	{"ProcessTimeout", nil, processTimeout},
	{"ProcessBackpressure", nil, processBackpressure},
	{"ProcessStderrBackpressure", nil, processStderrBackpressure},
	{"ProcessStartErrors", nil, processStartErrors},
	{"ProcessStarted", nil, processStarted},
}

func processStreams(e *env) {
	s := e.common()
	p := e.process(s.ID, &runtime.Command{
		Command: sh("pwd >&2; echo $A; cat; exit 4"), Env: map[string]string{"A": "b"}, Cwd: "/",
	})
	if out, err := e.All(p.Stdout()), e.All(p.Stderr()); out != "b\n" || err != "/\n" {
		e.Errorf("All: got %q, %q; want %q, %q", out, err, "b\n", "/\n")
	}
	if exit := e.wait(p); !reflect.DeepEqual(exit, runtime.Result{ExitCode: 4}) {
		e.Errorf("wait: got %+v, want runtime.Result{ExitCode: 4}", exit)
	}
}

func processMerge(e *env) {
	s := e.common()
	p := e.process(s.ID, &runtime.Command{Command: sh("for i in 1 2; do echo o$i; echo e$i >&2; done"), Merge: true})
	if got := e.All(p.Stdout()); got != "o1\ne1\no2\ne2\n" {
		e.Errorf("All: got %q, want %q", got, "o1\ne1\no2\ne2\n")
	}
	if got := e.All(p.Stderr()); got != "" {
		e.Errorf("stderr is %q", got)
	}
	e.wait(p)
}

// A conversation: input is there when it is written, and ends with Close.
func processStdin(e *env) {
	s := e.common()
	p := e.process(s.ID, &runtime.Command{Command: []string{"cat"}, OpenStdin: true})
	for _, line := range []string{"one\n", "two\n", "\x00\xff\n"} {
		_, err := io.WriteString(p.Stdin(), line)
		e.OK(err)
		e.Expect(p.Stdout(), line)
	}
	e.OK(p.Stdin().Close())
	if got := e.All(p.Stdout()); got != "" {
		e.Errorf("after the end: %q", got)
	}
	if exit := e.wait(p); exit.ExitCode != 0 {
		e.Errorf("wait: got exit %+v; want exit.ExitCode == 0", exit)
	}
	if _, err := p.Stdin().Write([]byte("x")); err == nil {
		e.Error("a process that is gone takes input")
	}
}

// A writer waits until the process reads, or has ended.
func processStdinBackpressure(e *env) {
	s := e.start(nil)
	p := e.process(s.ID, &runtime.Command{Command: sh("until [ -e go ]; do sleep 0.02; done; wc -c"), OpenStdin: true})
	input := make([]byte, 32<<20)
	wrote := make(chan struct{})
	go func() { // ends with the process
		_, _ = p.Stdin().Write(input)
		_ = p.Stdin().Close()
		close(wrote)
	}()
	for range 10 {
		e.prints(s.ID, "true", "")
	}
	select {
	case <-wrote:
		e.Error("32 MiB went in though no process reads them")
	default:
	}
	e.prints(s.ID, "echo >go", "")
	if got := strings.TrimSpace(e.All(p.Stdout())); got != "33554432" {
		e.Errorf("%s bytes came in", got)
	}
	e.wait(p)
	e.Within("write", wrote)

	p = e.process(s.ID, &runtime.Command{Command: sh("sleep 0.1; exit 5"), OpenStdin: true})
	wrote = make(chan struct{})
	go func() { // ends with the process, or when all of it was thrown away
		_, _ = p.Stdin().Write(input)
		close(wrote)
	}()
	if exit := e.wait(p); exit.ExitCode != 5 {
		e.Errorf("wait: got exit %+v; want exit.ExitCode == 5", exit)
	}
	e.Within("write to a process that is gone", wrote)
}

func processSignal(e *env) {
	s := e.common()
	const loop = "; echo ready; while :; do sleep 0.02; done"
	for _, tt := range []struct {
		script string
		sig    syscall.Signal
		want   runtime.Result
	}{
		{"trap 'exit 7' USR1" + loop, syscall.SIGUSR1, runtime.Result{ExitCode: 7}},
		{"true" + loop, syscall.SIGTERM, runtime.Result{ExitCode: 143, Signal: syscall.SIGTERM}},
		{"trap '' TERM" + loop, syscall.SIGKILL, runtime.Result{ExitCode: 137, Signal: syscall.SIGKILL}},
	} {
		p := e.process(s.ID, &runtime.Command{Command: sh(tt.script)})
		e.Expect(p.Stdout(), "ready\n")
		e.OK(p.Signal(tt.sig))
		if exit := e.wait(p); !reflect.DeepEqual(exit, tt.want) {
			e.Errorf("%v: %+v, want %+v", tt.sig, exit, tt.want)
		}
	}
}

// A signal that a shell would have its own ideas about.
func processInterrupt(e *env) {
	s := e.common()
	p := e.process(s.ID, &runtime.Command{Command: []string{"cat"}, OpenStdin: true})
	_, err := io.WriteString(p.Stdin(), "ready\n")
	e.OK(err)
	e.Expect(p.Stdout(), "ready\n")
	e.OK(p.Signal(syscall.SIGINT))
	if exit := e.wait(p); !reflect.DeepEqual(exit, runtime.Result{ExitCode: 130, Signal: syscall.SIGINT}) {
		e.Errorf("wait: got %+v, want runtime.Result{ExitCode: 130, Signal: syscall.SIGINT}", exit)
	}
}

// A signal is for the group, as ctrl-c is, and for no other process.
func processSignalGroup(e *env) {
	s, tag, other := e.common(), newTag(), newTag()
	bystander := e.process(s.ID, &runtime.Command{Command: []string{"sleep", other}})
	p := e.process(s.ID, &runtime.Command{Command: sh("trap 'wait; exit 6' TERM; sleep " + tag + " & echo ready; wait; echo not here")})
	e.Expect(p.Stdout(), "ready\n")
	e.Until("the child", func() bool { return e.count(s.ID, tag) == 1 })
	e.OK(p.Signal(syscall.SIGTERM))
	if exit := e.wait(p); !reflect.DeepEqual(exit, runtime.Result{ExitCode: 6}) {
		e.Errorf("wait: got %+v, want runtime.Result{ExitCode: 6}", exit)
	}
	e.gone(s.ID, tag)
	if n := e.count(s.ID, other); n != 1 {
		e.Errorf("%d bystanders, want 1", n)
	}
	e.OK(bystander.Close())
}

// Wait can be called again, by many, and gives up without harm.
func processWait(e *env) {
	s := e.common()
	p := e.process(s.ID, &runtime.Command{Command: sh("read x; echo $x; exit 9"), OpenStdin: true})
	ctx, cancel := context.WithTimeout(e.Ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("a Wait that gives up says: %v", err)
	}
	errs := async(func() error {
		return errors.Join(suite.AtOnce(4, func(int) error {
			if exit, err := p.Wait(e.Ctx); err != nil || exit.ExitCode != 9 {
				return errors.Join(errors.New("wrong exit"), err)
			}
			return nil
		})...)
	})
	_, err := io.WriteString(p.Stdin(), "still here\n")
	e.OK(err)
	e.Expect(p.Stdout(), "still here\n")
	e.OK(<-errs)
	if exit := e.wait(p); exit.ExitCode != 9 {
		e.Errorf("again: %+v", exit)
	}
	e.OK(p.Close())
	if exit := e.wait(p); exit.ExitCode != 9 {
		e.Errorf("after Close: %+v", exit)
	}
}

// The context is for the call to StartProcess, not for the process.
func processCtxEnds(e *env) {
	s := e.common()
	ctx, cancel := context.WithCancel(e.Ctx)
	p, err := e.rt.StartProcess(ctx, s.ID, &runtime.Command{Command: sh("read x; exit 9"), OpenStdin: true})
	e.OK(err)
	defer p.Close()
	cancel()
	e.prints(s.ID, "true", "")
	_, err = p.Stdin().Write([]byte("\n"))
	e.OK(err)
	if exit := e.wait(p); exit.ExitCode != 9 {
		e.Errorf("wait: got exit %+v; want exit.ExitCode == 9", exit)
	}
	if _, err := e.rt.StartProcess(ctx, s.ID, &runtime.Command{Command: []string{"true"}}); !errors.Is(err, context.Canceled) {
		e.Errorf("canceled before: %v", err)
	}
}

// Close kills all that the process has started.
func processClose(e *env) {
	s, tag := e.common(), newTag()
	p := e.process(s.ID, &runtime.Command{Command: family(tag), OpenStdin: true})
	e.Expect(p.Stdout(), "partial\nready\n")
	e.Until("four processes", func() bool { return e.count(s.ID, tag) == 4 })
	e.OK(p.Close())
	if exit := e.wait(p); exit.Signal != syscall.SIGKILL || exit.ExitCode != 137 {
		e.Errorf("wait: got exit %+v; want exit.Signal == syscall.SIGKILL and exit.ExitCode == 137", exit)
	}
	e.gone(s.ID, tag)
	e.OK(p.Close())

	p = e.process(s.ID, &runtime.Command{Command: []string{"true"}})
	e.wait(p)
	e.OK(p.Close())
	e.OK(p.Signal(syscall.SIGTERM))
}

func processTimeout(e *env) {
	s, tag := e.common(), newTag()
	var got string
	suite.Timeouts(func(timeout time.Duration) (came bool) {
		p := e.process(s.ID, &runtime.Command{Command: family(tag), Timeout: timeout})
		got = e.All(p.Stdout())
		if exit := e.wait(p); !exit.TimedOut || exit.ExitCode == 0 {
			e.Errorf("wait: got exit %+v; want exit.TimedOut and exit.ExitCode != 0", exit)
		}
		e.gone(s.ID, tag)
		return strings.HasSuffix(got, "ready\n")
	})
	if got != "partial\nready\n" {
		e.Errorf("it has printed %q", got)
	}
}

// StartProcess or Wait returns the error if a program cannot be started.
func processStartErrors(e *env) {
	s := e.common()
	p, err := e.rt.StartProcess(e.Ctx, s.ID, &runtime.Command{Command: []string{"no-such-program"}, OpenStdin: true})
	if err == nil {
		if out := e.All(p.Stdout()) + e.All(p.Stderr()); out != "" {
			e.Errorf("it says %q", out)
		}
		_, err = p.Wait(e.Ctx)
		e.OK(p.Close())
	}
	e.startError("missing program", err, 127, runtime.ErrNotFound)
	_, err = e.rt.StartProcess(e.Ctx, s.ID, &runtime.Command{})
	e.Wrong("no command", err, runtime.ErrInvalid)
}

// Started gets the process id that the process itself has.
func processStarted(e *env) {
	s := e.common()
	pid := make(chan int, 2)
	p := e.process(s.ID, &runtime.Command{Command: sh("echo $$"), Started: func(n int) { pid <- n }})
	got := strings.TrimSpace(e.All(p.Stdout()))
	e.wait(p)
	if len(pid) != 1 {
		e.Fatalf("Started: %d calls, want one", len(pid))
	}
	if n := strconv.Itoa(<-pid); n != got {
		e.Errorf("Started: pid %s, the process has %s", n, got)
	}
}
