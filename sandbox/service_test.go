package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/suite"
	"wolffia/internal/testenv"
	"wolffia/registry"
	"wolffia/runtime"
	"wolffia/sandbox"
)

var (
	yan = registry.Owner{OrganizationID: "rival", ProjectID: "hidden-project", UserID: "yan"}
	xia = registry.Owner{OrganizationID: "acme", ProjectID: "web shop", UserID: "xia"}
)

// A buffer is a log that several may write to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// service opens the service over a driver.
func (w *world) service(d sandbox.SandboxDriver) (*sandbox.Service, *buffer) {
	w.Helper()
	log := new(buffer)
	s, err := sandbox.OpenService(w.Ctx, d, w.state, &sandbox.ServiceOptions{Log: slog.New(slog.NewTextHandler(log, nil))})
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

// crash kills a sandbox's shim, and waits until everybody knows.
func (w *world) crash(id string) {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(w.state, "sandboxes", id, "shim.json"))
	w.OK(err)
	var shim struct{ PID int }
	w.OK(json.Unmarshal(data, &shim))
	w.OK(syscall.Kill(shim.PID, syscall.SIGKILL))
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
		m, err := s.CreateSandbox(w.Ctx, zoe, nil)
		ids[i] = m.SandboxID
		return err
	}) {
		if err == nil {
			continue
		}
		var conflict *registry.ConflictError
		if !errors.As(err, &conflict) || !errors.Is(err, runtime.ErrConflict) || conflict.SandboxID == "" || ids[i] != "" {
			t.Errorf("%d: %v", i, err)
		}
	}
	won := strings.Join(ids, "")
	if len(won) != 12 {
		t.Fatalf("made %q", ids)
	}
	if there := w.boxes(); len(there) != 1 || there[0] != won {
		t.Errorf("there are %v", there)
	}
	if m, err := s.FindSandbox(w.Ctx, zoe); err != nil || m.SandboxID != won {
		t.Errorf("%+v, %v", m, err)
	}
	// Another owner is not in the way.
	_, err := s.CreateSandbox(w.Ctx, yan, nil)
	w.OK(err)
}

