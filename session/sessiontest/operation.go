package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var operationTests = []test{
	{"OperationOutlivesCaller", []Feature{Recovery}, operationOutlivesCaller},
	{"OperationOnce", nil, operationOnce},
	{"OperationOutput", nil, operationOutput},
	{"OperationCancel", nil, operationCancel},
	{"OperationTimeout", nil, operationTimeout},
	{"OperationLetGo", nil, operationLetGo},
	{"OperationsForgotten", nil, operationsForgotten},
	{"OperationErrors", nil, operationErrors},
}

// operate runs a command as an operation.
func (s *shell) operate(name, script string) *runtime.ExecResult {
	s.Helper()
	return s.exec(&runtime.SessionExecRequest{Command: []string{script}, Operation: name})
}

func (s *shell) cancel(name string) error {
	s.Helper()
	return s.rt.CancelOperation(s.Ctx, s.ID, name)
}

// The process that has asked for a command ends; another one gets all of the
// result. So it is for one that waits for its turn.
func operationOutlivesCaller(e *env) {
	first := e.rt
	e.rt = e.Reopen(e.TB, first)
	s := e.shell(nil)
	wait, open := s.gate()
	script := "echo before; echo err >&2; " + wait + "; x=kept; echo after; (exit 7)"
	running := s.with(first).begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{script}, Operation: "op"})
	s.waiting(0)
	waits := s.with(first).begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{"echo $x"}, Operation: "next"})
	s.waiting(1)
	e.closeRuntime(first)
	for what, c := range map[string]<-chan outcome{"running": running, "waiting": waits} {
		if o := e.outcome(c); o.err == nil {
			e.Errorf("the %s call of a runtime that was closed says %+v", what, o.ExecResult)
		}
	}
	again := s.begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{script}, Operation: "op"})
	open()
	s.is("the command", s.result(again), "before\nafter\n", "err\n", 7)
	s.is("the one that waited", s.operate("next", "echo $x"), "kept\n", "", 0)
	s.is("the command, when it is long over", s.operate("op", script), "before\nafter\n", "err\n", 7)
	s.same()
	s.alive()
}

// However many ask for one operation, and whenever, it is run once.
func operationOnce(e *env) {
	s := e.shell(nil)
	s.prints("n=0", "")
	for i, err := range suite.AtOnce(20, func(int) error {
		r, err := s.rt.SessionExec(s.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"echo $((++n)); cd /tmp"}, Operation: "a"})
		if err == nil && (string(r.Stdout) != "1\n" || r.Session == nil || r.Session.Cwd != "/tmp") {
			err = fmt.Errorf("%+v, %+v", r, r.Session)
		}
		return err
	}) {
		if err != nil {
			e.Errorf("%d: %v", i, err)
		}
	}
	s.is("another", s.operate("b", "echo $((++n)); cd /tmp"), "2\n", "", 0)
	for what, req := range map[string]*runtime.SessionExecRequest{
		"command":   {Command: []string{"echo $((++n))"}},
		"directory": {Command: []string{"echo $((++n)); cd /tmp"}, Cwd: "/"},
		"variable":  {Command: []string{"echo $((++n)); cd /tmp"}, Env: map[string]string{"A": "1"}},
		"time-out":  {Command: []string{"echo $((++n)); cd /tmp"}, Timeout: time.Hour},
	} {
		req.Operation = "a"
		_, err := s.rt.SessionExec(s.Ctx, s.ID, req)
		e.Wrong("another "+what, err, runtime.ErrExists)
	}
	s.prints("echo $n", "2\n")
}

// All output is kept up to the bound, for any bytes; output beyond it is counted, and delays no
// reader.
func operationOutput(e *env) {
	s := e.shell(nil)
	const text = `printf 'a\0\377\r\n'; head -c 3000000 /dev/zero; printf z; printf e >&2`
	want := "a\x00\xff\r\n" + strings.Repeat("\x00", 3000000) + "z"
	for range 2 {
		r := s.operate("bytes", text)
		if string(r.Stdout) != want || string(r.Stderr) != "e" || r.Truncated() {
			e.Fatalf("%d and %q, dropped %d", len(r.Stdout), r.Stderr, r.StdoutDropped)
		}
	}
	for range 2 {
		r := s.operate("flood", "head -c 20000000 /dev/zero")
		if len(r.Stdout) != runtime.DefaultMaxOutput || r.StdoutDropped != 20000000-runtime.DefaultMaxOutput || r.StderrDropped != 0 {
			e.Fatalf("%d, dropped %d and %d", len(r.Stdout), r.StdoutDropped, r.StderrDropped)
		}
		r = s.exec(&runtime.SessionExecRequest{Command: []string{"head -c 20000000 /dev/zero"}, Operation: "flood", MaxOutput: 10})
		if len(r.Stdout) != 10 || r.StdoutDropped != 20000000-10 {
			e.Fatalf("%d, dropped %d", len(r.Stdout), r.StdoutDropped)
		}
	}
}

