package service_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/service"
)

const soon = 300 * time.Millisecond

// An owner whose sandbox's lifetime is over has none, and can have another at
// once; nothing of the old one is left, and the log says so.
func TestLifetimeOver(t *testing.T) {
	w := newWorld(t)
	removals := new(suite.Buffer)
	rt, err := local.New(&local.Options{
		StateDir: w.state, Binary: filepath.Join(testbin.Dir(t), "wolffia"), Log: slog.New(slog.NewTextHandler(removals, nil)),
	}, on.backend)
	w.OK(err)
	defer rt.Close()
	w.rt = rt
	s, log := w.service(w.driver())
	m, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	day := 24 * time.Hour
	w.OK(s.Owned().TouchSandbox(w.Ctx, zoe, m.SandboxID, &day))
	w.OK(s.Owned().TouchSandbox(w.Ctx, zoe, m.SandboxID, nil))
	w.Wrong("touch another's", s.Owned().TouchSandbox(w.Ctx, yan, m.SandboxID, nil), runtime.ErrNotFound)
	ttl := soon
	w.OK(s.Owned().TouchSandbox(w.Ctx, zoe, m.SandboxID, &ttl))
	w.Until("the end of its lifetime", func() bool {
		_, err := s.Owned().FindSandbox(w.Ctx, zoe)
		return runtime.Class(err) == runtime.ErrNotFound
	})
	_, err = s.Owned().ExecuteBash(w.Ctx, zoe, m.SandboxID, &runtime.Command{Command: []string{":"}})
	w.Wrong("a command in it", err, runtime.ErrNotFound)
	next, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	if next.SandboxID == m.SandboxID || strings.Count(log.String(), m.SandboxID) != 1 {
		t.Errorf("%+v, log %s", next, log)
	}
	w.Until("the old one is removed", func() bool {
		w.OK(s.Owned().Reconcile(w.Ctx))
		return strings.Join(w.boxes(), " ") == next.SandboxID
	})
	if line := "a sandbox is removed\" sandboxId=" + m.SandboxID; strings.Count(removals.String(), line) != 1 || !strings.Contains(removals.String(), "why=ttl") {
		t.Errorf("the log does not say once: %s\n%s", line, removals)
	}

	// Ensure makes a new one in its place, too.
	w.OK(s.Owned().TouchSandbox(w.Ctx, zoe, next.SandboxID, &ttl))
	w.Until("the end of its lifetime", func() bool {
		_, err := s.Owned().FindSandbox(w.Ctx, zoe)
		return runtime.Class(err) == runtime.ErrNotFound
	})
	third, made, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	if !made || third.SandboxID == next.SandboxID {
		t.Errorf("%+v, made: %v", third, made)
	}
	w.OK(s.Owned().DestroySandbox(w.Ctx, zoe, third.SandboxID))
}

// A service gives its sandboxes a lifetime; one that is over while no service is
// there is forgotten by the next.
func TestServiceLifetime(t *testing.T) {
	w := newWorld(t)
	_, err := service.Open(w.Ctx, w.rt, w.state, &service.Options{TTL: -1})
	w.Wrong("a negative time to live", err, runtime.ErrInvalid)
	s, err := service.Open(w.Ctx, w.rt, w.state, &service.Options{TTL: time.Hour, IdleTimeout: 2 * time.Second})
	w.OK(err)
	m, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	box, err := w.rt.Get(w.Ctx, m.SandboxID)
	w.OK(err)
	if box.IdleTimeout != 2*time.Second || box.ExpiresAt.Before(time.Now().Add(50*time.Minute)) {
		t.Errorf("it is over at %v, or when it is idle for %v", box.ExpiresAt, box.IdleTimeout)
	}
	w.OK(s.Close())
	w.Until("the end of its lifetime", func() bool {
		s, err := w.rt.Get(w.Ctx, m.SandboxID)
		return err == nil && s.Expired == runtime.ExpiredIdle && s.State == runtime.StateStopped
	})
	s, log := w.service(w.driver())
	if _, err := s.Owned().FindSandbox(w.Ctx, zoe); runtime.Class(err) != runtime.ErrNotFound {
		t.Errorf("what is over: %v", err)
	}
	if line := "its sandbox is gone\" sandboxId=" + m.SandboxID; strings.Count(log.String(), line) != 1 {
		t.Errorf("the log does not say once: %s\n%s", line, log)
	}
	w.Until("it is removed", func() bool {
		w.OK(s.Owned().Reconcile(w.Ctx))
		return len(w.boxes()) == 0
	})
}

// A stuck runtime stops nothing for some time.
type stuck struct {
	service.Runtime
	until time.Time
	asked atomic.Int32
}

func (s *stuck) Stop(ctx context.Context, id string) error {
	if s.asked.Add(1); time.Now().Before(s.until) {
		return runtime.Errorf(runtime.ErrUnavailable, "it does not stop")
	}
	return s.Runtime.Stop(ctx, id)
}

