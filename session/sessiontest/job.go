package sessiontest

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"wolffia/runtime"
)

var jobTests = []test{
	{"JobLife", nil, jobLife},
	{"JobState", nil, jobState},
	{"JobOutputFrom", nil, jobOutputFrom},
	{"JobFollow", nil, jobFollow},
	{"JobOfCommand", nil, jobOfCommand},
	{"JobSignal", nil, jobSignal},
	{"JobKillTree", nil, jobKillTree},
	{"JobWaitCanceled", nil, jobWaitCanceled},
	{"JobOutlivesShell", nil, jobOutlivesShell},
	{"JobErrors", nil, jobErrors},
}

// job starts one.
func (s *shell) job(name, script string) *runtime.Job {
	s.Helper()
	j, err := s.rt.StartJob(s.Ctx, s.ID, name, &runtime.SessionExecRequest{Command: []string{script}})
	if err != nil {
		s.Fatalf("start job %q, %s: %v", name, script, err)
	}
	return j
}

// jobs lists those of the session.
func (s *shell) jobs() []*runtime.Job {
	s.Helper()
	all, err := s.rt.SessionJobs(s.Ctx, s.ID)
	s.OK(err)
	return all
}

// waitJob waits for the end of one.
func (s *shell) waitJob(job string) runtime.Result {
	s.Helper()
	exit, err := s.rt.WaitJob(s.Ctx, s.ID, job)
	if err != nil {
		s.Fatalf("wait for job %q: %v", job, err)
	}
	return exit
}

// output opens what a job has written; the test closes it.
func (s *shell) output(job string, stdout, stderr uint64, follow bool) runtime.Process {
	s.Helper()
	p, err := s.rt.JobOutput(s.Ctx, s.ID, job, stdout, stderr, follow)
	if err != nil {
		s.Fatalf("output of job %q: %v", job, err)
	}
	s.Cleanup(func() {
		if err := p.Close(); err != nil {
			s.Errorf("close the output of job %q: %v", job, err)
		}
	})
	return p
}

func jobLife(e *env) {
	s := e.shell(nil)
	wait, open := s.gate()
	j := s.job("server", "echo out; echo err >&2; "+wait+"; echo end; exit 3")
	if j.ID == "" || j.Name != "server" || j.Session != s.Name || j.State != "running" || len(j.PIDs) == 0 || !strings.HasPrefix(j.Command, "echo out") || j.StartedAt.IsZero() || j.ExitCode != nil || !j.EndedAt.IsZero() {
		e.Errorf("a new job is %+v", j)
	}
	second := s.job("", "exit 0")
	s.waitJob(second.ID)
	all := s.jobs()
	if len(all) != 2 || all[0].ID != j.ID || all[0].State != "running" || all[1].ID != second.ID || all[1].State != "ended" {
		e.Errorf("the list is %+v", all)
	}
	if got := s.get(); got.Jobs != 1 || got.State != runtime.SessionIdle {
		e.Errorf("the session is %+v", got)
	}
	s.alive()
	open()
	for _, name := range []string{j.ID, "server"} {
		if exit := s.waitJob(name); exit.ExitCode != 3 || exit.Session != nil && exit.Session.StatusLost {
			e.Errorf("%s: got exit %+v, exit.Session %+v; want exit.ExitCode == 3 and (exit.Session == nil or not exit.Session.StatusLost)",
				name, exit, exit.Session)
		}
	}
	got := s.jobs()[0]
	if got.State != "ended" || got.EndedAt.Before(got.StartedAt) || got.ExitCode == nil || *got.ExitCode != 3 || len(got.PIDs) > 0 || got.Stdout.End != 8 || got.Stderr.End != 4 {
		e.Errorf("at its end it is %+v", got)
	}
	if got := s.get(); got.Jobs != 0 {
		e.Errorf("the session is %+v", got)
	}
	s.same()
}

// A job has the session's state, and gives nothing back.
func jobState(e *env) {
	s := e.shell(nil)
	s.prints("cd /usr; v=plain; f() { echo f $1; }; shopt -s extglob", "")
	j, err := s.rt.StartJob(s.Ctx, s.ID, "", &runtime.SessionExecRequest{
		Command: []string{`pwd; f "$v"; echo $A; cd /; v=changed; cat; exit 0`}, Env: map[string]string{"A": "x  y"}, Cwd: "/etc",
	})
	e.OK(err)
	s.waitJob(j.ID)
	p := s.output(j.ID, 0, 0, false)
	if out, err := e.All(p.Stdout()), e.All(p.Stderr()); out != "/etc\nf plain\nx y\n" || err != "" {
		e.Errorf(`All: got %q, %q; want %q, ""`, out, err, "/etc\nf plain\nx y\n")
	}
	s.prints("pwd; echo $v ${A-unset}", "/usr\nplain unset\n")
	s.same()
}

