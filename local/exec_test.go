package local_test

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"wolffia/runtime"
	"wolffia/wire"
)

// A request that is too long is refused with the bound and a way out, before anything of
// it is sent: other commands on the connection go on.
func TestTooLong(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	s, err := rt.CreateSession(t.Context(), id, &runtime.SessionConfig{Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{"cat"}, OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	long := ": " + strings.Repeat("x", wire.MaxStart)
	exec := func(req *runtime.ExecRequest) error {
		_, err := rt.Exec(t.Context(), id, req)
		return err
	}
	inSession := func(req *runtime.SessionExecRequest) error {
		_, err := rt.SessionExec(t.Context(), s.ID, req)
		return err
	}
	for what, ask := range map[string]func() error{
		"arguments":           func() error { return exec(&runtime.ExecRequest{Command: []string{"true", long}}) },
		"directory":           func() error { return exec(&runtime.ExecRequest{Command: []string{"true"}, Cwd: "/" + long}) },
		"text":                func() error { return inSession(&runtime.SessionExecRequest{Command: []string{long}}) },
		"session's directory": func() error { return inSession(&runtime.SessionExecRequest{Command: []string{":"}, Cwd: "/" + long}) },
		"session's variables": func() error {
			return inSession(&runtime.SessionExecRequest{Command: []string{":"}, Env: map[string]string{"A": long}})
		},
		"variables": func() error {
			return exec(&runtime.ExecRequest{Command: []string{"true"}, Env: map[string]string{"A": long}})
		},
		"process": func() error {
			_, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{long}, Session: "main", Create: true})
			return err
		},
		"job": func() error {
			_, err := rt.StartJob(t.Context(), s.ID, "job", &runtime.SessionExecRequest{Command: []string{long}})
			return err
		},
		"session": func() error {
			_, err := rt.CreateSession(t.Context(), id, &runtime.SessionConfig{Name: "long", Env: map[string]string{"A": long}})
			return err
		},
	} {
		err := ask()
		if !errors.Is(err, runtime.ErrInvalid) || errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
			continue
		}
		for _, want := range []string{"at most 4194304 ", "to a file", "standard input"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", what, err, want)
			}
		}
	}

	// The longest text that fits is run.
	fits := ": " + strings.Repeat("x", wire.MaxStart-100) + "; echo ran"
	res, err := rt.SessionExec(t.Context(), s.ID, &runtime.SessionExecRequest{Command: []string{fits}})
	if err != nil || string(res.Stdout) != "ran\n" {
		t.Errorf("a text of %d bytes: %+v, %v", len(fits), res, err)
	}
	if _, err := other.Stdin().Write([]byte("alive")); err != nil {
		t.Fatal(err)
	}
	if err := other.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := other.Stdout().Read(b); err != nil || string(b[:n]) != "alive" {
		t.Errorf("the other command: %q, %v", b[:n], err)
	}
}

// A session's command whose input cannot be read to its end is given up, and the rest of
// the text is not run; the shell stays.
func TestSessionStdinFails(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	s, err := rt.CreateSession(t.Context(), id, &runtime.SessionConfig{Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	exec := func(text string, in io.Reader) (*runtime.ExecResult, error) {
		return rt.SessionExec(t.Context(), s.ID, &runtime.SessionExecRequest{Command: []string{text}, Stdin: in})
	}
	if _, err := exec("x=kept", nil); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is gone")
	half := func() io.Reader { return io.MultiReader(strings.NewReader("half\n"), iotest.ErrReader(broken)) }
	for _, text := range []string{"cat >/dev/null; x=after", "sh -c 'trap \"\" INT TERM; sleep 1000; sleep 1000'; x=after"} {
		if res, err := exec(text, half()); !errors.Is(err, broken) || res != nil {
			t.Fatalf("%s: got %+v, %v; want nil, %v", text, res, err, broken)
		}
	}
	output := make(chan []byte, 10)
	err = rt.SessionExecStream(t.Context(), s.ID, &runtime.SessionExecRequest{Command: []string{"cat >/dev/null; x=after"}, Stdin: half()}, output)
	if !errors.Is(err, broken) {
		t.Errorf("streamed: %v", err)
	}
	if res, err := exec("echo $x", nil); err != nil || string(res.Stdout) != "kept\n" {
		t.Errorf("afterwards: %+v, %v", res, err)
	}
}

// A job that must not wait is refused while a command runs.
func TestStartJobNoWait(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	p, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{"echo up; read x"}, Session: "main", Create: true, OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Stdout().Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	job := &runtime.SessionExecRequest{Command: []string{":"}, NoWait: true}
	if _, err := rt.StartJob(t.Context(), runtime.SessionIn(id, "main"), "job", job); !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("while a command runs: %v", err)
	}
	if err := p.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.StartJob(t.Context(), runtime.SessionIn(id, "main"), "job", job); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A program inside that stops others, also before they have executed their program, for which PID 1 waits in the kernel, ends
// nobody else's commands for longer than it runs.
func TestStoppedBeforeExecution(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // a guard against a hang
	defer cancel()
	id := started(t, rt, codebase)
	p, err := rt.StartProcess(ctx, id, &runtime.Command{
		Command: []string{"sh", "-c", "echo begun; i=0; while [ $i -lt 200000 ]; do kill -STOP -1; i=$((i+1)); done"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := io.ReadFull(p.Stdout(), make([]byte, len("begun\n"))); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		victim, err := rt.StartProcess(ctx, id, &runtime.Command{Command: []string{"true"}})
		if err != nil {
			t.Fatal(err)
		}
		defer victim.Close()
	}
	if exit, err := p.Wait(ctx); err != nil || exit.ExitCode != 0 {
		t.Fatalf("Wait: got exit %+v, err %v; want err == nil and exit.ExitCode == 0", exit, err)
	}
	if res, err := rt.Exec(ctx, id, &runtime.ExecRequest{Command: []string{"echo", "runs"}}); err != nil || string(res.Stdout) != "runs\n" {
		t.Fatalf("Exec: got res %+v, err %v; want err == nil and res.Stdout == %q", res, err, "runs\n")
	}
}

// The longest timeout there is ends no command, also none of the same connection.
func TestLongestTimeout(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	s, err := rt.CreateSession(t.Context(), id, &runtime.SessionConfig{Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{"cat"}, OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for what, run := range map[string]func(timeout time.Duration) (*runtime.ExecResult, error){
		"command": func(timeout time.Duration) (*runtime.ExecResult, error) {
			return rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"echo", "hi"}, Timeout: timeout})
		},
		"in a session": func(timeout time.Duration) (*runtime.ExecResult, error) {
			return rt.SessionExec(t.Context(), s.ID, &runtime.SessionExecRequest{Command: []string{"echo hi"}, Timeout: timeout})
		},
	} {
		for _, timeout := range []time.Duration{math.MaxInt64, math.MaxInt64 - time.Second} {
			if res, err := run(timeout); err != nil || res.TimedOut || string(res.Stdout) != "hi\n" {
				t.Errorf("%s, timeout %v: %+v, %v", what, timeout, res, err)
			}
		}
	}
	_, _ = io.WriteString(other.Stdin(), "still here\n")
	_ = other.Stdin().Close()
	if out, err := io.ReadAll(other.Stdout()); err != nil || string(out) != "still here\n" {
		t.Errorf("the other command: %q, %v", out, err)
	}
}
