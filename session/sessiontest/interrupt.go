package sessiontest

import (
	"context"
	"errors"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var interruptTests = []test{
	{"InterruptCancel", nil, interruptCancel},
	{"InterruptCancelStream", nil, interruptCancelStream},
	{"InterruptTimeout", nil, interruptTimeout},
	{"InterruptStubborn", nil, interruptStubborn},
	{"InterruptSparesJobs", nil, interruptSparesJobs},
	{"InterruptQueue", nil, interruptQueue},
}

// Canceling interrupts one command.
func interruptCancel(e *env) {
	s, other, tag, othertag := e.shell(nil), e.shell(nil), newTag(), newTag()
	s.prints("cd /usr; x=kept", "")
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	calls := s.begin(ctx, &runtime.SessionExecRequest{Command: []string{"sleep " + tag + "; x=after"}})
	spared := other.begin(e.Ctx, &runtime.SessionExecRequest{Command: []string{"sleep " + othertag}})
	e.runs(tag, 1)
	e.runs(othertag, 1)
	cancel()
	if o := e.outcome(calls); !errors.Is(o.err, context.Canceled) {
		e.Errorf("a canceled call: %+v, %v", o.ExecResult, o.err)
	}
	e.gone(tag)
	s.prints("pwd; echo $x", "/usr\nkept\n")
	s.same()
	s.alive()
	e.runs(othertag, 1)
	e.outside("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline | grep -q \"^sleep $1\" && kill ${p#/proc/}; done 2>/dev/null; true", othertag)
	if r := e.result(spared); r.ExitCode != 143 || r.Session.Ended {
		e.Errorf("the other session's: %+v, session %+v", r, r.Session)
	}
	other.same()
	other.alive()
}

// It makes no difference whether the output is read.
func interruptCancelStream(e *env) {
	for _, reads := range []bool{true, false} {
		s, tag := e.shell(nil), newTag()
		ctx, cancel := context.WithCancel(e.Ctx)
		output, ended, drained := make(chan []byte), make(chan struct{}), make(chan struct{})
		var err error
		go func() { // ends with the command
			err = s.rt.SessionExecStream(ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"sleep " + tag + " & head -c 100000000 /dev/zero; wait"}}, output)
			close(ended)
		}()
		drain := func() {
			for range output {
			}
			close(drained)
		}
		if reads {
			go drain() // ends with the channel
		}
		e.runs(tag, 1)
		cancel()
		e.Within("a canceled stream", ended)
		if !errors.Is(err, context.Canceled) {
			e.Errorf("a canceled stream says: %v", err)
		}
		if !reads {
			go drain() // ends with the channel
		}
		e.Within("close of the output", drained)
		e.gone(tag)
		s.alive()
		s.same()
	}
}

// A timeout keeps what was printed and the session, and has a code that a
// command may have as well.
func interruptTimeout(e *env) {
	s, tag := e.shell(nil), newTag()
	s.prints("x=kept", "")
	r := s.timesOut("echo out; echo err >&2; sleep "+tag+"; echo after; x=after", "out\n")
	if string(r.Stderr) != "err\n" || r.Session.Ended || r.Session.ShellCode == nil || *r.Session.ShellCode != 130 {
		s.Errorf("%+v, session %+v", r, r.Session)
	}
	s.gone(tag)
	s.prints("echo $x", "kept\n")
	s.same()
	s.does("(exit 124)", "", "", 124)
	r = s.exec(&runtime.SessionExecRequest{Command: []string{"echo quick; (exit 124)"}, Timeout: suite.Limit})
	s.is("in time", r, "quick\n", "", 124)
	if r.Session.ShellCode != nil {
		s.Errorf("in time the shell's own status is said to be %d", *r.Session.ShellCode)
	}
	if r := s.run("exit 124"); r.TimedOut || r.ExitCode != 124 || !r.Session.Ended {
		s.Errorf("exit 124: %+v, session %+v", r, r.Session)
	}
}

// A program that ignores the signal is killed, and the shell lives.
func interruptStubborn(e *env) {
	s, tag := e.shell(nil), newTag()
	for _, script := range []string{
		"echo a; sh -c 'trap \"\" INT TERM; while :; do sleep 0.1; done'",
		"echo a; (trap '' INT TERM; exec sleep " + tag + ")",
		"echo a; sh -c 'kill -STOP $$'; sleep " + tag,
	} {
		if r := s.timesOut(script, "a\n"); r.Session.Ended {
			s.Errorf("%s: session %+v", script, r.Session)
		}
		s.gone(tag)
		s.alive()
	}
	s.same()
}

// An interrupt is for the command, not for what earlier ones have started.
func interruptSparesJobs(e *env) {
	s, job, tag := e.shell(nil), newTag(), newTag()
	s.run("sleep " + job + " &")
	s.timesOut("sh -c 'trap \"\" INT TERM; sleep "+tag+"'", "")
	s.gone(tag)
	if n := s.count(job); n != 1 {
		s.Errorf("%d of the job's processes live, want 1", n)
	}
	s.same()
}

// The time begins with the command, not while it waits for its turn.
func interruptQueue(e *env) {
	s := e.shell(nil)
	var one, two *runtime.ExecResult
	suite.Timeouts(func(most time.Duration) (came bool) {
		wait, open := s.gate()
		first := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{wait}})
		s.waiting(0)
		second := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{"echo second"}, Timeout: most})
		s.waiting(1)
		time.Sleep(2 * most)
		s.waiting(1)
		open()
		one, two = s.result(first), s.result(second)
		return !two.TimedOut
	})
	s.is("first", one, "", "", 0)
	s.is("second", two, "second\n", "", 0)
}
