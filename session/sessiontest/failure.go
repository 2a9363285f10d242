package sessiontest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

// failureTests are the ways in which the sessions of other systems have been
// seen to break, one test for each.
var failureTests = []test{
	{"FailureOpenInputWedgesShell", nil, openInput},
	{"FailureStdinEatsNextCommand", nil, stdinEats},
	{"FailureWrapperLosesChanges", nil, wrapperLoses},
	{"FailureExitPoisonsSession", nil, exitPoisons},
	{"FailureBackgroundHoldsCall", nil, backgroundHolds},
	{"FailureBackgroundBleeds", nil, backgroundBleeds},
	{"FailureTimeoutEndsSession", nil, timeoutEnds},
	{"FailureGrandchildrenSurviveTimeout", nil, grandchildrenSurvive},
	{"FailureDaemonsDieWithShell", []Feature{Daemons}, daemonsDie},
	{"FailureTimeoutLosesOutput", nil, timeoutLoses},
	{"FailureLargeOutputTruncated", nil, largeOutput},
	{"FailurePromptsBlock", nil, promptsBlock},
	{"FailureCallersInterleave", nil, callersInterleave},
	{"FailureMissingCommandCode", nil, missingCommand},
	{"FailureLongCommandCut", nil, longCommand},
	{"FailureStartFilesPrint", nil, startFiles},
}

// 1. A heredoc, a quote or a bracket that is not closed has the shell wait for
// more.
func openInput(e *env) {
	s := e.shell(nil)
	s.prints("cat <<EOF\na $((1+1))\n'b\nEOF\ncat <<'EOF'\n$c\nEOF", "a 2\n'b\n$c\n")
	for _, script := range []string{"echo 'open", `echo "open`, "echo `open", "echo $(open", "if true; then", "f() {", "case x in", "(", "[[ a", "x=(1 2"} {
		r := s.run("echo before\n" + script)
		if string(r.Stdout) != "before\n" || r.ExitCode == 0 || len(r.Stderr) == 0 || r.Session.Ended {
			s.Errorf("%s\n%+v, session %+v", script, r, r.Session)
		}
		s.alive()
	}
	r := s.run("cat <<EOF\nopen")
	if string(r.Stdout) != "open" && string(r.Stdout) != "open\n" {
		s.Errorf("an open heredoc: %q", r.Stdout)
	}
	s.alive()
	for _, script := range []string{"", " ", "\n\n", "# comment", "echo x # comment", "echo x;", "echo x\\\n"} {
		want := ""
		if strings.Contains(script, "echo") {
			want = "x\n"
		}
		s.prints(script, want)
	}
	s.same()
}

// 2. A command that reads its standard input gets what was meant for the shell.
func stdinEats(e *env) {
	s := e.shell(nil)
	s.prints("cat; echo next", "next\n")
	s.does("read x; echo rc=$?; cat >/dev/null; head -c 1; (exit 3)", "rc=1\n", "", 3)
	s.prints("bash -s; sh; python3 -; echo next", "next\n")
	r := s.exec(&runtime.SessionExecRequest{Command: []string{"read x; echo got $x"}, Stdin: strings.NewReader("one\necho injected\n")})
	s.is("read", r, "got one\n", "", 0)
	s.alive()
	s.same()
}

// 3. A wrapper around the command loses what it changes.
func wrapperLoses(e *env) {
	s := e.shell(nil)
	s.prints("(cd /; export A=1); cd /usr; export B=2; f() { echo f; }", "")
	r := s.does(`pwd; echo "${A-unset} $B"; f`, "/usr\nunset 2\nf\n", "", 0)
	if r.Session.Cwd != "/usr" {
		s.Errorf("the result's working directory is %q", r.Session.Cwd)
	}
}

// 4. exit, exec, set -e and set -u end the shell, or leave it useless.
func exitPoisons(e *env) {
	for script, code := range map[string]int{
		"exit 3": 3, "exec sh -c 'exit 5'": 5, "set -e; false; echo no": 1, "set -u; echo $unset; echo no": 1, "set -eu": 0, ": ${x:?}": 1,
	} {
		s := e.shell(nil)
		r := s.run(script)
		if r.ExitCode != code && !(code == 1 && r.ExitCode == 127) || len(r.Stdout) > 0 || r.TimedOut || r.Session.StatusLost {
			s.Errorf("%s: %+v, session %+v", script, r, r.Session)
		}
		s.run("set +eu") // if it lives on, the option does
		s.alive()
	}
}

