package service_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/local"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

func TestSecondServiceLeaves(t *testing.T) {
	w := newWorld(t)
	s, _ := w.service(w.driver())
	m, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	_, err = service.Open(w.Ctx, w.open(), w.state, nil)
	w.Wrong("a second one", err, registry.ErrInUse)
	if !strings.Contains(err.Error(), w.state) {
		t.Errorf("the error is %v", err)
	}
	_, err = s.Owned().ExecuteBash(w.Ctx, zoe, m.SandboxID, &runtime.Command{Command: []string{":"}})
	w.OK(err)
	w.OK(s.Close())
	w.service(newDriver(w.open(), nil))
}

func TestReconcile(t *testing.T) {
	w := newWorld(t)
	d := w.driver()
	s, _ := w.service(d)
	gone, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	dead, err := s.Owned().CreateSandbox(w.Ctx, yan, nil)
	w.OK(err)
	w.run(d, dead.SandboxID, ":")
	w.OK(s.Close())

	// While there is no service, one is removed, one dies, and others are made.
	w.OK(w.rt.Destroy(w.Ctx, gone.SandboxID))
	w.crash(dead.SandboxID)
	unknown, err := d.CreateSandbox(w.Ctx, &service.Params{SandboxID: runtime.NewID(), Owner: xia})
	w.OK(err)
	second, err := d.CreateSandbox(w.Ctx, &service.Params{SandboxID: runtime.NewID(), Owner: yan})
	w.OK(err)
	partial := &runtime.SandboxConfig{}
	service.SetOwner(partial, zoe, false)
	delete(partial.Labels, "wolffia.projectId")
	_, err = w.rt.Create(w.Ctx, partial)
	w.OK(err)
	w.OK(w.rt.Start(w.Ctx, partial.ID))
	// And one was left half made: reserved, made, not registered.
	zoes := registry.Owner{OrganizationID: "acme", ProjectID: "half", UserID: "zoe"}
	r, err := registry.Open(w.state, slog.New(slog.DiscardHandler))
	w.OK(err)
	half := runtime.NewID()
	w.OK(r.Reserve(registry.Metadata{SandboxID: half, ContainerName: half, Owner: zoes, CreatedAt: 1}))
	never := runtime.NewID()
	w.OK(r.Reserve(registry.Metadata{SandboxID: never, ContainerName: never, Owner: registry.Owner{OrganizationID: "n", ProjectID: "n", UserID: "n"}, CreatedAt: 1}))
	w.OK(r.Close())
	_, err = d.CreateSandbox(w.Ctx, &service.Params{SandboxID: half, Owner: zoes})
	w.OK(err)

	s, log := w.service(d)
	if _, err := s.Owned().FindSandbox(w.Ctx, zoe); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("what is gone: %v", err)
	}
	if m, err := s.Owned().FindSandbox(w.Ctx, xia); err != nil || m.SandboxID != unknown.SandboxID || m.CreatedAt != unknown.CreatedAt.UnixMilli() {
		t.Errorf("the unknown one: %+v, %v", m, err)
	}
	if m, err := s.Owned().FindSandbox(w.Ctx, yan); err != nil || m != dead {
		t.Errorf("the dead one: %+v, %v", m, err)
	}
	if _, err := s.Owned().FindSandbox(w.Ctx, zoes); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("the half made one: %v", err)
	}
	there := strings.Join(w.boxes(), " ")
	for id, is := range map[string]bool{dead.SandboxID: true, unknown.SandboxID: true, second.SandboxID: true, partial.ID: true, half: false, gone.SandboxID: false} {
		if strings.Contains(there, id) != is {
			t.Errorf("there are %s; %s: %v", there, id, !is)
		}
	}
	for _, line := range []string{
		"removed a stale entry: its sandbox is gone\" sandboxId=" + gone.SandboxID,
		"adopted a running sandbox\" sandboxId=" + unknown.SandboxID,
		"its owner has another\" sandboxId=" + second.SandboxID,
		"destroyed a half-created sandbox\" sandboxId=" + half,
	} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("the log does not say once: %s\n%s", line, log)
		}
	}
	// Work goes on in what was adopted; the dead one is replaced; no caller is kept
	// out by what was never made.
	_, err = s.Owned().ExecuteBash(w.Ctx, xia, unknown.SandboxID, &runtime.Command{Command: []string{":"}})
	w.OK(err)
	_, err = s.Owned().CreateSandbox(w.Ctx, zoes, nil)
	w.OK(err)
	_, err = s.Owned().CreateSandbox(w.Ctx, registry.Owner{OrganizationID: "n", ProjectID: "n", UserID: "n"}, nil)
	w.OK(err)
	if m, made, err := s.Owned().EnsureSandbox(w.Ctx, yan, nil); err != nil || !made || m.SandboxID == second.SandboxID {
		t.Errorf("EnsureSandbox: got m %+v, made %v, err %v; want err == nil and made and m.SandboxID != %v",
			m, made, err, second.SandboxID)
	}
}

func TestDamagedRegistryIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	d := w.driver()
	s, _ := w.service(d)
	m, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	w.OK(s.Close())
	w.OK(os.WriteFile(filepath.Join(w.state, "registry.db"), bytes.Repeat([]byte("damaged "), 4096), 0o600))
	s, log := w.service(d)
	if got, err := s.Owned().FindSandbox(w.Ctx, zoe); err != nil || got != m {
		t.Errorf("%+v, %v, want %+v", got, err, m)
	}
	if !strings.Contains(log.String(), "damaged") || !strings.Contains(log.String(), "adopted") {
		t.Errorf("the log is %s", log)
	}
}

// A faulty runtime fails as it is told.
type faulty struct {
	*local.Runtime
	create, destroy func() error
}

func (f *faulty) Start(ctx context.Context, id string) error {
	err := f.Runtime.Start(ctx, id)
	if err == nil && f.create != nil {
		err = f.create()
	}
	return err
}

func (f *faulty) Destroy(ctx context.Context, id string) error {
	if f.destroy != nil {
		if err := f.destroy(); err != nil {
			return err
		}
	}
	return f.Runtime.Destroy(ctx, id)
}

func TestCreateThatFailsFreesTheOwner(t *testing.T) {
	w := newWorld(t)
	f := &faulty{Runtime: w.rt}
	s, log := w.service(w.driverOver(f))
	failed := runtime.Errorf(runtime.ErrUnavailable, "as told")
	f.create = func() error { return failed }
	_, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.Wrong("create", err, failed)
	if there := w.boxes(); len(there) > 0 {
		t.Errorf("there are %v", there)
	}
	// Nor can it be destroyed: it is known to be half made.
	f.destroy = func() error { return failed }
	_, err = s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.Wrong("create", err, failed)
	if there := w.boxes(); len(there) != 1 || !strings.Contains(log.String(), there[0]) {
		t.Errorf("there are %v; log %s", there, log)
	}
	_, err = s.Owned().FindSandbox(w.Ctx, zoe)
	w.Wrong("half made", err, runtime.ErrNotFound)
	f.create = nil
	_, _, err = s.Owned().EnsureSandbox(w.Ctx, zoe, nil)
	w.Wrong("there would be two", err, failed)
	w.OK(s.Owned().Reconcile(w.Ctx)) // which says so, and goes on
	f.destroy = nil
	_, _, err = s.Owned().EnsureSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	if there := w.boxes(); len(there) != 1 {
		t.Errorf("there are %v", there)
	}
	// The caller gives up in the midst of it.
	ctx, cancel := context.WithCancel(w.Ctx)
	f.create = func() error { cancel(); return ctx.Err() }
	if _, err = s.Owned().CreateSandbox(ctx, yan, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	f.create = nil
	_, err = s.Owned().CreateSandbox(w.Ctx, yan, nil)
	w.OK(err)
	if there := w.boxes(); len(there) != 2 {
		t.Errorf("there are %v", there)
	}
	// One that cannot be destroyed is not forgotten.
	m, err := s.Owned().FindSandbox(w.Ctx, yan)
	w.OK(err)
	f.destroy = func() error { return failed }
	w.Wrong("destroy", s.Owned().DestroySandbox(w.Ctx, yan, m.SandboxID), failed)
	if got, err := s.Owned().FindSandbox(w.Ctx, yan); err != nil || got != m {
		t.Errorf("FindSandbox: got %+v, %v; want %+v, nil", got, err, m)
	}
}

// A caller that waits for its turn can give up.
func TestWaitingForTheOwnersLock(t *testing.T) {
	w := newWorld(t)
	begun, proceed := make(chan struct{}), make(chan struct{})
	f := &faulty{Runtime: w.rt, create: func() error { close(begun); <-proceed; return nil }}
	s, _ := w.service(w.driverOver(f))
	made := make(chan error, 1)
	go func() {
		_, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
		made <- err
	}()
	w.Within("create", begun)
	ctx, cancel := context.WithTimeout(w.Ctx, 20*time.Millisecond)
	defer cancel()
	if _, _, err := s.Owned().EnsureSandbox(ctx, zoe, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	_, err := s.Owned().FindSandbox(w.Ctx, zoe)
	w.Wrong("while it is made", err, runtime.ErrNotFound)
	close(proceed)
	w.OK(<-made)
}