// A sandbox that cannot be paused at its end is paused later, and asked for that now and then only.
func TestPauseAgain(t *testing.T) {
	w := newWorld(t)
	service.PauseAgain(soon)
	rt := &stuck{Runtime: w.rt, until: time.Now().Add(5 * time.Second)}
	s := w.driverOver(rt)
	b, _, err := s.Service.Create(w.Ctx, &service.Params{TTL: time.Second, EndsStopped: true})
	w.OK(err)
	w.Until("it is paused", func() bool {
		now, err := s.Service.Get(w.Ctx, service.Caller{All: true}, b.ID)
		w.OK(err)
		return now.State == runtime.StateStopped
	})
	if n := rt.asked.Load(); n < 2 || n > 20 {
		t.Errorf("it was asked to stop %d times", n)
	}
}

// Who suspends the machine finds the sandboxes paused whose end has come meanwhile: timers stand
// still then, the wall clock does not.
func TestPauseAfterSleep(t *testing.T) {
	w := newWorld(t)
	service.LookAgain(soon)
	s := w.driver()
	t.Cleanup(func() { service.Sleep(0) })
	b, _, err := s.Service.Create(w.Ctx, &service.Params{TTL: time.Hour, EndsStopped: true})
	w.OK(err)
	service.Sleep(2 * time.Hour)
	w.Until("it is paused", func() bool {
		now, err := s.Service.Get(w.Ctx, service.Caller{All: true}, b.ID)
		w.OK(err)
		return now.State == runtime.StateStopped
	})
}

// An interrupted runtime calls a function when a sandbox is looked at.
type interrupted struct {
	service.Runtime
	look atomic.Pointer[func()]
}

func (i *interrupted) Get(ctx context.Context, id string) (*runtime.Sandbox, error) {
	b, err := i.Runtime.Get(ctx, id)
	if look := i.look.Swap(nil); look != nil {
		(*look)()
	}
	return b, err
}

// A sandbox whose end is moved while it is about to be paused is not paused, or its caller gets to
// know that.
func TestPauseWhileRenewed(t *testing.T) {
	w := newWorld(t)
	rt := &interrupted{Runtime: w.rt}
	s := w.driverOver(rt)
	all := service.Caller{All: true}
	b, _, err := s.Service.Create(w.Ctx, &service.Params{TTL: time.Second, EndsStopped: true})
	w.OK(err)
	renewed := make(chan error, 1)
	look := func() { // the pause's look at the sandbox
		go func() {
			_, err := s.Service.Renew(w.Ctx, all, b.ID, time.Now().Add(time.Hour))
			renewed <- err
		}()
		select {
		case err := <-renewed:
			renewed <- err
		case <-time.After(3 * time.Second): // it waits for the pause
		}
	}
	rt.look.Store(&look)
	err = <-renewed
	now, gerr := s.Service.Get(w.Ctx, all, b.ID)
	w.OK(gerr)
	if running := now.State == runtime.StateRunning; running != (err == nil) {
		t.Errorf("Renew: %v, and the sandbox runs: %v", err, running)
	}
}

// A freezing runtime pauses sandboxes by their state alone.
type freezing struct {
	interrupted
	paused atomic.Bool
}

func (f *freezing) Pause(context.Context, string) error {
	f.paused.Store(true)
	return nil
}

func (f *freezing) Resume(context.Context, string) error {
	f.paused.Store(false)
	return nil
}

func (f *freezing) Get(ctx context.Context, id string) (*runtime.Sandbox, error) {
	paused := f.paused.Load()
	b, err := f.interrupted.Get(ctx, id)
	if err == nil && paused {
		b.State = runtime.StatePaused
	}
	return b, err
}

// A sandbox that is paused while another call resumes it, which has seen it run, runs afterwards.
func TestPauseWhileResumed(t *testing.T) {
	w := newWorld(t)
	rt := &freezing{interrupted: interrupted{Runtime: w.rt}}
	s := w.driverOver(rt)
	all := service.Caller{All: true}
	b, _, err := s.Service.Create(w.Ctx, &service.Params{TTL: time.Hour, EndsStopped: true})
	w.OK(err)
	look := func() { w.OK(s.Service.Pause(w.Ctx, all, b.ID)) }
	for range 2 {
		rt.look.Store(&look)
		b, err = s.Service.Resume(w.Ctx, all, b.ID, time.Now().Add(time.Hour))
		w.OK(err)
		if b.State != runtime.StateRunning {
			t.Errorf("after Resume: %s", b.State)
		}
	}
}

// A silent runtime does not tell the jobs of sandboxes.
type silent struct{ service.Runtime }

func (silent) SessionJobs(context.Context, runtime.SessionID) ([]*runtime.Job, error) {
	return nil, runtime.Errorf(runtime.ErrUnavailable, "it does not answer")
}

// The next service pauses a sandbox at its end, too, whether or not that answers.
func TestPauseRecovered(t *testing.T) {
	w := newWorld(t)
	b, _, err := w.driver().Service.Create(w.Ctx, &service.Params{TTL: 4 * time.Second, EndsStopped: true})
	w.OK(err)
	s := w.driverOver(silent{w.rt})
	w.OK(s.Recover(w.Ctx))
	if !s.Service.PausesLater(b.ID) {
		t.Error("the next service does not pause it")
	}
	w.OK(s.Service.Destroy(w.Ctx, service.Caller{All: true}, b.ID))
	if s.Service.PausesLater(b.ID) {
		t.Error("the timer of a destroyed sandbox stays")
	}
}
