package sessiontest

import (
	"context"
	"errors"
	"fmt"

	"wolffia/runtime"
)

var queueTests = []test{
	{"QueueInOrder", nil, queueInOrder},
	{"QueueNoWait", nil, queueNoWait},
	{"QueueCancel", nil, queueCancel},
}

// gate makes a command wait until the returned function is called.
func (s *shell) gate() (script string, open func()) {
	s.Helper()
	name := "/tmp/gate" + newTag()
	s.outside("mkfifo " + name)
	return "read gate <" + name, func() { s.Helper(); s.outside("echo >" + name) }
}

func queueInOrder(e *env) {
	s := e.shell(nil)
	wait, open := s.gate()
	calls := []<-chan outcome{s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{wait + "; n=0"}})}
	const n = 5
	for i := range n {
		s.waiting(i)
		calls = append(calls, s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{"echo $((n++))"}}))
	}
	s.waiting(n)
	open()
	for i, c := range calls {
		want := ""
		if i > 0 {
			want = fmt.Sprintf("%d\n", i-1)
		}
		s.is(fmt.Sprintf("command %d", i), s.result(c), want, "", 0)
	}
	if got := s.get(); got.Waiting != 0 || got.State != runtime.SessionIdle || got.Commands != n+1 {
		s.Errorf("get: got %+v; want got.Waiting == 0 and got.State == runtime.SessionIdle and got.Commands == n+1", got)
	}
}

func queueNoWait(e *env) {
	s := e.shell(nil)
	r := s.exec(&runtime.SessionExecRequest{Command: []string{"echo free"}, NoWait: true})
	s.is("free", r, "free\n", "", 0)
	wait, open := s.gate()
	first := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{wait + "; echo first"}})
	s.waiting(0)
	_, err := s.rt.SessionExec(s.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"echo second"}, NoWait: true})
	s.Wrong("NoWait", err, runtime.ErrConflict)
	output := make(chan []byte)
	ended := make(chan error, 1)
	go func() { // ends at once
		ended <- s.rt.SessionExecStream(s.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"echo second"}, NoWait: true}, output)
	}()
	for b := range output {
		s.Errorf("it has printed %q", b)
	}
	s.Wrong("NoWait of a stream", <-ended, runtime.ErrConflict)
	open()
	s.is("first", s.result(first), "first\n", "", 0)
	s.alive()
}

// A caller that gives up while it waits has no effect.
func queueCancel(e *env) {
	s := e.shell(nil)
	wait, open := s.gate()
	first := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{wait + "; echo first"}})
	s.waiting(0)
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	second := s.begin(ctx, &runtime.SessionExecRequest{Command: []string{"echo second >ran; second=ran"}})
	s.waiting(1)
	third := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{"echo third ${second-not}"}})
	s.waiting(2)
	cancel()
	if o := s.outcome(second); !errors.Is(o.err, context.Canceled) {
		s.Errorf("the canceled one: %+v, %v", o.ExecResult, o.err)
	}
	s.waiting(1)
	open()
	s.is("first", s.result(first), "first\n", "", 0)
	s.is("third", s.result(third), "third not\n", "", 0)
	s.prints("ls ran 2>/dev/null; true", "")
	s.same()
}