func jobOutputFrom(e *env) {
	s := e.shell(nil)
	j := s.job("printer", "printf 0123456789; printf abcdef >&2")
	s.waitJob(j.ID)
	for _, tt := range []struct {
		out, err         uint64
		stdout, complain string
	}{
		{0, 0, "0123456789", "abcdef"},
		{4, 6, "456789", ""},
		{10, 2, "", "cdef"},
		{1000, 1000, "", ""},
		{runtime.FromEnd, 0, "", "abcdef"},
	} {
		p := s.output("printer", tt.out, tt.err, false)
		if out, err := e.All(p.Stdout()), e.All(p.Stderr()); out != tt.stdout || err != tt.complain {
			e.Errorf("from %d and %d: %q, %q", tt.out, tt.err, out, err)
		}
		if _, err := p.Wait(e.Ctx); err != nil {
			e.Error(err)
		}
	}
	// Of much, the end is kept.
	j = s.job("", "seq 1 1000000")
	s.waitJob(j.ID)
	all := s.jobs()
	st := all[len(all)-1].Stdout
	if st.End != 6888896 || st.Start >= st.End {
		e.Errorf("its output is said to be %+v", st)
	}
	got := e.All(s.output(j.ID, 0, 0, false).Stdout())
	if uint64(len(got)) != st.End-st.Start || !strings.HasSuffix(got, "999999\n1000000\n") {
		e.Errorf("%d bytes of %+v are there", len(got), st)
	}
}

// What a job will write comes when it is written, and its end is the end.
func jobFollow(e *env) {
	s := e.shell(nil)
	wait, open := s.gate()
	s.job("slow", "echo first; "+wait+"; echo second; echo err >&2")
	p, late := s.output("slow", 0, 0, true), s.output("slow", 6, 0, true)
	e.Expect(p.Stdout(), "first\n")
	open()
	e.Expect(late.Stdout(), "second\n")
	if out, err := e.All(p.Stdout()), e.All(p.Stderr()); out != "second\n" || err != "err\n" {
		e.Errorf("All: got %q, %q; want %q, %q", out, err, "second\n", "err\n")
	}
	if out := e.All(late.Stdout()); out != "" {
		e.Errorf(`All: got %q, want ""`, out)
	}
	for _, p := range []runtime.Process{p, late} {
		if _, err := p.Wait(e.Ctx); err != nil {
			e.Error(err)
		}
	}
	// To look away is not to stop it.
	s.job("on", "echo on; "+wait+"; echo went on")
	p = s.output("on", 0, 0, true)
	e.Expect(p.Stdout(), "on\n")
	e.OK(p.Close())
	open()
	if exit := s.waitJob("on"); exit.ExitCode != 0 {
		e.Errorf(`waitJob "on": got exit %+v; want exit.ExitCode == 0`, exit)
	}
	if out := e.All(s.output("on", 0, 0, false).Stdout()); out != "on\nwent on\n" {
		e.Errorf("All: got %q, want %q", out, "on\nwent on\n")
	}
}

// What a command has left running is a job as well, and what it writes is not
// lost.
func jobOfCommand(e *env) {
	s := e.shell(nil)
	wait, open := s.gate()
	s.run("(" + wait + "; echo late; echo complaint >&2) &")
	all := s.jobs()
	if len(all) != 1 || all[0].State != "running" || len(all[0].PIDs) == 0 || !strings.HasPrefix(all[0].Command, "(read gate") {
		e.Fatalf("the list is %+v", all)
	}
	s.alive() // none of its processes exists
	open()
	exit := s.waitJob(all[0].ID)
	if exit.Session == nil || !exit.Session.StatusLost {
		e.Errorf("%+v, session %+v", exit, exit.Session)
	}
	p := s.output(all[0].ID, 0, 0, true)
	if out, err := e.All(p.Stdout()), e.All(p.Stderr()); out != "late\n" || err != "complaint\n" {
		e.Errorf("All: got %q, %q; want %q, %q", out, err, "late\n", "complaint\n")
	}
}

func jobSignal(e *env) {
	s := e.shell(nil)
	wait, open := s.gate()
	s.job("trap", "trap 'echo usr; exit 7' USR1; echo ready; while :; do sleep 0.02; done")
	e.Expect(s.output("trap", 0, 0, true).Stdout(), "ready\n")
	e.OK(s.rt.SignalJob(e.Ctx, s.ID, "trap", syscall.SIGUSR1))
	if exit := s.waitJob("trap"); exit.ExitCode != 7 || exit.Session != nil && exit.Session.StatusLost {
		e.Errorf(`waitJob "trap": got exit %+v, exit.Session %+v; want exit.ExitCode == 7 and (exit.Session == nil or not exit.Session.StatusLost)`,
			exit, exit.Session)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGUSR2} {
		tag := newTag()
		s.job("dies", "sleep "+tag+"; echo no")
		e.runs(tag, 1)
		e.OK(s.rt.SignalJob(e.Ctx, s.ID, "dies", sig))
		if exit := s.waitJob("dies"); exit.ExitCode != 128+int(sig) || exit.Signal != sig || exit.Session != nil && exit.Session.StatusLost {
			e.Errorf(`waitJob "dies": got sig %v, exit %+v, exit.Session %+v; want exit.ExitCode == 128+int(sig), exit.Signal == sig and (exit.Session == nil or not exit.Session.StatusLost)`,
				sig, exit, exit.Session)
		}
	}
	s.job("stopped", wait)
	e.OK(s.rt.SignalJob(e.Ctx, s.ID, "stopped", syscall.SIGSTOP))
	e.Until("a stopped job", func() bool { all := s.jobs(); return all[len(all)-1].State == "stopped" })
	e.OK(s.rt.SignalJob(e.Ctx, s.ID, "stopped", syscall.SIGCONT))
	open()
	if exit := s.waitJob("stopped"); exit.ExitCode != 0 {
		e.Errorf(`waitJob "stopped": got exit %+v; want exit.ExitCode == 0`, exit)
	}
	s.alive()
	s.same()
}

