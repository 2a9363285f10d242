package server_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
)

// program starts wolffia serve as a process of its own, which is killed with the
// test.
func (w *world) program() *exec.Cmd {
	w.Helper()
	cmd := exec.Command(filepath.Join(testbin.Dir(w.TB), "wolffia"), "--state-dir", w.state, "serve", "--codebase", w.codebase)
	log, err := os.OpenFile(filepath.Join(w.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	w.OK(err)
	defer log.Close()
	cmd.Stderr = log
	w.OK(cmd.Start())
	w.Cleanup(func() { kill(cmd) })
	w.socket = filepath.Join(w.state, "service", "sock")
	w.client.CloseIdleConnections()
	w.Until("it serves", func() bool {
		if w.Ctx.Err() != nil {
			w.Fatal("it does not serve")
		}
		r := w.call(w.Ctx, "scanRunningSandboxes", m{})
		return r.err == nil && r.status == http.StatusOK
	})
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// The service is killed while commands run for many owners. They go on, and the
// next service answers who asks for them again with all that they have said.
func TestKilledServiceLosesNoOutput(t *testing.T) {
	w := newWorld(t, nil)
	w.OK(w.server.Close()) // the program has its turn
	w.OK(w.service.Close())
	service := w.program()
	const owners = 10
	ids := make([]string, owners)
	for _, err := range suite.AtOnce(owners, func(i int) error {
		r := w.call(w.Ctx, "createSandbox", by(owner(i), nil))
		if ids[i] = r.SandboxID; r.status != 201 {
			return fmt.Errorf("%s (%v)", r.body, r.err)
		}
		return nil
	}) {
		w.OK(err)
	}
	bash := func(i int, command, operation string) *reply {
		more := m{"sandboxId": ids[i], "command": command}
		if operation != "" {
			more["operationId"] = operation
		}
		return w.call(w.Ctx, "executeBash", by(owner(i), more))
	}
	shells := make([]string, owners)
	for i := range owners {
		r := bash(i, fmt.Sprintf("cd /tmp; A=kept%d; mkfifo go; (read x <go; echo job $x >done) & echo $$", i), "")
		w.is("state", r, 200, "")
		shells[i] = r.Stdout
	}
	command := func(i int) string {
		return fmt.Sprintf("echo begun%d; : >/workspace/begun%d; head -c 100000 /dev/zero | tr '\\0' x; until [ -e /workspace/go ]; do sleep 0.05; done; echo; echo over; (exit %d)", i, i, i)
	}
	lost := make(chan *reply, owners)
	for i := range owners {
		go func() { lost <- bash(i, command(i), "op-1") }() // ends with the service
	}
	w.Until("all have begun", func() bool {
		begun, err := filepath.Glob(w.file("begun*"))
		return err == nil && len(begun) == owners
	})
	kill(service)
	for range owners {
		if r := <-lost; r.err == nil {
			t.Errorf("an answer of a service that was killed: %d %s", r.status, r.body)
		}
	}

	w.T = suite.New(t)
	begin := time.Now()
	w.program()
	t.Logf("serving after %v", time.Since(begin))
	time.AfterFunc(50*time.Millisecond, func() { _ = os.WriteFile(w.file("go"), nil, 0o666) }) // while they are asked for, or not
	want := func(i int) string { return fmt.Sprintf("begun%d\n%s\nover\n", i, strings.Repeat("x", 100000)) }
	for _, err := range suite.AtOnce(owners, func(i int) error {
		r := bash(i, command(i), "op-1")
		if r.status != 200 || r.Stdout != want(i) || r.ExitCode != i || r.Truncated {
			return fmt.Errorf("owner %d: %d, %d bytes, %d (%v) %.200s", i, r.status, len(r.Stdout), r.ExitCode, r.err, r.body)
		}
		r = bash(i, fmt.Sprintf("echo $$; echo $A; echo %d >go; wait; cat done", i), "")
		if r.Stdout != fmt.Sprintf("%skept%d\njob %d\n", shells[i], i, i) {
			return fmt.Errorf("owner %d: the state is %s", i, r.body)
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	// What goes on can be ended.
	r := w.call(w.Ctx, "cancelOperation", by(owner(0), m{"sandboxId": ids[0], "operationId": "none"}))
	w.is("cancel none", r, 404, "notFound")
	r = w.call(w.Ctx, "cancelOperation", by(owner(1), m{"sandboxId": ids[0], "operationId": "op-1"}))
	w.is("cancel a stranger's", r, 404, "notFound")
	slow := make(chan *reply, 1)
	go func() { // ends with the operation
		slow <- bash(0, "echo part; sh -c ': >/workspace/slow; exec sleep 1000'", "slow")
	}()
	w.Until("it has begun", func() bool { return exists(w.file("slow")) })
	w.is("cancel", w.call(w.Ctx, "cancelOperation", by(owner(0), m{"sandboxId": ids[0], "operationId": "slow"})), 200, "")
	if r := <-slow; r.status != 200 || r.ExitCode != 130 || r.Stdout != "part\n" {
		t.Errorf("canceled: %d %s", r.status, r.body)
	}
	w.is("another command", bash(0, "echo other", "op-1"), 409, "exists")
	w.is("a name", bash(0, "echo other", "a b"), 400, "invalid")
}

// The first signal lets what runs go on, the second ends it at once.
func TestSecondSignal(t *testing.T) {
	w := newWorld(t, nil)
	w.OK(w.server.Close()) // the program has its turn
	w.OK(w.service.Close())
	service := w.program()
	id := w.box(zoe)
	answer := make(chan *reply, 1)
	go func() { // ends with the service
		answer <- w.call(w.Ctx, "executeBash", by(zoe, m{"sandboxId": id, "command": ": >/workspace/begun; sleep 1000"}))
	}()
	w.Until("it has begun", func() bool { return exists(w.file("begun")) })
	w.OK(service.Process.Signal(syscall.SIGTERM))
	w.Until("no client can connect", func() bool { return !exists(w.socket) })
	select {
	case r := <-answer:
		t.Errorf("it was cut off: %d %s (%v)", r.status, r.body, r.err)
	default:
	}
	begin := time.Now()
	w.OK(service.Process.Signal(syscall.SIGTERM))
	err := service.Wait()
	if took := time.Since(begin); service.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) || took > 20*time.Second {
		t.Errorf("it ended with %v after %v", err, took)
	}
	<-answer
	w.program()
	if got := w.bash(zoe, id, "while pgrep -x sleep >/dev/null; do :; done; echo none"); got != "none\n" {
		t.Errorf("afterwards: %q", got)
	}
}

func (w *world) file(name string) string { return filepath.Join(w.codebase, name) }
