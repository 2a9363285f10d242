package mock_test

import (
	"context"
	"errors"
	"testing"

	"wolffia/runtime"
	"wolffia/runtime/mock"
	"wolffia/runtime/runtimetest"
	"wolffia/session/sessiontest"
)

func config() runtimetest.Config {
	return runtimetest.Config{
		New: func(t testing.TB) runtime.RuntimeWithExecutor {
			rt := mock.New()
			t.Cleanup(func() { _ = rt.Close() })
			return rt
		},
		Reopen: func(_ testing.TB, rt runtime.RuntimeWithExecutor) runtime.RuntimeWithExecutor {
			return rt.(*mock.Runtime).Reopen()
		},
		Crash: func(t testing.TB, rt runtime.RuntimeWithExecutor, id string) {
			if err := rt.(*mock.Runtime).Kill(id, "the test has killed it"); err != nil {
				t.Error(err)
			}
		},
		Lacks: []runtimetest.Feature{
			runtimetest.Isolation, runtimetest.Filter, runtimetest.LiveRules, runtimetest.Terminal, runtimetest.Mounts, runtimetest.Rootfs, runtimetest.Image, runtimetest.Disk,
			runtimetest.Limits, runtimetest.UserNamespace, runtimetest.Lifetime, runtimetest.Ports, runtimetest.Names, runtimetest.CopyOnWrite, runtimetest.Pause,
		},
	}
}

func TestRuntime(t *testing.T) { runtimetest.Run(t, config()) }

func TestSessions(t *testing.T) {
	sessiontest.Run(t, sessiontest.Config{
		New:   config().New,
		Lacks: []sessiontest.Feature{sessiontest.Sessions, sessiontest.Recovery},
	})
}

func BenchmarkRuntime(b *testing.B) { runtimetest.Bench(b, config()) }

func running(t *testing.T, rt *mock.Runtime) *runtime.Sandbox {
	t.Helper()
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Name: "box"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Destroy(context.Background(), s.ID) })
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHandler(t *testing.T) {
	rt := mock.New()
	s := running(t, rt)
	refusal := errors.New("not today")
	rt.SetHandler(func(sb *runtime.Sandbox, spec *runtime.Command) (*runtime.ExecResult, error) {
		switch spec.Command[0] {
		case "make":
			return &runtime.ExecResult{Stdout: []byte("built " + sb.Name), Stderr: []byte("; warning"), ExitCode: 2}, nil
		case "refused":
			return nil, refusal
		}
		return nil, nil // the program is to be run
	})
	r, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"make"}, MaxOutput: 5})
	if err != nil || string(r.Stdout) != "built" || r.StdoutDropped != 4 || string(r.Stderr) != "; war" || r.ExitCode != 2 {
		t.Errorf(`Exec: got r %+v, err %v; want err == nil and r.Stdout == "built" and r.StdoutDropped == 4 and r.Stderr == "; war" and r.ExitCode == 2`,
			r, err)
	}
	output := make(chan []byte, 10)
	err = rt.ExecStream(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"make"}}, output)
	var ee *runtime.ExitError
	if got := <-output; string(got) != "built box; warning" || !errors.As(err, &ee) || ee.ExitCode != 2 {
		t.Errorf(`ExecStream: got %q, err %v; want got == "built box; warning" and errors.As(err, &ee) and ee.ExitCode == 2`, got, err)
	}
	if _, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"refused"}}); !errors.Is(err, refusal) {
		t.Error(err)
	}
	if r, err = rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"echo", "real"}}); err != nil || string(r.Stdout) != "real\n" {
		t.Errorf("Exec: got r %+v, err %v; want err == nil and r.Stdout == %q", r, err, "real\n")
	}
	if err := rt.Stop(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	if _, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"make"}}); !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("scripted, and stopped: %v", err)
	}
}

func TestFailNext(t *testing.T) {
	rt := mock.New()
	s := running(t, rt)
	first, second := errors.New("first"), errors.New("second")
	for op, call := range map[mock.Op]func() error{
		mock.OpCreate: func() error {
			_, err := rt.Create(t.Context(), &runtime.SandboxConfig{Name: "box"})
			return err
		},
		mock.OpStart:   func() error { return rt.Start(t.Context(), s.ID) },
		mock.OpStop:    func() error { return rt.Stop(t.Context(), s.ID) },
		mock.OpDestroy: func() error { return rt.Destroy(t.Context(), s.ID) },
		mock.OpGet: func() error {
			_, err := rt.Get(t.Context(), s.ID)
			return err
		},
		mock.OpList: func() error {
			_, err := rt.List(t.Context())
			return err
		},
		mock.OpExec: func() error {
			_, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"true"}})
			return err
		},
	} {
		rt.FailNext(op, first)
		rt.FailNext(op, second)
		for _, want := range []error{first, second} {
			if err := call(); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", op, err, want)
			}
		}
	}
	if s, err := rt.Get(t.Context(), s.ID); err != nil || s.State != runtime.StateRunning {
		t.Errorf("calls that fail do nothing: %+v, %v", s, err)
	}
}