func operationCancel(e *env) {
	s, tag := e.shell(nil), newTag()
	s.prints("x=kept", "")
	running := s.begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{"echo part; sleep " + tag}, Operation: "run"})
	s.runs(tag, 1)
	waits := s.begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{"x=waited"}, Operation: "wait"})
	s.waiting(1)
	e.OK(s.cancel("wait"))
	if o := e.outcome(waits); !errors.Is(o.err, runtime.ErrConflict) {
		e.Errorf("what waited: %+v, %v", o.ExecResult, o.err)
	}
	e.OK(s.cancel("run"))
	r := s.result(running)
	if string(r.Stdout) != "part\n" || r.ExitCode != 130 || r.TimedOut {
		e.Errorf("what ran: %+v", r)
	}
	e.gone(tag)
	e.OK(s.cancel("run"))
	e.Wrong("an unknown one", s.cancel("other"), runtime.ErrNotFound)
	e.Wrong("one that was never begun", s.cancel("wait"), runtime.ErrNotFound)
	s.prints("echo $x", "kept\n")
	s.is("what was never begun is begun then", s.operate("wait", "x=waited"), "", "", 0)
	s.prints("echo $x", "waited\n")
}

func operationTimeout(e *env) {
	s := e.shell(nil)
	var slow [2]*runtime.ExecResult
	suite.Timeouts(func(timeout time.Duration) (came bool) {
		for i := range slow {
			slow[i] = s.exec(&runtime.SessionExecRequest{Command: []string{"echo part; sleep 1000"}, Operation: fmt.Sprint("slow", timeout), Timeout: timeout})
		}
		return len(slow[0].Stdout) > 0
	})
	for _, r := range slow {
		if !r.TimedOut || r.ExitCode != 124 || string(r.Stdout) != "part\n" {
			e.Errorf("got r %+v; want r.TimedOut and r.ExitCode == 124 and r.Stdout == %q", r, "part\n")
		}
	}
	r := s.operate("exits", "exit 3")
	if r.ExitCode != 3 || !r.Session.Ended {
		e.Errorf(`operate "exits" "exit 3": got r %+v, r.Session %+v; want r.ExitCode == 3 and r.Session.Ended`, r, r.Session)
	}
	s.alive()
}

// The end of a caller's context is not the operation's.
func operationLetGo(e *env) {
	s, tag := e.shell(nil), newTag()
	wait, open := s.gate()
	script := "echo begun; : " + tag + "; " + wait + "; echo over"
	ctx, cancel := context.WithCancel(e.Ctx)
	call := s.begin(ctx, &runtime.SessionExecRequest{Command: []string{script}, Operation: "op"})
	s.waiting(0)
	cancel()
	if o := e.outcome(call); !errors.Is(o.err, context.Canceled) {
		e.Errorf("outcome: got o.ExecResult %+v, o.err %v; want o.err is context.Canceled", o.ExecResult, o.err)
	}
	open()
	s.is("afterwards", s.operate("op", script), "begun\nover\n", "", 0)
}

// What is remembered is bounded, and the last one is among it.
func operationsForgotten(e *env) {
	s := e.shell(nil)
	s.prints("n=0", "")
	for i := range 40 {
		s.is("once", s.operate(fmt.Sprintf("op%d", i), "echo $((++n))"), fmt.Sprintf("%d\n", i+1), "", 0)
	}
	s.is("the last", s.operate("op39", "echo $((++n))"), "40\n", "", 0)
	s.is("one before it", s.operate("op20", "echo $((++n))"), "21\n", "", 0)
	s.is("the first, anew", s.operate("op0", "echo $((++n))"), "41\n", "", 0)
	const flood = "head -c 15000000 /dev/zero; echo $((++n))"
	for i := range 4 {
		if r := s.operate(fmt.Sprintf("flood%d", i), flood); len(r.Stdout) != 15000003 {
			e.Fatalf("%d bytes", len(r.Stdout))
		}
	}
	s.prints("echo $n", "45\n")
	s.operate("flood3", flood)
	s.prints("echo $n", "45\n")
	s.operate("flood0", flood)
	s.prints("echo $n", "46\n")
}

func operationErrors(e *env) {
	s := e.shell(nil)
	for _, name := range []string{".", "a b", strings.Repeat("x", 65), "ä", "a/b"} {
		_, err := s.rt.SessionExec(e.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{":"}, Operation: name})
		e.Wrong(name, err, runtime.ErrInvalid)
	}
	_, err := s.rt.SessionExec(e.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"cat"}, Operation: "a", Stdin: strings.NewReader("x")})
	e.Wrong("input", err, runtime.ErrInvalid)
	output := make(chan []byte)
	err = s.rt.SessionExecStream(e.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{":"}, Operation: "a"}, output)
	e.Wrong("a stream", err, runtime.ErrUnsupported)
	if _, open := <-output; open {
		e.Errorf("the stream is not closed")
	}
	_, err = s.rt.StartProcess(e.Ctx, s.SandboxID, &runtime.Command{Command: []string{"true"}, Operation: "a"})
	e.Wrong("without a session", err, runtime.ErrInvalid)
	_, err = s.rt.SessionExec(e.Ctx, runtime.SessionIn(s.SandboxID, "other"), &runtime.SessionExecRequest{Command: []string{":"}, Operation: "a"})
	e.Wrong("no such session", err, runtime.ErrNotFound)
	// A session that ends takes its operations with it, and leaves no caller waiting.
	call := s.begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{"sleep 1000"}, Operation: "sleeps"})
	s.waiting(0)
	next := s.begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{":"}, Operation: "next"})
	s.waiting(1)
	e.OK(s.rt.DestroySession(e.Ctx, s.ID))
	if o := e.outcome(call); o.err == nil && (o.Session == nil || !o.Session.Ended) {
		e.Errorf("what ran: %+v, %+v", o.ExecResult, o.Session)
	}
	if o := e.outcome(next); !errors.Is(o.err, runtime.ErrNotFound) {
		e.Errorf("what waited: %+v, %v", o.ExecResult, o.err)
	}
}