func TestFiftyEnsureForOneOwner(t *testing.T) {
	w := newWorld(t)
	s, _ := w.service(w.driver())
	found, made := make([]registry.Metadata, 50), make([]bool, 50)
	for _, err := range suite.AtOnce(len(found), func(i int) (err error) {
		found[i], made[i], err = s.EnsureSandbox(w.Ctx, zoe, nil)
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
	first, made, err := s.EnsureSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	if !made {
		t.Error("it was there")
	}
	w.run(d, first.SandboxID, "A=kept")
	again, made, err := s.EnsureSandbox(w.Ctx, zoe, nil)
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
		_, err := d.ExecuteBash(w.Ctx, &sandbox.ExecuteBashParams{SandboxID: first.SandboxID, Command: "echo > /tmp/begun; cat /tmp/go"})
		busy <- err
	}()
	inside := func(command string) {
		_, err := w.rt.Exec(w.Ctx, first.SandboxID, &runtime.ExecRequest{Command: []string{"sh", "-c", command}})
		w.OK(err)
	}
	inside("cat /tmp/begun")
	if _, made, err = s.EnsureSandbox(w.Ctx, zoe, nil); err != nil || made {
		t.Errorf("while it is busy: %v, %v", made, err)
	}
	inside("echo > /tmp/go")
	w.OK(<-busy)
	// Who has no time says nothing of the sandbox.
	over, cancel := context.WithCancel(w.Ctx)
	cancel()
	if _, _, err := s.EnsureSandbox(over, zoe, nil); !errors.Is(err, context.Canceled) {
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
		{"its shim was killed", w.crash},
		{"it was stopped", func(id string) { w.OK(w.rt.Stop(w.Ctx, id)) }},
		{"it was destroyed", func(id string) { w.OK(w.rt.Destroy(w.Ctx, id)) }},
		{"its configuration is damaged", func(id string) {
			w.OK(w.rt.Stop(w.Ctx, id))
			w.OK(os.WriteFile(filepath.Join(w.state, "sandboxes", id, "config.json"), []byte(`{"labels`), 0o600))
		}},
	} {
		tt.spoil(id)
		_, err := s.ExecuteBash(w.Ctx, zoe, &sandbox.ExecuteBashParams{SandboxID: id, Command: ":"})
		if runtime.Class(err) == nil {
			t.Errorf("%s: a command says %v", tt.what, err)
		}
		m, made, err := s.EnsureSandbox(w.Ctx, zoe, nil)
		w.OK(err)
		if !made || m.SandboxID == id {
			t.Errorf("%s: %v, %+v", tt.what, made, m)
		}
		if there := w.boxes(); len(there) != 1 || there[0] != m.SandboxID {
			t.Errorf("%s: there are %v", tt.what, there)
		}
		if !strings.Contains(log.String(), "is replaced\" sandboxId="+id) {
			t.Errorf("%s: the log is %s", tt.what, log)
		}
		w.Wrong(tt.what, s.DestroySandbox(w.Ctx, zoe, id), runtime.ErrNotFound)
		id = m.SandboxID
	}
}

// After somebody has removed the owner's sandbox they can have another.
func TestCreateAfterItIsGone(t *testing.T) {
	w := newWorld(t)
	s, log := w.service(w.driver())
	m, err := s.CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	w.OK(w.rt.Stop(w.Ctx, m.SandboxID))
	_, err = s.CreateSandbox(w.Ctx, zoe, nil)
	w.Wrong("it is stopped, and theirs", err, runtime.ErrConflict)
	w.OK(w.rt.Destroy(w.Ctx, m.SandboxID))
	next, err := s.CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	if next.SandboxID == m.SandboxID || !strings.Contains(log.String(), m.SandboxID) {
		t.Errorf("%+v, log %s", next, log)
	}
	w.OK(s.DestroySandbox(w.Ctx, zoe, next.SandboxID))
	_, err = s.FindSandbox(w.Ctx, zoe)
	w.Wrong("destroyed", err, runtime.ErrNotFound)
	if there := w.boxes(); len(there) > 0 {
		t.Errorf("there are %v", there)
	}
}

// Nobody gets at what is not theirs, or learns whose it is.
func TestOwnership(t *testing.T) {
	w := newWorld(t)
	s, _ := w.service(w.driver())
	m, err := s.CreateSandbox(w.Ctx, yan, nil)
	w.OK(err)
	_, err = s.WriteFiles(w.Ctx, yan, m.SandboxID, map[string]sandbox.File{"mine": text("yan's")})
	w.OK(err)
	calls := map[string]func(o registry.Owner, id string) error{
		"destroy": func(o registry.Owner, id string) error { return s.DestroySandbox(w.Ctx, o, id) },
		"bash": func(o registry.Owner, id string) error {
			_, err := s.ExecuteBash(w.Ctx, o, &sandbox.ExecuteBashParams{SandboxID: id, Command: "touch /workspace/was-here"})
			return err
		},
		"read": func(o registry.Owner, id string) error {
			_, err := s.ReadFile(w.Ctx, o, id, "mine")
			return err
		},
		"write": func(o registry.Owner, id string) error {
			_, err := s.WriteFiles(w.Ctx, o, id, map[string]sandbox.File{"mine": text("was here")})
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
			{"another", zoe, m.SandboxID, runtime.ErrDenied},
			{"one with the same user", registry.Owner{OrganizationID: "rival", ProjectID: "other", UserID: "yan"}, m.SandboxID, runtime.ErrDenied},
			{"one with other bounds", registry.Owner{OrganizationID: "rivalhidden-", ProjectID: "project", UserID: "yan"}, m.SandboxID, runtime.ErrDenied},
			{"nobody", registry.Owner{}, m.SandboxID, runtime.ErrInvalid},
			{"half of them", registry.Owner{OrganizationID: "rival", UserID: "yan"}, m.SandboxID, runtime.ErrInvalid},
			{"unknown id", zoe, runtime.NewID(), runtime.ErrNotFound},
			{"their own, unknown id", yan, runtime.NewID(), runtime.ErrNotFound},
			{"a prefix", yan, m.SandboxID[:11], runtime.ErrNotFound},
			{"an empty id", yan, "", runtime.ErrNotFound},
			{"a path", yan, "../" + m.SandboxID, runtime.ErrNotFound},
		} {
			err := call(tt.owner, tt.id)
			w.Wrong(what+" by "+tt.who, err, tt.class)
			for _, leak := range []string{"rival", "hidden", "yan", w.state, w.codebase} {
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
	if got, err := s.ReadFile(w.Ctx, yan, m.SandboxID, "mine"); err != nil || string(got) != "yan's" {
		t.Errorf("%q, %v", got, err)
	}
	_, err = s.FindSandbox(w.Ctx, zoe)
	w.Wrong("find", err, runtime.ErrNotFound)
	for _, o := range []registry.Owner{{}, {OrganizationID: "a", ProjectID: "b"}} {
		_, err := s.CreateSandbox(w.Ctx, o, nil)
		w.Wrong("create", err, runtime.ErrInvalid)
		_, _, err = s.EnsureSandbox(w.Ctx, o, nil)
		w.Wrong("ensure", err, runtime.ErrInvalid)
	}
	w.OK(calls["destroy"](yan, m.SandboxID))
}

func TestEnsureConfiguresGit(t *testing.T) {
	testenv.Tools(t, "git")
	w := newWorld(t)
	d := w.driver()
	s, _ := w.service(d)
	m, _, err := s.EnsureSandbox(w.Ctx, zoe, nil)
	if err != nil || m.GitConfigured {
		t.Fatalf("%+v, %v", m, err)
	}
	git := &sandbox.GitConfig{Username: "zoe", Email: "z@x", Token: "t0ken-of-zoe"}
	for range 2 {
		again, made, err := s.EnsureSandbox(w.Ctx, zoe, git)
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
	if got, err := s.FindSandbox(w.Ctx, zoe); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
	if strings.Contains(log.String(), "t0ken") {
		t.Error(log)
	}
	unseen(w, m.SandboxID, "t0ken-of-zoe")
}

func TestSecondServiceLeaves(t *testing.T) {
	w := newWorld(t)
	s, _ := w.service(w.driver())
	m, err := s.CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	_, err = sandbox.OpenService(w.Ctx, sandbox.NewDriver(w.open(), nil), w.state, nil)
	w.Wrong("a second one", err, registry.ErrInUse)
	if !strings.Contains(err.Error(), w.state) {
		t.Errorf("the error is %v", err)
	}
	_, err = s.ExecuteBash(w.Ctx, zoe, &sandbox.ExecuteBashParams{SandboxID: m.SandboxID, Command: ":"})
	w.OK(err)
	w.OK(s.Close())
	w.service(sandbox.NewDriver(w.open(), nil))
}

func TestReconcile(t *testing.T) {
	w := newWorld(t)
	d := w.driver()
	s, _ := w.service(d)
	gone, err := s.CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	dead, err := s.CreateSandbox(w.Ctx, yan, nil)
	w.OK(err)
	w.run(d, dead.SandboxID, ":")
	w.OK(s.Close())

	// While there is no service, one is removed, one dies, and others are made.
	w.OK(w.rt.Destroy(w.Ctx, gone.SandboxID))
	w.crash(dead.SandboxID)
	unknown, err := d.CreateSandbox(w.Ctx, &sandbox.CreateSandboxParams{SandboxID: runtime.NewID(), Owner: xia})
	w.OK(err)
	second, err := d.CreateSandbox(w.Ctx, &sandbox.CreateSandboxParams{SandboxID: runtime.NewID(), Owner: yan})
	w.OK(err)
	partial := &runtime.SandboxConfig{}
	sandbox.SetOwner(partial, zoe, false)
	delete(partial.Labels, "wolffia.projectId")
	_, err = w.rt.Create(w.Ctx, partial)
	w.OK(err)
	w.OK(w.rt.Start(w.Ctx, partial.ID))
	// And one was left half made: reserved, made, not registered.
	zoes := registry.Owner{OrganizationID: "acme", ProjectID: "half", UserID: "zoe"}
	r, err := registry.Open(w.state)
	w.OK(err)
	half := runtime.NewID()
	w.OK(r.Reserve(registry.Metadata{SandboxID: half, ContainerName: half, Owner: zoes, CreatedAt: 1}))
	never := runtime.NewID()
	w.OK(r.Reserve(registry.Metadata{SandboxID: never, ContainerName: never, Owner: registry.Owner{OrganizationID: "n", ProjectID: "n", UserID: "n"}, CreatedAt: 1}))
	w.OK(r.Close())
	_, err = d.CreateSandbox(w.Ctx, &sandbox.CreateSandboxParams{SandboxID: half, Owner: zoes})
	w.OK(err)

	s, log := w.service(d)
	if _, err := s.FindSandbox(w.Ctx, zoe); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("what is gone: %v", err)
	}
	if m, err := s.FindSandbox(w.Ctx, xia); err != nil || m.SandboxID != unknown.SandboxID || m.CreatedAt != unknown.CreatedAt.UnixMilli() {
		t.Errorf("the unknown one: %+v, %v", m, err)
	}
	if m, err := s.FindSandbox(w.Ctx, yan); err != nil || m != dead {
		t.Errorf("the dead one: %+v, %v", m, err)
	}
	if _, err := s.FindSandbox(w.Ctx, zoes); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("the half made one: %v", err)
	}
	there := strings.Join(w.boxes(), " ")
	for id, is := range map[string]bool{dead.SandboxID: true, unknown.SandboxID: true, second.SandboxID: true, partial.ID: true, half: false, gone.SandboxID: false} {
		if strings.Contains(there, id) != is {
			t.Errorf("there are %s; %s: %v", there, id, !is)
		}
	}
	for _, line := range []string{
		"stale entry is removed: its sandbox is gone\" sandboxId=" + gone.SandboxID,
		"is adopted\" sandboxId=" + unknown.SandboxID,
		"its owner has another\" sandboxId=" + second.SandboxID,
		"left half made is destroyed\" sandboxId=" + half,
	} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("the log does not say once: %s\n%s", line, log)
		}
	}
	// Work goes on in what was adopted; the dead one is replaced; nobody is kept
	// out by what was never made.
	_, err = s.ExecuteBash(w.Ctx, xia, &sandbox.ExecuteBashParams{SandboxID: unknown.SandboxID, Command: ":"})
	w.OK(err)
	_, err = s.CreateSandbox(w.Ctx, zoes, nil)
	w.OK(err)
	_, err = s.CreateSandbox(w.Ctx, registry.Owner{OrganizationID: "n", ProjectID: "n", UserID: "n"}, nil)
	w.OK(err)
	if m, made, err := s.EnsureSandbox(w.Ctx, yan, nil); err != nil || !made || m.SandboxID == second.SandboxID {
		t.Errorf("%+v, %v, %v", m, made, err)
	}
}

func TestDamagedRegistryIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	d := w.driver()
	s, _ := w.service(d)
	m, err := s.CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	w.OK(s.Close())
	w.OK(os.WriteFile(filepath.Join(w.state, "registry.db"), bytes.Repeat([]byte("damaged "), 4096), 0o600))
	s, log := w.service(d)
	if got, err := s.FindSandbox(w.Ctx, zoe); err != nil || got != m {
		t.Errorf("%+v, %v, want %+v", got, err, m)
	}
	if !strings.Contains(log.String(), "damaged") || !strings.Contains(log.String(), "adopted") {
		t.Errorf("the log is %s", log)
	}
}

