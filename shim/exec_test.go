package shim_test

import (
	"errors"
	"strings"
	"testing"

	"wolffia/guest/wire"
	"wolffia/runtime"
)

// A request that is too long is refused with the bound and a way out, before anything of
// it is sent: other commands on the connection go on.
func TestTooLong(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := create(t, rt, codebase)
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	s, err := rt.CreateSession(t.Context(), id, &runtime.SessionConfig{Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := rt.StartProcess(t.Context(), id, &runtime.ProcessSpec{Command: []string{"cat"}, Stdin: true})
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
		"text":                func() error { return inSession(&runtime.SessionExecRequest{Command: long}) },
		"session's directory": func() error { return inSession(&runtime.SessionExecRequest{Command: ":", Cwd: "/" + long}) },
		"session's variables": func() error {
			return inSession(&runtime.SessionExecRequest{Command: ":", Env: map[string]string{"A": long}})
		},
		"variables": func() error {
			return exec(&runtime.ExecRequest{Command: []string{"true"}, Env: map[string]string{"A": long}})
		},
		"process": func() error {
			_, err := rt.StartProcess(t.Context(), id, &runtime.ProcessSpec{Command: []string{long}, Session: "main"})
			return err
		},
		"job": func() error {
			_, err := rt.StartJob(t.Context(), s.ID, "job", &runtime.SessionExecRequest{Command: long})
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
	res, err := rt.SessionExec(t.Context(), s.ID, &runtime.SessionExecRequest{Command: fits})
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
