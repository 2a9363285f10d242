package sessiontest

import (
	"fmt"
	"io"
	"path"
	"strings"

	"wolffia/runtime"
)

// What other processes of the sandbox do while a session is idle, or beside it.
var neighbourTests = []test{
	{"NeighbourRemovesPipes", nil, neighbourRemovesPipes},
	{"NeighbourWritesPipes", nil, neighbourWritesPipes},
	{"NeighbourWritesText", nil, neighbourWritesText},
	{"NeighbourCopiesShell", nil, neighbourCopiesShell},
	{"NeighbourKillsIdleShell", nil, neighbourKillsIdleShell},
	{"DaemonIsAJob", []Feature{Daemons}, daemonIsAJob},
	{"DaemonsAreTimedOut", []Feature{Daemons}, daemonsAreTimedOut},
	{"TerminalInputIsOneCommands", nil, terminalInputIsOneCommands},
	{"StateTooLarge", nil, stateTooLarge},
	{"CwdBeyondPathMax", []Feature{LongCwd}, cwdBeyondPathMax},
	{"CwdGone", nil, cwdGone},
}

// place is where a session's files are.
func (s *shell) place() string {
	s.Helper()
	r := s.run(`printf %s "${BASH_SOURCE%/*}"`)
	if !strings.HasPrefix(string(r.Stdout), "/") {
		s.Fatalf("the session's directory: %+v", r)
	}
	return string(r.Stdout)
}

// A session whose files were removed loses nothing of its next result.
func neighbourRemovesPipes(e *env) {
	for name, remove := range map[string]string{
		"as people do": `rm -rf "$1" "$1"/* /run/* 2>/dev/null; :`,
		// Again if PID 1 has made a pipe meanwhile, for the next command.
		"by force": `chmod 700 "${1%/*}" "$1"; for i in 1 2 3 4 5; do rm -rf "$1" 2>/dev/null && break; done`,
	} {
		s := e.shell(nil)
		place := s.place()
		s.prints("echo one", "one\n")
		e.outside(remove, place)
		s.does("echo two; echo err >&2; (exit 3)", "two\n", "err\n", 3)
		s.prints("mkfifo /tmp/go$$; (read x </tmp/go$$; "+strings.ReplaceAll(remove, `$1`, place)+"; echo >/tmp/gone$$) >/dev/null 2>&1 & mkfifo /tmp/gone$$", "")
		s.prints("echo >/tmp/go$$; read x </tmp/gone$$; wait 2>/dev/null; rm /tmp/go$$ /tmp/gone$$", "")
		s.does("echo three; echo err >&2; (exit 4)", "three\n", "err\n", 4)
		s.alive()
		if s.same(); e.Failed() {
			e.Log(name)
		}
	}
}

// The names of a session's files are not to be had for the asking, and those of one
// command are no good for the next.
func neighbourWritesPipes(e *env) {
	s := e.shell(nil)
	place := s.place()
	if got := e.outside(`ls "$1" "${1%/*}" 2>/dev/null; :`, place); got != "" {
		e.Errorf("ls of the sessions' directories prints %q", got)
	}
	r := s.run(`readlink /proc/self/fd/1`)
	stdout := strings.TrimSpace(string(r.Stdout))
	if path.Dir(stdout) != place {
		e.Fatalf("standard output is %q, and not in %q", stdout, place)
	}
	got := e.outside(`[ -e "$1" ] && echo there; ls -d "$2"/? 2>/dev/null; for n in o e i w x; do [ ! -e "$2/$n" ] || echo $n; done`+"\n:", stdout, place)
	if got != "" {
		e.Errorf("afterwards another process finds %q", got)
	}
	s.prints(fmt.Sprintf("(echo INJECTED >%s) 2>/dev/null; echo x", stdout), "x\n")
	s.alive()
	e.outside(`rm -f "$1"`, stdout) // what the line before has made of it
}

// A neighbour that overwrites a command's text by its name achieves at most that there is
// no status.
func neighbourWritesText(e *env) {
	s := e.shell(nil)
	text := s.place() + "/c"
	if got := e.outside(`{ echo 'echo INJECTED' >"$1"; } 2>/dev/null || echo refused`, text); got != "refused\n" {
		e.Errorf("to overwrite the text prints %q", got)
	}
	gate := s.place()
	s.prints("mkfifo /tmp/g$$ /tmp/h$$", "")
	pid := strings.TrimSpace(string(s.run("echo $$").Stdout))
	ended := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{"echo >/tmp/h$$; read x </tmp/g$$; echo x; (exit 5)"}})
	e.outside(fmt.Sprintf(`read x </tmp/h%[1]s; chmod 600 "$1"; echo 'echo ALL TESTS PASSED' >"$1"; echo >/tmp/g%[1]s`, pid), gate+"/c")
	r := e.result(ended)
	if string(r.Stdout) != "x\n" || r.ExitCode != lost || !r.Session.StatusLost {
		e.Errorf("a command whose text was overwritten: %+v, session %+v", r, r.Session)
	}
	s.alive()
	s.same()
}

// A copy of the shell that stays behind has its socket, and reads what is meant for the
// shell. So it may be that a status is not known; but none that it makes up is believed.
func neighbourCopiesShell(e *env) {
	s := e.shell(nil)
	s.run(`(for i in {1..200}; do
		n=$(timeout 0.02 cat <&10 | tr '\0' ' ')
		case $n in *000\'*) n=${n##*000\' }; builtin printf '\000%s 0 /\000' ${n%% *} >&10 ;; esac
	done) >/dev/null 2>&1 &`)
	for range 20 {
		r := s.run("echo x; (exit 6)")
		if ok := string(r.Stdout) == "x\n" && r.ExitCode == 6; !ok && !r.Session.StatusLost && !r.Session.Ended {
			e.Errorf("%+v, session %+v", r, r.Session)
		}
	}
	s.OK(s.rt.DestroySession(s.Ctx, s.ID))
}

