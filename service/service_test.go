package service_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wolffia/fields"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

// No random id can hold yán, as it could "yan": the errors must not tell of them.
var (
	yan = registry.Owner{OrganizationID: "rival", ProjectID: "hidden-project", UserID: "yán"}
	xia = registry.Owner{OrganizationID: "acme", ProjectID: "web shop", UserID: "xia"}
)

// service opens the service over a driver.
func (w *world) service(d driver) (*service.Service, *suite.Buffer) {
	w.Helper()
	log := new(suite.Buffer)
	opts := d.opts
	opts.Log = slog.New(slog.NewTextHandler(log, nil))
	s, err := service.Open(w.Ctx, d.rt, w.state, &opts)
	w.OK(err)
	w.Cleanup(func() { _ = s.Close() })
	return s, log
}

// boxes are the ids in the state directory.
func (w *world) boxes() []string {
	w.Helper()
	entries, err := os.ReadDir(filepath.Join(w.state, "sandboxes"))
	w.OK(err)
	ids := []string{}
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}

// crash has a sandbox die, and waits until everybody knows.
func (w *world) crash(id string) {
	w.Helper()
	shimtest.Kill(w.TB, w.state, id)
	w.Until("it is dead", func() bool {
		s, err := w.rt.Get(w.Ctx, id)
		return err == nil && s.State == runtime.StateDead
	})
}

func TestFiftyCreateForOneOwner(t *testing.T) {
	w := newWorld(t)
	s, _ := w.service(w.driver())
	ids := make([]string, 50)
	for i, err := range suite.AtOnce(len(ids), func(i int) error {
		m, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
		ids[i] = m.SandboxID
		return err
	}) {
		if err == nil {
			continue
		}
		if conflict, ok := errors.AsType[*registry.ConflictError](err); !ok || !errors.Is(err, runtime.ErrConflict) || conflict.SandboxID == "" || ids[i] != "" {
			t.Errorf(`got i %d, err %v; want ok and err is runtime.ErrConflict and conflict.SandboxID != "" and ids[i] == ""`, i, err)
		}
	}
	won := strings.Join(ids, "")
	if len(won) != 12 {
		t.Fatalf("made %q", ids)
	}
	if there := w.boxes(); len(there) != 1 || there[0] != won {
		t.Errorf("there are %v", there)
	}
	if m, err := s.Owned().FindSandbox(w.Ctx, zoe); err != nil || m.SandboxID != won {
		t.Errorf("FindSandbox: got m %+v, err %v; want err == nil and m.SandboxID == %v", m, err, won)
	}
	// Another owner is not in the way.
	_, err := s.Owned().CreateSandbox(w.Ctx, yan, nil)
	w.OK(err)
}

func TestFiftyEnsureForOneOwner(t *testing.T) {
	w := newWorld(t)
	s, _ := w.service(w.driver())
	found, made := make([]registry.Metadata, 50), make([]bool, 50)
	for _, err := range suite.AtOnce(len(found), func(i int) (err error) {
		found[i], made[i], err = s.Owned().EnsureSandbox(w.Ctx, zoe, nil)
		return err
	}) {
		w.OK(err)
	}
	n := 0
	for i := range found {
		if found[i] != found[0] {
			t.Errorf("%+v and %+v", found[i], found[0])
		}
		if made[i] {
			n++
		}
	}
	if there := w.boxes(); n != 1 || len(there) != 1 {
		t.Errorf("%d were made, there are %v", n, there)
	}
}