// 5. The call returns when the command ends, though a child of it has its
// streams.
func backgroundHolds(e *env) {
	s, tag := e.shell(nil), newTag()
	for i, script := range []string{
		"sleep %s & echo hi", "setsid sleep %s & echo hi", "nohup sleep %s >nohup.out & disown; echo hi", "(sleep %s &) ; echo hi",
		`python3 -c 'import os,sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execvp("sleep", ["sleep", sys.argv[1]])
' %s; echo hi`,
	} {
		r := s.run(fmt.Sprintf(script, tag))
		if string(r.Stdout) != "hi\n" || r.ExitCode != 0 || r.TimedOut || r.Session.Ended {
			s.Errorf("%s: %+v, session %+v", script, r, r.Session)
		}
		s.runs(tag, i+1)
	}
	s.alive()
}

// 6. What a child prints later is not the next command's.
func backgroundBleeds(e *env) {
	s := e.shell(nil)
	s.prints("mkfifo gate; (read x <gate; echo late; echo late >&2; echo >printed) &", "")
	s.outside("echo >gate")
	// bash itself may have to say here that the job is done.
	if r := s.run("until [ -e printed ]; do sleep 0.02; done; wait; echo now"); string(r.Stdout) != "now\n" || bytes.HasPrefix(r.Stderr, []byte("late")) {
		s.Errorf(`run "until [ -e printed ]; do sleep 0.02; done; wait; echo now": got r %+v; want r.Stdout == %q and not bytes.HasPrefix(r.Stderr, []byte("late"))`,
			r, "now\n")
	}
	s.alive()
}

// 7. A timeout costs one command.
func timeoutEnds(e *env) {
	s, tag := e.shell(nil), newTag()
	s.prints("cd /usr; x=kept; f() { echo f; }", "")
	for range 3 {
		if r := s.timesOut("echo before; sleep "+tag+"; echo after", "before\n"); r.Session.Ended {
			s.Errorf("session %+v", r.Session)
		}
		s.alive()
	}
	s.prints("pwd; echo $x; f", "/usr\nkept\nf\n")
	s.same()
}

// 8. A timeout ends the whole family.
func grandchildrenSurvive(e *env) {
	s, tag := e.shell(nil), newTag()
	s.timesOut("sh -c 'sleep "+tag+" & setsid sleep "+tag+" & (trap \"\" INT TERM; sleep "+tag+") & sleep "+tag+"'", "")
	s.gone(tag)
	s.alive()
	s.same()
}

// 9. A daemon outlives the shell that has started it, and other sessions; only
// the end of its own session ends it.
func daemonsDie(e *env) {
	s, other, tag := e.shell(nil), e.shell(nil), newTag()
	s.prints("setsid sleep "+tag+" >/dev/null 2>&1 &", "")
	s.outside("setsid sleep " + tag + " >/dev/null 2>&1 &")
	s.runs(tag, 2)
	s.run("exit 3")
	s.alive()
	s.OK(s.rt.DestroySession(s.Ctx, other.ID))
	if n := s.count(tag); n != 2 {
		s.Errorf("%d of 2 daemons live", n)
	}
	s.OK(s.rt.DestroySession(s.Ctx, s.ID))
	s.runs(tag, 1)
}

// 10. What was printed before the time was over is there.
func timeoutLoses(e *env) {
	s, tag := e.shell(nil), newTag()
	script := "echo out; printf 'no newline'; echo err >&2; sh -c 'echo child'; sleep " + tag
	if r := s.timesOut(script, "out\nno newlinechild\n"); string(r.Stderr) != "err\n" {
		s.Errorf("stderr is %q", r.Stderr)
	}
	s.alive()
}

// 11. Much output, and long lines, come as they are.
func largeOutput(e *env) {
	s := e.shell(nil)
	var want bytes.Buffer
	for i := range 2_000_000 {
		fmt.Fprintln(&want, i+1)
	}
	for _, script := range []string{"seq 1 2000000", "seq 1 2000000 | tee /dev/stderr"} {
		r := s.exec(&runtime.SessionExecRequest{Command: []string{script}, MaxOutput: 64 << 20})
		if !bytes.Equal(r.Stdout, want.Bytes()) || r.Truncated() || r.ExitCode != 0 {
			s.Errorf("%s: of %d bytes came %d", script, want.Len(), len(r.Stdout))
		}
		if strings.Contains(script, "tee") && !bytes.Equal(r.Stderr, want.Bytes()) {
			s.Errorf("%s: on stderr of %d bytes came %d", script, want.Len(), len(r.Stderr))
		}
	}
	r := s.run("head -c 3000000 /dev/zero | base64 -w 0")
	if got := string(r.Stdout); got != strings.Repeat("A", 4_000_000) {
		s.Errorf("of a line of 4000000 bytes came %d", len(got))
	}
	s.alive()
}