// A command that was not begun when its shell was killed is run by the next.
func neighbourKillsIdleShell(e *env) {
	s := e.shell(nil)
	for range 15 {
		s.prints("v=1", "")
		e.outside(`kill -9 "$1"`, fmt.Sprint(s.get().PID))
		r := s.run("echo x; (exit 8)")
		if string(r.Stdout) != "x\n" || r.ExitCode != 8 || r.Session.Ended || r.Session.Restored == "" {
			e.Fatalf("after the shell was killed: %+v, session %+v", r, r.Session)
		}
	}
	s.alive()
}

// daemon starts one as people do.
func daemon(tag string) string {
	return "setsid sleep " + tag + " >/dev/null 2>&1 </dev/null & wait 2>/dev/null;"
}

// A daemon is a job of its session.
func daemonIsAJob(e *env) {
	s := e.shell(nil)
	tag := newTag()
	s.run(daemon(tag))
	e.runs(tag, 1)
	s.prints("echo next", "next\n")
	if all := s.jobs(); len(all) != 1 || len(all[0].PIDs) != 1 || all[0].State != "running" {
		e.Errorf("jobs %+v", all)
	}
	// A later command takes along only its own.
	other := newTag()
	s.timesOut(daemon(other)+" sleep 1000", "")
	e.gone(other)
	e.runs(tag, 1)
	s.OK(s.rt.DestroySession(s.Ctx, s.ID))
	e.gone(tag)
}

func daemonsAreTimedOut(e *env) {
	s := e.shell(nil)
	tag := newTag()
	s.timesOut(daemon(tag)+" echo a; sleep 1000", "a\n")
	e.gone(tag)
	s.alive()
	s.same()
}

// onTerminal runs a command on the session's terminal, types text into it, and returns
// what it shows.
func (s *shell) onTerminal(command, text string) (shown string, exit runtime.Result) {
	s.Helper()
	p, err := s.rt.StartProcess(s.Ctx, s.SandboxID, &runtime.Command{
		Command: []string{command}, Session: s.Name, TTY: true, OpenStdin: true, Rows: 24, Cols: 80,
	})
	s.OK(err)
	defer p.Close()
	_, err = io.WriteString(p.Stdin(), text)
	s.OK(err)
	s.OK(p.Stdin().Close())
	b, err := io.ReadAll(p.Stdout())
	s.OK(err)
	exit, err = p.Wait(s.Ctx)
	s.OK(err)
	return string(b), exit
}

// What is typed during one command, and the end of its input, is not read by the next.
func terminalInputIsOneCommands(e *env) {
	s := e.shell(nil)
	const script = `read x; echo "got $x"`
	for _, tt := range []struct{ typed, want string }{{"one\ntwo\n", "got one\r\n"}, {"three\n", "got three\r\n"}} {
		if shown, exit := s.onTerminal(script, tt.typed); exit.ExitCode != 0 || !strings.Contains(shown, tt.want) {
			e.Errorf("%q typed: %q, %+v", tt.typed, shown, exit)
		}
	}
	s.readsNothing("read x </dev/tty")
	s.alive()
}

// State that is more than is kept is not kept in part and called whole.
func stateTooLarge(e *env) {
	for _, make := range []string{
		`big=$(head -c 20000000 /dev/zero | tr '\0' x)`,
		`x=$(head -c 9000 /dev/zero | tr '\0' x); for i in {1..1900}; do declare "v$i=$x"; done`,
	} {
		s := e.shell(nil)
		s.prints("small=kept; "+make, "")
		r := s.run("exit 1")
		if !r.Session.Ended {
			e.Errorf("exit: %+v", r)
		}
		r = s.run(`echo ${#big} ${#v1} ${#v1900}`)
		if string(r.Stdout) != "0 0 0\n" && string(r.Stdout) != "20000000 0 0\n" && string(r.Stdout) != "0 9000 9000\n" || r.Session.Restored == "full" && string(r.Stdout) == "0 0 0\n" {
			e.Errorf("after %.40s: %+v, session %+v", make, r, r.Session)
		}
		s.alive()
		s.OK(s.rt.DestroySession(s.Ctx, s.ID))
	}
}

// A directory's name may be longer than the kernel takes at once.
func cwdBeyondPathMax(e *env) {
	s := e.shell(nil)
	r := s.run(`cd "$(mktemp -d)"; n=$(printf %0200d 0); for i in {1..30}; do mkdir $n && cd $n || break; done; echo "${#PWD}"`)
	pwd := strings.TrimSpace(string(s.run(`printf %s "$PWD"`).Stdout))
	if len(pwd) < 6000 {
		e.Fatalf("run: got %+v; want len(pwd) >= 6000", r)
	}
	if r = s.run(":"); r.Session.Cwd != pwd {
		e.Errorf("the directory is %d bytes long, and %d are told of", len(pwd), len(r.Session.Cwd))
	}
	s.run("exit 0")
	if r = s.run("pwd"); r.Session.Restored != "partial" || r.Session.Cwd == pwd {
		e.Errorf("the next shell: %+v, session %+v", r, r.Session)
	}
	s.alive()
}

// A shell that cannot go to where its predecessor was does not say that all is as it
// was.
func cwdGone(e *env) {
	s := e.shell(nil)
	s.prints(`d=$(mktemp -d); cd "$d"`, "")
	s.run(`rmdir "$d"; exit 0`)
	r := s.run("pwd")
	if r.Session.Restored != "partial" || string(r.Stdout) != r.Session.Cwd+"\n" {
		e.Errorf("%+v, session %+v", r, r.Session)
	}
	s.alive()
}
