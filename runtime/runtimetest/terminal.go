package runtimetest

import (
	"bufio"
	"io"
	"reflect"
	"strings"
	"syscall"
	"time"

	"wolffia/runtime"
)

var terminalTests = []test{
	{"TerminalIsOne", []Feature{Terminal}, terminalIsOne},
	{"TerminalSize", []Feature{Terminal}, terminalSize},
	{"TerminalKeys", []Feature{Terminal}, terminalKeys},
	{"TerminalSignal", []Feature{Terminal}, terminalSignal},
	{"TerminalStops", []Feature{Terminal}, terminalStops},
	{"TerminalClose", []Feature{Terminal}, terminalClose},
}

func (e *env) terminal(id, script string) runtime.Process {
	e.Helper()
	return e.process(id, &runtime.Command{Command: sh(script), TTY: true, OpenStdin: true, Rows: 24, Cols: 80})
}

// lines waits for a line of a terminal that is so.
func (e *env) lines(p runtime.Process) func(want string) {
	r := bufio.NewReader(p.Stdout())
	return func(want string) {
		e.Helper()
		found := make(chan struct{})
		go func() { // ends with the stream
			for {
				line, err := r.ReadString('\n')
				if strings.TrimSpace(line) == want {
					close(found)
				}
				if err != nil || strings.TrimSpace(line) == want {
					return
				}
			}
		}()
		e.Within("wait for "+want, found)
	}
}

// All three descriptors are the terminal, and it controls the process.
func terminalIsOne(e *env) {
	s := e.common()
	p := e.terminal(s.ID, "test -t 0 && test -t 1 && test -t 2 && : </dev/tty && echo yes; echo err >&2; exit 3")
	if got := e.All(p.Stdout()); got != "yes\r\nerr\r\n" {
		e.Errorf("All: got %q, want %q", got, "yes\r\nerr\r\n")
	}
	if got := e.All(p.Stderr()); got != "" {
		e.Errorf("stderr is %q", got)
	}
	if exit := e.wait(p); !reflect.DeepEqual(exit, runtime.Result{ExitCode: 3}) {
		e.Errorf("wait: got %+v, want runtime.Result{ExitCode: 3}", exit)
	}
}

func terminalSize(e *env) {
	s := e.common()
	p := e.terminal(s.ID, "stty size; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.02; done")
	line := e.lines(p)
	line("24 80")
	line("ready")
	e.OK(p.Resize(50, 132))
	line("50 132")
	if exit := e.wait(p); exit.ExitCode != 5 {
		e.Errorf("wait: got exit %+v; want exit.ExitCode == 5", exit)
	}
	p = e.process(s.ID, &runtime.Command{Command: []string{"stty", "size"}, TTY: true})
	if got := e.All(p.Stdout()); got != "0 0\r\n" {
		e.Errorf("a terminal without a size has %q", got)
	}
	e.wait(p)
}

func terminalKeys(e *env) {
	s := e.common()
	p := e.terminal(s.ID, "echo ready; cat; echo end; exit 4") // ctrl-d
	line := e.lines(p)
	line("ready")
	_, err := io.WriteString(p.Stdin(), "typed\n\x04")
	e.OK(err)
	line("typed")
	line("end")
	if exit := e.wait(p); exit.ExitCode != 4 {
		e.Errorf("wait: got exit %+v; want exit.ExitCode == 4", exit)
	}
	for key, sig := range map[string]syscall.Signal{"\x03": syscall.SIGINT, "\x1c": syscall.SIGQUIT} {
		// No shell: dash may miss a signal that comes while it forks.
		p := e.process(s.ID, &runtime.Command{Command: []string{"cat"}, TTY: true, OpenStdin: true})
		_, err := io.WriteString(p.Stdin(), "typed\n")
		e.OK(err)
		e.Expect(p.Stdout(), "typed\r\ntyped\r\n") // the terminal's echo, and cat's
		_, err = io.WriteString(p.Stdin(), key)
		e.OK(err)
		if exit := e.wait(p); exit.Signal != sig {
			e.Errorf("%q: got exit %+v; want exit.Signal == %v", key, exit, sig)
		}
	}
}

func terminalSignal(e *env) {
	s := e.common()
	p := e.terminal(s.ID, "trap 'exit 7' USR1; echo ready; while :; do sleep 0.02; done")
	e.lines(p)("ready")
	e.OK(p.Signal(syscall.SIGUSR1))
	if exit := e.wait(p); exit.ExitCode != 7 {
		e.Errorf("wait: got exit %+v; want exit.ExitCode == 7", exit)
	}
}

// A program that stops itself goes on, since no shell would continue it: its process group is
// orphaned. A job of a shell stops.
func terminalStops(e *env) {
	s := e.common()
	for _, sig := range []string{"TSTP", "TTIN", "TTOU"} {
		r := e.exec(s.ID, &runtime.ExecRequest{Command: sh("kill -" + sig + " $$; echo on"), Timeout: time.Minute})
		if string(r.Stdout) != "on\n" || r.TimedOut {
			e.Errorf("%s: got r %+v; want r.Stdout == %q and not r.TimedOut", sig, r, "on\n")
		}
	}
	p := e.terminal(s.ID, "set -m; sleep 1000 & until read -r _ _ state _ </proc/$!/stat && test $state = T; do kill -TSTP %1; sleep 0.02; done; kill -KILL %1; exec sh -c 'exit 7'")
	if exit := e.wait(p); !reflect.DeepEqual(exit, runtime.Result{ExitCode: 7}) {
		e.Errorf("wait: got %+v, want runtime.Result{ExitCode: 7}", exit)
	}
}

func terminalClose(e *env) {
	s, tag := e.common(), newTag()
	p := e.terminal(s.ID, "trap '' HUP TERM; sleep "+tag+" & echo ready; sleep "+tag)
	e.lines(p)("ready")
	e.Until("two processes", func() bool { return e.count(s.ID, tag) == 2 })
	e.OK(p.Close())
	if exit := e.wait(p); exit.Signal != syscall.SIGKILL {
		e.Errorf("wait: got exit %+v; want exit.Signal == syscall.SIGKILL", exit)
	}
	e.gone(s.ID, tag)
}