// A signal is for all of a job, wherever its processes have gone.
func jobKillTree(e *env) {
	s, tag, other := e.shell(nil), newTag(), newTag()
	s.job("other", "sleep "+other)
	s.job("tree", "trap '' TERM; sleep "+tag+" & setsid sleep "+tag+" & (sleep "+tag+" &); sh -c 'sleep "+tag+"; :'; wait")
	e.runs(tag, 4)
	e.OK(s.rt.SignalJob(e.Ctx, s.ID, "tree", syscall.SIGKILL))
	s.waitJob("tree")
	e.gone(tag)
	e.runs(other, 1)
	s.alive()
	s.same()
}

// A job is not its watcher's.
func jobWaitCanceled(e *env) {
	s := e.shell(nil)
	wait, open := s.gate()
	s.job("slow", wait+"; exit 4")
	ctx, cancel := context.WithCancel(e.Ctx)
	ended := make(chan struct{})
	var err error
	go func() { // ends with ctx
		_, err = s.rt.WaitJob(ctx, s.ID, "slow")
		close(ended)
	}()
	s.alive()
	cancel()
	e.Within("a canceled wait", ended)
	if !errors.Is(err, context.Canceled) {
		e.Errorf("a canceled wait says: %v", err)
	}
	open()
	if exit := s.waitJob("slow"); exit.ExitCode != 4 {
		e.Errorf(`waitJob "slow": got exit %+v; want exit.ExitCode == 4`, exit)
	}
}

// A job outlives its shell and the commands of its session, not the session.
func jobOutlivesShell(e *env) {
	s, tag := e.shell(nil), newTag()
	s.job("stays", "sleep "+tag)
	s.run("sleep " + tag + " &")
	e.runs(tag, 2)
	s.timesOut("sleep 1000", "")
	s.run("exit 3")
	s.alive()
	e.runs(tag, 2)
	if all := s.jobs(); len(all) != 2 || all[0].State != "running" || all[1].State != "running" {
		e.Errorf(`jobs: got all %+v; want len(all) == 2 and all[0].State == "running" and all[1].State == "running"`, all)
	}
	e.OK(e.rt.DestroySession(e.Ctx, s.ID))
	e.gone(tag)
}

func jobErrors(e *env) {
	s := e.shell(nil)
	m := s.rt
	wait, open := s.gate()
	s.job("taken", wait)
	start := func(session runtime.SessionID, name, script string) error {
		_, err := m.StartJob(e.Ctx, session, name, &runtime.SessionExecRequest{Command: []string{script}})
		return err
	}
	e.Wrong("a taken name", start(s.ID, "taken", "true"), runtime.ErrExists)
	for _, name := range []string{"-a", "a b", "a/b", "12", strings.Repeat("x", 65)} {
		e.Wrong("job name "+name, start(s.ID, name, "true"), runtime.ErrInvalid)
	}
	e.Wrong("a NUL", start(s.ID, "", "echo \x00"), runtime.ErrInvalid)
	e.Wrong("no session", start(runtime.SessionIn(e.box, "nobody"), "", "true"), runtime.ErrNotFound)
	_, err := m.SessionJobs(e.Ctx, runtime.SessionIn(e.box, "nobody"))
	e.Wrong("jobs of nobody", err, runtime.ErrNotFound)
	_, err = m.WaitJob(e.Ctx, s.ID, "nobody")
	e.Wrong("wait for nobody", err, runtime.ErrNotFound)
	e.Wrong("signal to nobody", m.SignalJob(e.Ctx, s.ID, "nobody", syscall.SIGTERM), runtime.ErrNotFound)
	if p, err := m.JobOutput(e.Ctx, s.ID, "nobody", 0, 0, false); err == nil { // it may report the end late
		_, err = p.Wait(e.Ctx)
		e.Wrong("output of nobody", err, runtime.ErrNotFound)
		e.OK(p.Close())
	} else {
		e.Wrong("output of nobody", err, runtime.ErrNotFound)
	}
	s.job("syntax", "if true; then")
	if exit := s.waitJob("syntax"); exit.ExitCode == 0 {
		e.Errorf("a syntax error: %+v", exit)
	}
	open()
	s.waitJob("taken")
	s.job("taken", "exit 5") // it is free again, and names the new one
	if exit := s.waitJob("taken"); exit.ExitCode != 5 {
		e.Errorf(`waitJob "taken": got exit %+v; want exit.ExitCode == 5`, exit)
	}
	s.alive()
	s.same()
}