// A faulty driver fails as it is told.
type faulty struct {
	*sandbox.Driver
	create, destroy func() error
}

func (f *faulty) CreateSandbox(ctx context.Context, p *sandbox.CreateSandboxParams) (*sandbox.CreatedSandbox, error) {
	made, err := f.Driver.CreateSandbox(ctx, p)
	if err == nil && f.create != nil {
		err = f.create()
	}
	return made, err
}

func (f *faulty) DestroySandbox(ctx context.Context, id string) error {
	if f.destroy != nil {
		if err := f.destroy(); err != nil {
			return err
		}
	}
	return f.Driver.DestroySandbox(ctx, id)
}

func TestCreateThatFailsFreesTheOwner(t *testing.T) {
	w := newWorld(t)
	f := &faulty{Driver: w.driver()}
	s, log := w.service(f)
	failed := runtime.Errorf(runtime.ErrUnavailable, "as told")
	f.create = func() error { return failed }
	_, err := s.CreateSandbox(w.Ctx, zoe, nil)
	w.Wrong("create", err, failed)
	if there := w.boxes(); len(there) > 0 {
		t.Errorf("there are %v", there)
	}
	// Nor can it be destroyed: it is known to be half made.
	f.destroy = func() error { return failed }
	_, err = s.CreateSandbox(w.Ctx, zoe, nil)
	w.Wrong("create", err, failed)
	if there := w.boxes(); len(there) != 1 || !strings.Contains(log.String(), there[0]) {
		t.Errorf("there are %v; log %s", there, log)
	}
	_, err = s.FindSandbox(w.Ctx, zoe)
	w.Wrong("half made", err, runtime.ErrNotFound)
	f.create = nil
	_, _, err = s.EnsureSandbox(w.Ctx, zoe, nil)
	w.Wrong("there would be two", err, failed)
	w.OK(s.Reconcile(w.Ctx)) // which says so, and goes on
	f.destroy = nil
	_, _, err = s.EnsureSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	if there := w.boxes(); len(there) != 1 {
		t.Errorf("there are %v", there)
	}
	// The caller gives up in the midst of it.
	ctx, cancel := context.WithCancel(w.Ctx)
	f.create = func() error { cancel(); return ctx.Err() }
	if _, err = s.CreateSandbox(ctx, yan, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	f.create = nil
	_, err = s.CreateSandbox(w.Ctx, yan, nil)
	w.OK(err)
	if there := w.boxes(); len(there) != 2 {
		t.Errorf("there are %v", there)
	}
	// One that cannot be destroyed is not forgotten.
	m, err := s.FindSandbox(w.Ctx, yan)
	w.OK(err)
	f.destroy = func() error { return failed }
	w.Wrong("destroy", s.DestroySandbox(w.Ctx, yan, m.SandboxID), failed)
	if got, err := s.FindSandbox(w.Ctx, yan); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
}

// Whoever waits for their turn can give up.
func TestWaitingForTheOwnersLock(t *testing.T) {
	w := newWorld(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	f := &faulty{Driver: w.driver(), create: func() error { close(begun); <-goOn; return nil }}
	s, _ := w.service(f)
	made := make(chan error, 1)
	go func() {
		_, err := s.CreateSandbox(w.Ctx, zoe, nil)
		made <- err
	}()
	w.Within("create", begun)
	ctx, cancel := context.WithTimeout(w.Ctx, 20*time.Millisecond)
	defer cancel()
	if _, _, err := s.EnsureSandbox(ctx, zoe, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	_, err := s.FindSandbox(w.Ctx, zoe)
	w.Wrong("while it is made", err, runtime.ErrNotFound)
	close(goOn)
	w.OK(<-made)
}
