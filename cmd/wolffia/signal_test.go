package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/probe"
	"wolffia/internal/host/statedir"
	"wolffia/internal/test/leak"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/runtime/bwrap"
)

// A box is a sandbox called "box" with a codebase, used by the real program.
type box struct {
	suite.T
	state, codebase string
}

func newBox(t *testing.T) *box {
	t.Helper()
	leak.Check(t)
	return newParallelBox(t)
}

// newParallelBox is newBox for a test that runs beside others, whose own would be leaks.
func newParallelBox(t *testing.T) *box {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	dir := t.TempDir()
	b := &box{T: suite.New(t), state: filepath.Join(dir, "state"), codebase: filepath.Join(dir, "codebase")}
	for _, d := range []string{filepath.Dir(dir), dir} { // the user to whom root drops must get here
		b.OK(os.Chmod(d, 0o755))
	}
	b.OK(os.Mkdir(b.codebase, 0o777))
	b.OK(os.Chmod(b.codebase, 0o777))
	t.Cleanup(func() {
		rt, err := local.New(&local.Options{StateDir: b.state, Binary: filepath.Join(testbin.Dir(t), "wolffia")}, bwrap.Backend())
		b.OK(err)
		defer rt.Close()
		shimtest.DestroyAll(t, rt)
	})
	b.says("create", "--codebase", b.codebase, "--name", "box")
	return b
}

// command is one of the program.
func (b *box) command(args ...string) *exec.Cmd {
	b.Helper()
	cmd := exec.CommandContext(b.Ctx, filepath.Join(testbin.Dir(b.TB), "wolffia"), args...)
	cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+b.state)
	return cmd
}

// says is what a command prints that must succeed.
func (b *box) says(args ...string) string {
	b.Helper()
	cmd := b.command(args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%q: got err %v, %s; want err == nil", args, err, errs.Bytes())
	}
	return string(out)
}

// A begun is a command that runs, and has said "begun" on a line of its own.
type begun struct {
	*exec.Cmd
	b     *box
	stdin io.WriteCloser
	rest  *bufio.Reader // of what it says
}

func (b *box) begin(args ...string) *begun {
	b.Helper()
	r := b.launch(b.command(args...))
	if line, err := r.rest.ReadString('\n'); err != nil || line != "begun\n" {
		b.Fatalf("%q says %q: %v", args, line, err)
	}
	return r
}

// launch starts a command; its errors go to stderr, if that is given.
func (b *box) launch(cmd *exec.Cmd, stderr ...*os.File) *begun {
	b.Helper()
	cmd.Stderr = append(stderr, os.Stderr)[0]
	stdin, err := cmd.StdinPipe()
	b.OK(err)
	stdout, err := cmd.StdoutPipe()
	b.OK(err)
	b.OK(cmd.Start())
	return &begun{cmd, b, stdin, bufio.NewReader(stdout)}
}

// connected reports whether it has a socket.
func (r *begun) connected() bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.Process.Pid))
	return slices.ContainsFunc(fds, func(fd string) bool {
		to, _ := os.Readlink(fd)
		return strings.HasPrefix(to, "socket:")
	})
}

// code is what it ends with; until then each signal is sent, the last again and again.
func (r *begun) code(signals ...syscall.Signal) int {
	r.b.Helper()
	ended := make(chan struct{})
	go func() { // ends with the command
		defer close(ended)
		_, _ = io.Copy(io.Discard, r.rest)
		_ = r.Wait()
	}()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for i := 0; ; i++ {
		if len(signals) > 0 {
			_ = r.Process.Signal(signals[min(i, len(signals)-1)])
		}
		for next := false; !next; {
			select {
			case <-ended:
				return r.ProcessState.ExitCode()
			case <-again.C:
				next = len(signals) > 1 // one alone is sent once
			}
		}
	}
}

// lacks sees to it that a command has not gone on to make the file "after", and that
// the session answers.
func (b *box) lacks(what string) {
	b.Helper()
	if got := b.says("exec", "--session", "s", "box", "--", "ls /workspace; echo alive"); got != "alive\n" {
		b.Errorf("%s: got %q, want %q", what, got, "alive\n")
	}
}

