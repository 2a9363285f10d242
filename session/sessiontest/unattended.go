package sessiontest

import (
	"strings"

	"wolffia/runtime"
)

// What wants a person's keys, and there is no person.
var unattendedTests = []test{
	{"UnattendedRead", nil, unattendedRead},
	{"UnattendedKeys", nil, unattendedKeys},
	{"UnattendedStderrAsInput", nil, unattendedStderrAsInput},
	{"UnattendedModes", nil, unattendedModes},
	{"UnattendedVariables", nil, unattendedVariables},
	{"UnattendedVariablesAttached", nil, unattendedVariablesAttached},
}

// readsNothing fails unless a command that reads from the terminal fails at once, or is
// ended where the kernel lets it wait.
func (s *shell) readsNothing(command string) {
	s.Helper()
	r := s.run("echo a; " + command + "; echo $?")
	if s.has(TerminalEnd) {
		s.is(command, r, "a\n1\n", string(r.Stderr), 0)
	} else if string(r.Stdout) != "a\n" || !r.Session.WantedTerminal || r.TimedOut {
		s.Errorf("%s: %+v, session %+v (or %s is declared as lacking, and is there)", command, r, r.Session, TerminalEnd)
	}
}

func unattendedRead(e *env) {
	s := e.shell(nil)
	for _, command := range []string{
		"read x </dev/tty", "read -s x </dev/tty", "select x in 1 2; do :; done </dev/tty >/dev/null",
		`python3 -c 'import getpass; getpass.getpass()' 2>/dev/null`,
	} {
		s.readsNothing(command)
	}
	s.alive()
	s.same()
}

// A program that asks the terminal for keys is hung up, and the text continues, where the program
// is known; else the text ends. The shell lives in any case.
func unattendedKeys(e *env) {
	s := e.shell(nil)
	for _, command := range []string{
		"stty raw </dev/tty; head -c 1 </dev/tty",
		"stty sane </dev/tty; sh -c 'sh -c \"cat; :\" </dev/tty; :'",
		"stty raw </dev/tty; (trap '' HUP; head -c 1 </dev/tty)", // it is interrupted
		"read -n 1 x </dev/tty",
	} {
		if r := s.run("X=kept; " + command); !r.Session.WantedTerminal || r.ExitCode == 0 || r.TimedOut || r.Session.Ended {
			e.Errorf("%s: %+v, session %+v", command, r, r.Session)
		}
		s.alive()
	}
	s.prints("echo $X", "kept\n")
	s.same()
}

// Editors without any terminal wait for keys on the pipe of their errors.
func unattendedStderrAsInput(e *env) {
	s := e.shell(nil)
	r := s.run(`python3 -c 'import os, select; os.dup2(2, 0); select.select([0], [], [])'`)
	if !r.Session.WantedTerminal || r.ExitCode == 0 {
		e.Errorf("%+v, session %+v", r, r.Session)
	}
	s.alive()
}

// What changes the terminal's modes and does not wait for keys is left alone, and the
// modes are a command's own.
func unattendedModes(e *env) {
	s := e.shell(nil)
	s.prints("stty sane </dev/tty; sleep 1.6; echo slept", "slept\n")
	s.prints("stty raw </dev/tty; sh -c 'sleep 1.6; echo slept'; cat </dev/null", "slept\n")
	s.readsNothing("read x </dev/tty")
}

const asked = `echo "${EDITOR-none} ${PAGER-none} ${GIT_TERMINAL_PROMPT-none} ${DEBIAN_FRONTEND-none}"`

// Programs without a terminal are told to ask for nothing, unless the user says otherwise.
// On a terminal they are as usual.
func unattendedVariables(e *env) {
	if got := e.outside(asked); got != "true cat 0 noninteractive\n" {
		e.Errorf("outside of sessions: %q", got)
	}
	r, err := e.rt.Exec(e.Ctx, e.box, &runtime.ExecRequest{Command: []string{"sh", "-c", asked}, Env: map[string]string{"EDITOR": "ed", "PAGER": ""}})
	e.OK(err)
	if string(r.Stdout) != "ed  0 noninteractive\n" {
		e.Errorf("given: %q", r.Stdout)
	}
	s := e.shell(nil)
	s.prints(asked, "true cat 0 noninteractive\n")
	on := func(command, want string) {
		e.Helper()
		if shown, exit := s.onTerminal(command, ""); !strings.Contains(shown, want+"\r\n") || exit.ExitCode != 0 {
			e.Errorf("%s on a terminal: %q, %+v", command, shown, exit)
		}
	}
	on(asked, "none none none none")
	s.prints(asked, "true cat 0 noninteractive\n")
	on("set -u; EDITOR=ed; "+asked+"; set +u; unset -v PAGER", "ed none none none")
	s.prints(asked, "ed cat 0 noninteractive\n")
	s.prints("export EDITOR=vi", "")
	on(asked, "vi none none none")
	given := e.shell(&runtime.SessionConfig{Env: map[string]string{"EDITOR": "true", "PAGER": "less"}})
	given.prints(asked, "true less 0 noninteractive\n")
	if shown, _ := given.onTerminal(asked, ""); !strings.Contains(shown, "true less none none\r\n") {
		e.Errorf("given, on a terminal: %q", shown)
	}
}

func unattendedVariablesAttached(e *env) {
	s := e.shell(nil)
	s.prints("export GIT_TERMINAL_PROMPT=7", "")
	v := s.attach(runtime.AttachRequest{Rows: 24, Cols: 80})
	v.types(asked + "; echo end$((0))\n")
	v.sees("end0")
	v.sees("none none 7 none")
}