// 12. A command that asks for input gets an end of file; it has no
// terminal to page on. So does what asks the terminal itself.
func promptsBlock(e *env) {
	s := e.shell(nil)
	s.prints("for n in 0 1 2; do test -t $n && echo $n; done; true", "")
	r := s.run(`read -p "go on? " x; echo "$?$x"; select y in a b; do :; done; python3 -c 'input()'; echo end`)
	if got := string(r.Stdout); !strings.HasPrefix(got, "1\n") || !strings.HasSuffix(got, "end\n") || r.ExitCode != 0 {
		s.Errorf("run: got r %+v; want got begins with %q and got ends with %q and r.ExitCode == 0", r, "1\n", "end\n")
	}
	s.alive()
	s.readsNothing("read x </dev/tty")
	s.alive()
	s.same()
}

// 13. Commands of several callers do not get into each other.
func callersInterleave(e *env) {
	s := e.shell(nil)
	const script = "for i in 1 2 3 4 5 6 7 8 9; do echo $me $i; /bin/true; echo $me >&2; done"
	for i, err := range suite.AtOnce(8, func(i int) error {
		me := fmt.Sprintf("caller%d", i)
		r, err := s.rt.SessionExec(s.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"me=" + me + "; " + script}})
		if err != nil {
			return err
		}
		var out strings.Builder
		for n := range 9 {
			fmt.Fprintf(&out, "%s %d\n", me, n+1)
		}
		if string(r.Stdout) != out.String() || string(r.Stderr) != strings.Repeat(me+"\n", 9) || r.ExitCode != 0 {
			return fmt.Errorf("%q, %q, %+v", r.Stdout, r.Stderr, r)
		}
		return nil
	}) {
		if err != nil {
			s.Errorf("%d: %v", i, err)
		}
	}
	s.same()
}

// 14. Codes are a shell's.
func missingCommand(e *env) {
	s := e.shell(nil)
	for script, code := range map[string]int{
		"no-such-command": 127, "/no/such/command": 127, "/etc/passwd": 126, "/": 126, "sh -c 'kill -9 $$'": 137, "false": 1, "(exit 255)": 255,
	} {
		r := s.run(script)
		if r.ExitCode != code || r.Session.Ended || (code == 126 || code == 127) && len(r.Stderr) == 0 {
			s.Errorf("%s: %+v, session %+v", script, r, r.Session)
		}
		if r.Signal != 0 {
			s.Errorf("%s: a command in a shell has signal %v", script, r.Signal)
		}
	}
	s.alive()
}

// 15. No line is too long.
func longCommand(e *env) {
	s := e.shell(nil)
	long := strings.Repeat("0123456789", 100_000)
	s.prints("x="+long+"; echo ${#x}", "1000000\n")
	s.prints("cat <<'EOF'\n"+long+"\nEOF", long+"\n")
	s.prints("n=0\n"+strings.Repeat("n=$((n+1))\n", 50_000)+"echo $n", "50000\n")
	s.prints("x='"+strings.Repeat("y", 4095)+"\n"+strings.Repeat("z", 5000)+"'; echo ${#x}", "9096\n")
	s.alive()
}

// 16. The user's start files print, or do not end.
func startFiles(e *env) {
	e.outside(`printf 'echo noise; echo noise >&2; export FROM_RC=1; alias hi="echo hi"\n' >~/.bashrc; cp ~/.bashrc ~/.profile; cp ~/.bashrc ~/.bash_profile`)
	s := e.shell(nil)
	s.prints("echo ${FROM_RC-unset}", "unset\n")
	s = e.shell(&runtime.SessionConfig{RC: true})
	s.prints("echo $FROM_RC\nhi", "1\nhi\n")
	s.alive()
	e.outside("for f in .bashrc .profile .bash_profile; do echo 'sleep 100000' >~/$f; done")
	s = e.shell(nil)
	s.prints("echo ok", "ok\n")
	s.exec(&runtime.SessionExecRequest{Command: []string{"true"}, Timeout: time.Minute})
}