// SIGTERM and SIGHUP end all of a session's text, whatever the program in the foreground
// makes of them, and also one that waits for its turn.
func TestSignalEndsText(t *testing.T) {
	b := newBox(t)
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGHUP} {
		for what, text := range map[string]string{
			"program":  "echo begun; sleep 1000; touch after",
			"deaf":     "echo begun; sh -c 'trap \"\" INT TERM HUP; sleep 1000; sleep 1000'; touch after",
			"succeeds": "echo begun; sh -c 'trap \"exit 0\" INT TERM HUP; sleep 1000 & wait'; touch after",
			"loop":     "echo begun; while :; do :; done; touch after",
		} {
			what = fmt.Sprint(what, ", ", sig)
			if got, want := b.begin("exec", "--session", "s", "box", "--", text).code(sig), 128+int(sig); got != want {
				b.Errorf("%s: exit code %d, want %d", what, got, want)
			}
			b.lacks(what)
		}
		first := b.begin("exec", "-i", "--session", "s", "box", "--", "echo begun; read x")
		second := b.launch(b.command("exec", "--session", "s", "box", "--", "touch after"))
		b.Until("it waits", func() bool {
			return strings.Contains(b.says("session", "ls", "--json", "box"), `"waiting": 1`)
		})
		if got, want := second.code(sig), 128+int(sig); got != want {
			b.Errorf("waiting, %v: exit code %d, want %d", sig, got, want)
		}
		b.OK(first.stdin.Close())
		first.code()
		b.lacks("waiting")
	}
}

// A program outside of a session gets the signal, and its own exit code counts.
func TestSignalIsPassedOn(t *testing.T) {
	b := newBox(t)
	script := `trap "exit 9" TERM; trap "exit 8" HUP; trap "exit 7" INT; echo begun; while :; do sleep 0.01; done`
	for sig, want := range map[syscall.Signal]int{unix.SIGTERM: 9, unix.SIGHUP: 8, unix.SIGINT: 7} {
		for _, args := range [][]string{{"exec", "box"}, {"run", "--no-codebase"}} {
			if got := b.begin(append(args, "--", "sh", "-c", script)...).code(sig); got != want {
				b.Errorf("%v, %v: exit code %d, want %d", args, sig, got, want)
			}
		}
	}
	// The foreground of a session, too, gets what is not about us.
	text := `sh -c '` + script + `'; echo over; (exit 6)`
	if got := b.begin("exec", "--session", "s", "box", "--", text).code(unix.SIGINT); got != 6 {
		b.Errorf("session: exit code %d, want 6", got)
	}
}

// When it is said again we leave, though the program does not care, and take it along.
func TestSecondSignal(t *testing.T) {
	b := newBox(t)
	deaf := `trap "" INT TERM HUP; echo begun; echo $$ >pid; while :; do sleep 0.01; done`
	for sig, want := range map[syscall.Signal]int{unix.SIGTERM: 143, unix.SIGHUP: 129, unix.SIGINT: 130} {
		if got := b.begin("exec", "box", "--", "sh", "-c", deaf).code(sig, sig); got != want {
			b.Errorf("%v: exit code %d, want %d", sig, got, want)
		}
		b.says("exec", "box", "--", "sh", "-c", "while kill -0 $(cat pid) 2>/dev/null; do :; done; rm pid")
	}
	if got := b.begin("run", "--no-codebase", "--", "sh", "-c", deaf).code(unix.SIGTERM, unix.SIGTERM); got != 143 {
		b.Errorf("run: exit code %d, want 143", got)
	}
	if got := strings.Fields(b.says("ls", "-q")); len(got) != 1 {
		b.Errorf("run has left %q", got)
	}
}

// A command in a session that ignores ctrl-c ends with the third, and the second says so.
func TestThirdInterrupt(t *testing.T) {
	b := newBox(t)
	cmd := b.command("exec", "--session", "s", "box", "--",
		`sh -c 'trap "" INT; echo $$ >pid; echo begun; while :; do sleep 0.01; done'; touch after`)
	file, err := os.Create(filepath.Join(b.TempDir(), "stderr"))
	b.OK(err)
	defer file.Close()
	r := b.launch(cmd, file)
	if line, err := r.rest.ReadString('\n'); err != nil || line != "begun\n" {
		b.Fatalf("ReadString: got %q, %v; want %q, nil", line, err, "begun\n")
	}
	if got := r.code(unix.SIGINT, unix.SIGINT); got != 130 {
		b.Errorf("exit code %d, want 130", got)
	}
	if said, err := os.ReadFile(file.Name()); err != nil || string(said) != "wolffia: the command runs on: press ctrl-c again to end it\n" {
		b.Errorf("os.ReadFile: got %q, %v; want %q, nil", said, err, "wolffia: the command runs on: press ctrl-c again to end it\n")
	}
	b.says("exec", "box", "--", "sh", "-c", "while kill -0 $(cat pid) 2>/dev/null; do :; done; rm pid")
	b.lacks("after the third")
}