func TestEnsureReplacesTheUnhealthy(t *testing.T) {
	w := newWorld(t)
	d := w.driver()
	s, log := w.service(d)
	first, made, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	if !made {
		t.Error("it was there")
	}
	w.run(d, first.SandboxID, "A=kept")
	again, made, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil)
	if err != nil || made || again != first {
		t.Errorf("%+v, %v, %v; want %+v", again, made, err, first)
	}
	if got := w.run(d, first.SandboxID, "echo $A"); got != "kept\n" {
		t.Errorf("the shell has %q", got)
	}
	// Its shell is busy, and it is healthy.
	busy := make(chan error, 1)
	w.run(d, first.SandboxID, "mkfifo /tmp/go /tmp/begun")
	go func() {
		_, err := d.ExecuteBash(w.Ctx, first.SandboxID, &runtime.Command{Command: []string{"echo > /tmp/begun; cat /tmp/go"}})
		busy <- err
	}()
	inside := func(command string) {
		_, err := w.rt.Exec(w.Ctx, first.SandboxID, &runtime.ExecRequest{Command: []string{"sh", "-c", command}})
		w.OK(err)
	}
	inside("cat /tmp/begun")
	if _, made, err = s.Owned().EnsureSandbox(w.Ctx, zoe, nil); err != nil || made {
		t.Errorf("while it is busy: %v, %v", made, err)
	}
	inside("echo > /tmp/go")
	w.OK(<-busy)
	// Who has no time says nothing of the sandbox.
	over, cancel := context.WithCancel(w.Ctx)
	cancel()
	if _, _, err := s.Owned().EnsureSandbox(over, zoe, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if there := w.boxes(); len(there) != 1 || there[0] != first.SandboxID {
		t.Errorf("there are %v", there)
	}

	id := first.SandboxID
	for _, tt := range []struct {
		what  string
		spoil func(id string)
	}{
		{"it is dead", w.crash},
		{"it was stopped", func(id string) { w.OK(w.rt.Stop(w.Ctx, id)) }},
		{"it was destroyed", func(id string) { w.OK(w.rt.Destroy(w.Ctx, id)) }},
		{"its configuration is damaged", func(id string) {
			w.OK(w.rt.Stop(w.Ctx, id))
			w.OK(os.WriteFile(filepath.Join(w.state, "sandboxes", id, "config.json"), []byte(`{"labels`), 0o600))
		}},
	} {
		tt.spoil(id)
		_, err := s.Owned().ExecuteBash(w.Ctx, zoe, id, &runtime.Command{Command: []string{":"}})
		if runtime.Class(err) == nil {
			t.Errorf("%s: a command says %v", tt.what, err)
		}
		m, made, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil)
		w.OK(err)
		if !made || m.SandboxID == id {
			t.Errorf("%s: got made %v, m %+v; want made and m.SandboxID != %v", tt.what, made, m, id)
		}
		if there := w.boxes(); len(there) != 1 || there[0] != m.SandboxID {
			t.Errorf("%s: there are %v", tt.what, there)
		}
		if !strings.Contains(log.String(), "is replaced\" sandboxId="+id) {
			t.Errorf("%s: the log is %s", tt.what, log)
		}
		w.Wrong(tt.what, s.Owned().DestroySandbox(w.Ctx, zoe, id), runtime.ErrNotFound)
		id = m.SandboxID
	}
}

// lacking is a runtime whose process is out of descriptors when it probes, or when it asks for a copied codebase.
type lacking struct {
	*local.Runtime
	probe, copied error
}

func (l *lacking) Exec(ctx context.Context, sandboxID string, cmd *runtime.Command) (*runtime.Result, error) {
	if l.probe != nil {
		return nil, l.probe
	}
	return l.Runtime.Exec(ctx, sandboxID, cmd)
}

func (l *lacking) Get(ctx context.Context, sandboxID string) (*runtime.Sandbox, error) {
	if l.copied != nil {
		return nil, l.copied
	}
	return l.Runtime.Get(ctx, sandboxID)
}

// A service that is short of descriptors for a moment replaces no sandbox.
func TestEnsureWithoutDescriptors(t *testing.T) {
	w := newWorld(t)
	d := &lacking{Runtime: w.rt}
	s, _ := w.service(w.driverOver(d))
	m, _, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	none := runtime.Errorf(runtime.ErrUnavailable, "connect: %w", syscall.EMFILE)
	for _, now := range []lacking{{probe: none}, {copied: none}, {probe: errors.New("it is silent"), copied: none}} {
		d.probe, d.copied = now.probe, now.copied
		if _, _, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%+v: got %v, want syscall.EMFILE", now, err)
		}
	}
	d.probe, d.copied = nil, nil
	if again, made, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil); err != nil || made || again.SandboxID != m.SandboxID {
		t.Errorf("EnsureSandbox: got again %+v, made %v, err %v; want err == nil and not made and again.SandboxID == %v",
			again, made, err, m.SandboxID)
	}
	w.OK(s.Owned().DestroySandbox(w.Ctx, zoe, m.SandboxID))
}

// away is a runtime of sandboxes whose PID 1 may outlive its processes here.
type away struct{ *lacking }

