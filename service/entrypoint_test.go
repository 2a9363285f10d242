package service_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
)

// fleet returns a service as another process has it, without the registry.
func (w *world) fleet() *service.Service {
	w.Helper()
	return service.New(w.open(), &service.Options{Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
		return &runtime.SandboxConfig{CodebasePath: w.codebase, Permissions: w.rules}, nil
	}})
}

// ranTimes waits until the entrypoint has run, and checks how often that was since the sandbox was made.
func (w *world) ranTimes(what, id string, want int) {
	w.Helper()
	var text []byte
	w.Until(what, func() bool {
		text, _ = os.ReadFile(w.file("ran"))
		return len(text) >= 2*want
	})
	if _, err := w.rt.SessionJobs(w.Ctx, runtime.SessionIn(id, "background")); err != nil || len(text) != 2*want {
		w.Errorf("%s: the entrypoint has run %d times, want %d, %v", what, len(text)/2, want, err)
	}
}

// A service that is killed after it has started a sandbox has not run the entrypoint. Then the next
// service does, whichever request comes first: its recovery, the request that is sent again, or another one.
func TestEntrypointOfKilledService(t *testing.T) {
	w := newWorld(t)
	all := service.Caller{All: true}
	params := &service.Params{Key: "k", Entrypoint: []string{"sh", "-c", "echo x >>ran; exec sleep 1000"}}
	s, created, err := w.fleet().Create(w.Ctx, params)
	w.OK(err)
	if !created {
		t.Fatal("it was there")
	}
	w.ranTimes("create", s.ID, 1)
	for n, c := range []struct {
		name string
		call func(f *service.Service) error
	}{
		{"recovery", func(f *service.Service) error { return f.Recover(w.Ctx) }},
		{"the key", func(f *service.Service) error {
			again, created, err := f.Create(w.Ctx, params)
			if err == nil && (created || again.ID != s.ID || again.State != runtime.StateRunning) {
				t.Errorf("the key: %+v, %v", again.Sandbox, created)
			}
			return err
		}},
		{"start", func(f *service.Service) error { return f.Start(w.Ctx, all, s.ID) }},
		{"a command in the background", func(f *service.Service) error {
			in, err := f.Inside(w.Ctx, all, s.ID)
			if err != nil {
				return err
			}
			_, err = in.Background(w.Ctx, &runtime.Command{Command: []string{"true"}})
			return err
		}},
	} {
		w.OK(w.rt.Stop(w.Ctx, s.ID))
		w.OK(w.rt.Start(w.Ctx, s.ID)) // as the killed service
		f := w.fleet()
		if err := c.call(f); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		w.ranTimes(c.name, s.ID, n+2)
		w.OK(f.Recover(w.Ctx))
		w.Wrong("a second start", f.Start(w.Ctx, all, s.ID), runtime.ErrConflict)
		w.ranTimes(c.name+", again", s.ID, n+2)
	}
}

// An entrypoint that has ended is not run again, though its sandbox has forgotten it, or its
// session was destroyed.
func TestEntrypointIsRunOnce(t *testing.T) {
	w := newWorld(t)
	all := service.Caller{All: true}
	s, _, err := w.fleet().Create(w.Ctx, &service.Params{Entrypoint: []string{"sh", "-c", "echo x >>ran"}})
	w.OK(err)
	w.ranTimes("create", s.ID, 1)
	in, err := w.fleet().Inside(w.Ctx, all, s.ID)
	w.OK(err)
	w.Until("its end is noted", func() bool {
		s, _, err := in.Status(w.Ctx, "entrypoint")
		return err == nil && !s.EndedAt.IsZero()
	})
	for range 210 { // more than a sandbox remembers
		_, err := in.Jobs("other").Start(w.Ctx, "", &runtime.Command{Command: []string{"true"}})
		w.OK(err)
	}
	if _, _, err := in.Status(w.Ctx, "entrypoint"); err == nil {
		t.Error("the sandbox remembers its entrypoint")
	}
	w.OK(w.fleet().Recover(w.Ctx))
	w.ranTimes("it was forgotten", s.ID, 1)

	s, _, err = w.fleet().Create(w.Ctx, &service.Params{Entrypoint: []string{"sh", "-c", "echo x >>ran"}})
	w.OK(err)
	w.ranTimes("the second one", s.ID, 2)
	w.OK(w.rt.DestroySession(w.Ctx, runtime.SessionIn(s.ID, "background")))
	w.OK(w.fleet().Recover(w.Ctx))
	w.ranTimes("its session was destroyed", s.ID, 2)
}

// An entrypoint whose program does not exist is the error of the create, of which nothing is left.
func TestEntrypointIsMissing(t *testing.T) {
	w := newWorld(t)
	for _, program := range []string{"/no/such", "nosuch", "./nosuch"} {
		if _, _, err := w.fleet().Create(w.Ctx, &service.Params{Entrypoint: []string{program, "x"}}); runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), program) {
			t.Errorf("%s: %v", program, err)
		}
	}
	if all, err := w.rt.List(w.Ctx); err != nil || len(all) > 0 {
		t.Errorf("left: %v, %v", all, err)
	}
}

// No client can find what a killed service was creating without a key: the next service destroys
// it, and no other.
func TestUnansweredCreate(t *testing.T) {
	w := newWorld(t)
	f := w.fleet()
	kept, _, err := f.Create(w.Ctx, &service.Params{})
	w.OK(err)
	for _, state := range []runtime.State{runtime.StateCreated, runtime.StateRunning, runtime.StateStopped} {
		b, err := w.rt.Create(w.Ctx, &runtime.SandboxConfig{CodebasePath: w.codebase, Permissions: w.rules, Labels: map[string]string{launch.LabelRecord: `{"owner":{},"unanswered":true}`}})
		w.OK(err)
		if state != runtime.StateCreated {
			w.OK(w.rt.Start(w.Ctx, b.ID))
		}
		if state == runtime.StateStopped {
			w.OK(w.rt.Stop(w.Ctx, b.ID))
		}
	}
	w.OK(w.fleet().Recover(w.Ctx))
	if all, err := w.rt.List(w.Ctx); err != nil || len(all) != 1 || all[0].ID != kept.ID || strings.Contains(all[0].Labels[launch.LabelRecord], "unanswered") {
		t.Errorf("left: %v, %v; want %s", all, err, kept.ID)
	}
}
