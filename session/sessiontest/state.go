package sessiontest

import "wolffia/runtime"

var stateTests = []test{
	{"StateStays", nil, stateStays},
	{"StateConfig", nil, stateConfig},
	{"StateTerminalStops", nil, stateTerminalStops},
	{"StateStackLimit", nil, stateStackLimit},
	{"StateOfOneCommand", nil, stateOfOneCommand},
	{"StateIsOneSessions", nil, stateIsOneSessions},
	{"StateOddCwd", nil, stateOddCwd},
}

// A change by one command is visible to the next.
func stateStays(e *env) {
	s := e.shell(nil)
	for _, tt := range []struct{ change, look, want string }{
		{"cd /usr", "pwd", "/usr\n"},
		{"cd bin", "pwd; echo $OLDPWD", "/usr/bin\n/usr\n"},
		{"export E='a  b'", `sh -c 'echo "$E"'`, "a  b\n"},
		{"v=plain", `echo $v; sh -c 'echo ${v-unset}'`, "plain\nunset\n"},
		{"a=(1 '2 3'); declare -A m=([k]='v w')", `echo ${#a[@]} "${a[1]}" "${m[k]}"`, "2 2 3 v w\n"},
		{"declare -i n=2; readonly r=3", "n=n*21; echo $n $r", "42 3\n"},
		{"f() { echo \"f $1\"; return 4; }", "f x; echo $?", "f x\n4\n"},
		{"alias hi='echo hi there'", "hi", "hi there\n"},
		{"set -f; set -o pipefail; shopt -s extglob", `echo *; false | true; echo $?; [[ aab == +(a)b ]]; echo $?`, "*\n1\n0\n"},
		{"set +f +o pipefail", `cd /; false | true; echo $?`, "0\n"},
		{"umask 027", "umask", "0027\n"},
		{"trap 'echo trapped' USR1", "kill -USR1 $$; :", "trapped\n"},
		{"set -- one 'two three'", `echo $# "$2"`, "2 two three\n"},
		{"exec 5>fd5; echo through >&5", "echo again >&5; cat fd5", "through\nagain\n"},
		{"(exit 9)", "echo $?", "9\n"},
		{"ulimit -c 0; hash -p /bin/true truth", "ulimit -c; truth; echo $?", "0\n0\n"},
		{"IFS=:", `x=a:b; set -- $x; echo $#; unset IFS`, "2\n"},
	} {
		if tt.change == "exec 5>fd5; echo through >&5" {
			s.prints("cd ~", "")
		}
		r := s.run(tt.change)
		if len(r.Stdout)+len(r.Stderr) > 0 || r.Session.Ended {
			s.Errorf("%s: %+v, session %+v", tt.change, r, r.Session)
		}
		s.prints(tt.look, tt.want)
	}
	s.same()
}

func stateConfig(e *env) {
	s := e.shell(&runtime.SessionConfig{Name: "configured", Shell: "bash", Cwd: "/usr", Env: map[string]string{"A": "b  c"}, Rows: 30, Cols: 100})
	s.prints(`pwd; sh -c 'echo "$A"'; stty size </dev/tty`, "/usr\nb  c\n30 100\n")
	if s.Cwd != "/usr" || s.Name != "configured" {
		s.Errorf(`shell: got s.Session %+v; want s.Cwd == "/usr" and s.Name == "configured"`, s.Session)
	}
	s = e.shell(&runtime.SessionConfig{Shell: "sh"})
	s.prints("x=1; echo $x; stty size </dev/tty", "1\n24 80\n")
	s.alive()
	s.prints("echo $x", "1\n")
	s = e.shell(&runtime.SessionConfig{Shell: "/bin/sh"})
	s.alive()
}

// Env and Cwd of a request end with it.
func stateOfOneCommand(e *env) {
	s := e.shell(nil)
	s.prints("cd /usr; export A=session; B=plain", "")
	r := s.exec(&runtime.SessionExecRequest{
		Command: []string{`pwd; echo "$A $B $C"; sh -c 'echo "$A $B $C"'`}, Cwd: "/etc", Env: map[string]string{"A": "x  y", "B": "b", "C": "'\"$c"},
	})
	s.is("with Env and Cwd", r, "/etc\nx  y b '\"$c\nx  y b '\"$c\n", "", 0)
	s.prints(`pwd; echo "$A $B ${C-unset}"; sh -c 'echo "$A ${B-unset}"'`, "/usr\nsession plain unset\nsession unset\n")
	r, err := s.rt.SessionExec(s.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"echo ran"}, Cwd: "/missing"})
	if err == nil && (r.ExitCode == 0 || len(r.Stdout) > 0) || err != nil && runtime.Class(err) == nil {
		s.Errorf("in a directory that is not there: %+v, %v", r, err)
	}
	s.alive()
	s.prints("pwd", "/usr\n")
}

// Sessions have nothing of each other.
func stateIsOneSessions(e *env) {
	a, b := e.shell(nil), e.shell(nil)
	a.prints("cd /usr; export A=a; f() { :; }; alias hi='echo a'", "")
	b.prints("pwd | grep /usr; echo ${A-unset}; type f hi 2>/dev/null; true", "unset\n")
	a.run("exit 3")
	b.same()
	b.alive()
}

// A working directory may have any name, or none any more.
func stateOddCwd(e *env) {
	s := e.shell(nil)
	for _, name := range []string{"new\nline", "sp ace'\"$x", "\x01\x7f\x1b", "é", "-n"} {
		r := s.exec(&runtime.SessionExecRequest{Command: []string{`cd ~ && mkdir -p -- "$D" && cd -- "$D"`}, Env: map[string]string{"D": name}})
		s.is("cd", r, "", "", 0)
		home := s.outside("cd && pwd")
		if want := home[:len(home)-1] + "/" + name; r.Session.Cwd != want {
			s.Errorf("the working directory is %q, want %q", r.Session.Cwd, want)
		}
		s.alive()
	}
	s.prints(`mkdir ~/gone && cd ~/gone && rmdir ~/gone`, "")
	s.alive()
	s.prints("cd /", "")
	s.same()
}

// A program in the background that reads typed input is stopped, or waits; in either case the
// session continues.
func stateTerminalStops(e *env) {
	s := e.shell(nil)
	s.run("cat </dev/tty >/dev/null 2>&1 &")
	stopped := func() bool { return string(s.run("jobs -s").Stdout) != "" }
	if e.has(TerminalStops) {
		e.Until("the program is stopped", stopped)
	} else {
		s.run("sleep 0.3")
		if stopped() {
			e.Errorf("%s is declared as lacking, and is there", TerminalStops)
		}
	}
	s.alive()
	s.same()
}

// A limit of the stack binds the shell itself, or does it no harm.
func stateStackLimit(e *env) {
	s := e.shell(nil)
	r := s.run("f() { [ $1 -eq 0 ] || f $(($1-1)); }; (ulimit -s 200; f 1000) 2>/dev/null")
	if bound := r.ExitCode == 139; bound != e.has(StackLimit) || !bound && r.ExitCode != 0 {
		e.Errorf("a thousand calls with a stack of 200 kB: exit code %d", r.ExitCode)
	}
	s.alive()
	s.same()
}