func (a away) Get(ctx context.Context, sandboxID string) (*runtime.Sandbox, error) {
	b, err := a.lacking.Get(ctx, sandboxID)
	if err == nil {
		b.Elsewhere = true
	}
	return b, err
}

// A sandbox elsewhere is started when its processes here are gone, and left alone while they wait
// for the network.
func TestEnsureStartsWhatIsElsewhere(t *testing.T) {
	w := newWorld(t)
	d := &lacking{Runtime: w.rt}
	s, _ := w.service(w.driverOver(away{d}))
	m, _, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	w.crash(m.SandboxID)
	if again, made, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil); err != nil || made || again.SandboxID != m.SandboxID {
		t.Errorf("it is dead: %+v, %v, %v", again, made, err)
	}
	d.probe = errors.New("no route")
	if _, _, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil); !errors.Is(err, d.probe) {
		t.Errorf("it does not answer: %v", err)
	}
	if there := w.boxes(); len(there) != 1 || there[0] != m.SandboxID {
		t.Errorf("there are %v", there)
	}
}

// After somebody has removed the owner's sandbox they can have another.
func TestCreateAfterItIsGone(t *testing.T) {
	w := newWorld(t)
	s, log := w.service(w.driver())
	m, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	w.OK(w.rt.Stop(w.Ctx, m.SandboxID))
	_, err = s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.Wrong("it is stopped, and theirs", err, runtime.ErrConflict)
	w.OK(w.rt.Destroy(w.Ctx, m.SandboxID))
	next, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	if next.SandboxID == m.SandboxID || !strings.Contains(log.String(), m.SandboxID) {
		t.Errorf("%+v, log %s", next, log)
	}
	w.OK(s.Owned().DestroySandbox(w.Ctx, zoe, next.SandboxID))
	_, err = s.Owned().FindSandbox(w.Ctx, zoe)
	w.Wrong("destroyed", err, runtime.ErrNotFound)
	if there := w.boxes(); len(there) > 0 {
		t.Errorf("there are %v", there)
	}
}

// No owner reaches another's sandbox, or learns whose it is.
func TestOwnership(t *testing.T) {
	w := newWorld(t)
	s, _ := w.service(w.driver())
	m, err := s.Owned().CreateSandbox(w.Ctx, yan, nil)
	w.OK(err)
	_, err = s.Owned().WriteFiles(w.Ctx, yan, m.SandboxID, map[string]service.File{"mine": text("yan's")})
	w.OK(err)
	calls := map[string]func(o registry.Owner, id string) error{
		"destroy": func(o registry.Owner, id string) error { return s.Owned().DestroySandbox(w.Ctx, o, id) },
		"bash": func(o registry.Owner, id string) error {
			_, err := s.Owned().ExecuteBash(w.Ctx, o, id, &runtime.Command{Command: []string{"touch /workspace/was-here"}})
			return err
		},
		"read": func(o registry.Owner, id string) error {
			_, err := s.Owned().ReadFile(w.Ctx, o, id, "mine")
			return err
		},
		"write": func(o registry.Owner, id string) error {
			_, err := s.Owned().WriteFiles(w.Ctx, o, id, map[string]service.File{"mine": text("was here")})
			return err
		},
	}
	for what, call := range calls {
		for _, tt := range []struct {
			who   string
			owner registry.Owner
			id    string
			class error
		}{
			{"another", zoe, m.SandboxID, runtime.ErrNotFound},
			{"one with the same user", registry.Owner{OrganizationID: "rival", ProjectID: "other", UserID: "yán"}, m.SandboxID, runtime.ErrNotFound},
			{"one with other bounds", registry.Owner{OrganizationID: "rivalhidden-", ProjectID: "project", UserID: "yán"}, m.SandboxID, runtime.ErrNotFound},
			{"nobody", registry.Owner{}, m.SandboxID, runtime.ErrInvalid},
			{"half of them", registry.Owner{OrganizationID: "rival", UserID: "yán"}, m.SandboxID, runtime.ErrInvalid},
			{"unknown id", zoe, runtime.NewID(), runtime.ErrNotFound},
			{"their own, unknown id", yan, runtime.NewID(), runtime.ErrNotFound},
			{"a prefix", yan, m.SandboxID[:11], runtime.ErrNotFound},
			{"an empty id", yan, "", runtime.ErrNotFound},
			{"a path", yan, "../" + m.SandboxID, runtime.ErrNotFound},
		} {
			err := call(tt.owner, tt.id)
			w.Wrong(what+" by "+tt.who, err, tt.class)
			for _, leak := range []string{"rival", "hidden", yan.UserID, w.state, w.codebase} {
				if strings.Contains(fmt.Sprint(err), leak) {
					t.Errorf("%s by %s: the error tells %q: %v", what, tt.who, leak, err)
				}
			}
		}
	}
	w.holds("mine", "yan's")
	if _, err := os.Stat(w.file("was-here")); err == nil {
		t.Error("somebody was there")
	}
	if got, err := s.Owned().ReadFile(w.Ctx, yan, m.SandboxID, "mine"); err != nil || string(got) != "yan's" {
		t.Errorf(`ReadFile "mine": got %q, %v; want "yan's", nil`, got, err)
	}
	_, err = s.Owned().FindSandbox(w.Ctx, zoe)
	w.Wrong("find", err, runtime.ErrNotFound)
	for _, o := range []registry.Owner{{}, {OrganizationID: "a", ProjectID: "b"}} {
		_, err := s.Owned().CreateSandbox(w.Ctx, o, nil)
		w.Wrong("create", err, runtime.ErrInvalid)
		_, _, err = s.Owned().EnsureSandbox(w.Ctx, o, nil)
		w.Wrong("ensure", err, runtime.ErrInvalid)
	}
	w.OK(calls["destroy"](yan, m.SandboxID))
}