// A sandbox that does not answer does not keep us.
func TestSignalsOfHungSandbox(t *testing.T) {
	b := newBox(t)
	dir, err := statedir.Open(b.state)
	b.OK(err)
	pid := dir.Record(strings.TrimSpace(b.says("ls", "-q"))).Processes().Shim().PID
	b.says("exec", "--session", "s", "box", "--", ":")
	for sig, want := range map[syscall.Signal]int{unix.SIGTERM: 143, unix.SIGHUP: 129, unix.SIGINT: 130} {
		for _, args := range [][]string{{"exec", "--session", "s", "box", "--", "echo begun; sleep 1000; touch after"}, {"exec", "box", "--", "sh", "-c", "echo begun; sleep 1000"}} {
			running := b.begin(args...)
			b.OK(unix.Kill(pid, unix.SIGSTOP))
			asks := b.launch(b.command(args...)) // no server answers this one
			b.Until("it asks", asks.connected)
			if got := running.code(sig, sig); got != want {
				b.Errorf("%v, %q, running: exit code %d, want %d", sig, args, got, want)
			}
			if got := asks.code(sig, sig); got != want {
				b.Errorf("%v, %q, asking: exit code %d, want %d", sig, args, got, want)
			}
			b.OK(unix.Kill(pid, unix.SIGCONT))
		}
		b.lacks(sig.String())
	}
}

// What nohup has us ignore is nothing to us.
func TestNohup(t *testing.T) {
	b := newBox(t)
	cmd := b.command("exec", "-i", "--session", "s", "box", "--", "echo begun; read x; echo over")
	cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`}, append([]string{cmd.Path}, cmd.Args[1:]...)...)
	sh, err := exec.LookPath("sh")
	b.OK(err)
	cmd.Path = sh
	r := b.launch(cmd)
	if line, err := r.rest.ReadString('\n'); err != nil || line != "begun\n" {
		b.Fatalf("ReadString: got %q, %v; want %q, nil", line, err, "begun\n")
	}
	b.OK(r.Process.Signal(unix.SIGHUP))
	_, err = r.stdin.Write([]byte("line\n"))
	b.OK(err)
	line, err := r.rest.ReadString('\n')
	if code := r.code(); code != 0 || line != "over\n" {
		b.Errorf("%q, %v, exit code %d", line, err, code)
	}
}

// A terminal that is closed gives up the session's command that has it: no end of input
// is made of it, after which the text would go on; and it ends a program.
func TestTerminalCloses(t *testing.T) {
	b := newBox(t)
	for what, args := range map[string][]string{
		"session": {"exec", "-it", "--session", "s", "box", "--", "echo begun; read x; touch after"},
		"deaf":    {"exec", "-it", "--session", "s", "box", "--", "trap '' HUP; echo begun; read x; touch after"},
		"program": {"exec", "-it", "box", "--", "bash", "-c", "echo begun; read x; touch after"},
	} {
		for range 5 {
			master, slave := openTerminal(b)
			cmd := b.command(args...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			b.OK(cmd.Start())
			b.OK(slave.Close())
			r := bufio.NewReader(master)
			for line := ""; !strings.HasPrefix(line, "begun"); {
				var err error
				if line, err = r.ReadString('\n'); err != nil {
					b.Fatalf("%s: got line %q, err %v; want err == nil", what, line, err)
				}
			}
			b.OK(master.Close())
			if err := cmd.Wait(); err == nil {
				b.Errorf("%s: its end was a success", what)
			}
			b.lacks(what)
		}
	}
}

// openTerminal opens a terminal, and its other end.
func openTerminal(b *box) (master, slave *os.File) {
	b.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	b.OK(err)
	b.OK(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	b.OK(err)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	b.OK(err)
	return os.NewFile(uintptr(fd), "terminal"), slave
}