func TestEnsureConfiguresGit(t *testing.T) {
	testenv.Tools(t, "git")
	w := newWorld(t)
	d := w.driver()
	s, _ := w.service(d)
	m, _, err := s.Owned().EnsureSandbox(w.Ctx, zoe, nil)
	if err != nil || m.GitConfigured {
		t.Fatalf("EnsureSandbox: got m %+v, err %v; want err == nil and not m.GitConfigured", m, err)
	}
	git := &service.GitConfig{Username: "zoe", Email: "z@x", Token: "t0ken-of-zoe"}
	for range 2 {
		again, made, err := s.Owned().EnsureSandbox(w.Ctx, zoe, &service.Params{GitConfig: git})
		w.OK(err)
		if m.GitConfigured = true; made || again != m {
			t.Errorf("%v, %+v, want %+v", made, again, m)
		}
	}
	if got := w.run(d, m.SandboxID, "git config user.name; printf 'url=https://github.com\\n\\n' | git credential fill"); !strings.Contains(got, "zoe\n") || !strings.Contains(got, "password=t0ken-of-zoe\n") {
		t.Errorf("git has %q", got)
	}
	w.OK(s.Close())
	s, log := w.service(d)
	if got, err := s.Owned().FindSandbox(w.Ctx, zoe); err != nil || got != m {
		t.Errorf("FindSandbox: got %+v, %v; want %+v, nil", got, err, m)
	}
	if strings.Contains(log.String(), "t0ken") {
		t.Error(log)
	}
	unseen(w, m.SandboxID, "t0ken-of-zoe")
}

// The settings of the owner's sandbox are compared with those of a request, also by the next service, and the sandbox
// stays.
func TestEnsureWithOtherSettings(t *testing.T) {
	w := newWorld(t)
	d := w.driver()
	d.opts.Chosen = true
	limited := &service.Params{Settings: fields.Values{}.With("preset", "read-only"), Network: runtime.NetworkNone}
	s, _ := w.service(d)
	m, _, err := s.Owned().EnsureSandbox(w.Ctx, zoe, limited)
	w.OK(err)
	for range 2 {
		for _, same := range []*service.Params{nil, limited} {
			again, made, err := s.Owned().EnsureSandbox(w.Ctx, zoe, same)
			if err != nil || made || again != m {
				t.Errorf("%+v: got %+v, %v, %v, want %+v", same, again, made, err, m)
			}
		}
		_, _, err := s.Owned().EnsureSandbox(w.Ctx, zoe, &service.Params{Settings: fields.Values{}.With("preset", "view-only")})
		w.Wrong("another preset", err, runtime.ErrConflict)
		if !strings.Contains(fmt.Sprint(err), `its preset is "read-only", and the request asks for "view-only"`) {
			t.Errorf("another preset: %v", err)
		}
		w.OK(s.Close())
		s, _ = w.service(d)
	}
	if there := w.boxes(); len(there) != 1 || there[0] != m.SandboxID {
		t.Errorf("got %v, want only %s", there, m.SandboxID)
	}
}
