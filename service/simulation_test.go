package service_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
	"wolffia/service/registry"
)

// A host is what runtimes share that come and go with their services: sandboxes in
// memory. It injects the faults; what a real runtime does about real deaths is
// the crash test's.
type host struct {
	mu     sync.Mutex
	boxes  map[string]*hostBox // guarded by mu
	rnd    *rand.Rand          // guarded by mu
	faults int                 // of a hundred calls so many fail or are slow; guarded by mu
}

type hostBox struct {
	labels map[string]string
	made   time.Time
	state  runtime.State
}

// sandbox describes a box.
func (b *hostBox) sandbox(id string) *runtime.Sandbox {
	return &runtime.Sandbox{ID: id, Labels: b.labels, CreatedAt: b.made, State: b.state}
}

// The ways in which a call may go wrong.
const (
	well = iota
	before
	halfWay // what it has done stays done
	slow
)

var errFault = runtime.Errorf(runtime.ErrUnavailable, "as the fault injector says")

// A lineToHost is the runtime of one service. When that is killed it does nothing any
// more.
type lineToHost struct {
	service.Runtime // nil: the test calls nothing else
	*host
	cut chan struct{}
}

// enter begins a call, and says how it goes. l.mu is held if err is nil.
func (l *lineToHost) enter(ctx context.Context) (how int, err error) {
	l.mu.Lock()
	how, wait := well, time.Duration(l.rnd.IntN(2000))*time.Microsecond
	if l.rnd.IntN(100) < l.faults {
		how = before + l.rnd.IntN(3)
	}
	if how == slow {
		l.mu.Unlock()
		select {
		case <-l.cut:
		case <-ctx.Done():
		case <-time.After(wait):
		}
		l.mu.Lock()
	}
	select {
	case <-l.cut:
		err = errors.New("its service was killed")
	default:
		err = ctx.Err()
	}
	if how == before {
		err = errFault
	}
	if err != nil {
		l.mu.Unlock()
	}
	return how, err
}

func (l *lineToHost) Create(ctx context.Context, c *runtime.SandboxConfig) (*runtime.Sandbox, error) {
	how, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	b := &hostBox{labels: c.Labels, made: time.UnixMilli(int64(len(l.boxes)) + 1), state: runtime.StateCreated}
	l.boxes[c.ID] = b
	if how == halfWay {
		return nil, errFault
	}
	return b.sandbox(c.ID), nil
}

func (l *lineToHost) Start(ctx context.Context, id string) error {
	how, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer l.mu.Unlock()
	l.boxes[id].state = runtime.StateRunning
	if how == halfWay {
		return errFault
	}
	return nil
}

func (l *lineToHost) Destroy(ctx context.Context, id string) error {
	how, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer l.mu.Unlock()
	if l.boxes[id] == nil {
		return runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", id)
	}
	delete(l.boxes, id)
	if how == halfWay {
		return errFault
	}
	return nil
}

// Exec answers the service's probe, and in the shell says which sandbox it is.
func (l *lineToHost) Exec(ctx context.Context, id string, cmd *runtime.Command) (*runtime.Result, error) {
	b, err := l.Get(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case b.State != runtime.StateRunning:
		return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s is %s", id, b.State)
	case cmd.Session != "":
		return &runtime.Result{Stdout: []byte(id)}, nil
	}
	return &runtime.Result{Stdout: []byte("alive\n")}, nil
}

func (l *lineToHost) DiskUsage(context.Context, string) (int64, bool, error) { return 0, true, nil }

func (l *lineToHost) Lost(context.Context) ([]*runtime.Sandbox, error) { return nil, nil }

func (l *lineToHost) List(ctx context.Context) ([]*runtime.Sandbox, error) {
	if _, err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	var all []*runtime.Sandbox
	for id, b := range l.boxes {
		all = append(all, b.sandbox(id))
	}
	return all, nil
}

func (l *lineToHost) Get(_ context.Context, id string) (*runtime.Sandbox, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.boxes[id]; b != nil {
		return b.sandbox(id), nil
	}
	return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", id)
}

// A client is an owner that does one thing after the other, and knows what has
// been acknowledged.
type client struct {
	suite.T
	*host
	owner registry.Owner
	rnd   *rand.Rand
	has   string // the id that was acknowledged; empty: none
	asked bool   // something was asked for and not answered before the service was killed
	done  int
}

// there is the state of the client's sandbox on the host; empty: it is not there.
func (c *client) there() runtime.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.boxes[c.has]; b != nil {
		return b.state
	}
	return ""
}

// act does random things until the service is killed.
func (c *client) act(s *service.Service, killed <-chan struct{}, others func() string) {
	for !c.asked {
		c.asked = true
		wrong := c.one(s, others())
		select {
		case <-killed:
			return // whatever it was told now was not told in time
		default:
		}
		c.asked = false
		c.done++
		if wrong == "" {
			wrong = c.known(s)
		}
		if wrong != "" {
			select {
			case <-killed: // meanwhile
				c.asked = true
			default:
				c.Errorf("%s: %s", c.owner.UserID, wrong)
			}
			return
		}
	}
}

// known compares what the service says with what was acknowledged.
func (c *client) known(s *service.Service) string {
	m, err := s.Owned().FindSandbox(c.Ctx, c.owner)
	if m.SandboxID == "" && c.there() == "" {
		c.has = "" // it was gone, and somebody has reconciled
	}
	if err != nil && !errors.Is(err, runtime.ErrNotFound) || m.SandboxID != c.has {
		return fmt.Sprintf("the service says %q, %v; acknowledged is %q", m.SandboxID, err, c.has)
	}
	return ""
}

// one does one thing, and says what is wrong with its end.
func (c *client) one(s *service.Service, foreign string) string {
	state := c.there()
	switch n := c.rnd.IntN(100); {
	case n < 30:
		m, err := s.Owned().CreateSandbox(c.Ctx, c.owner, nil)
		var conflict *registry.ConflictError
		switch {
		case err == nil && state == "":
			c.has = m.SandboxID
		case errors.As(err, &conflict) && conflict.SandboxID == c.has && state != "":
		case errors.Is(err, errFault) && state == "":
			c.has = "" // what was gone is forgotten, what failed is not there
		default:
			return fmt.Sprintf("create: %+v, %v; it has %q, %q", m, err, c.has, state)
		}
	case n < 55:
		m, made, err := s.Owned().EnsureSandbox(c.Ctx, c.owner, nil)
		switch {
		case err == nil && made == (state != runtime.StateRunning) && (made || m.SandboxID == c.has):
			c.has = m.SandboxID
		case errors.Is(err, errFault) && state != runtime.StateRunning:
			m, _ := s.Owned().FindSandbox(c.Ctx, c.owner) // the old one could not be destroyed, or is and no new one was made
			if m.SandboxID != "" && m.SandboxID != c.has {
				return fmt.Sprintf("ensure has failed; it had %q, and has %q", c.has, m.SandboxID)
			}
			c.has = m.SandboxID
		default:
			return fmt.Sprintf("ensure: %+v, %v, %v; it has %q, %q", m, made, err, c.has, state)
		}
	case n < 75:
		err := s.Owned().DestroySandbox(c.Ctx, c.owner, c.has)
		switch {
		case err == nil && c.has != "":
			c.has = ""
		case errors.Is(err, runtime.ErrNotFound) && state == "":
			c.has = ""
		case errors.Is(err, errFault) && c.has != "": // one that cannot be destroyed is not forgotten
		default:
			return fmt.Sprintf("destroy: %v; it has %q, %q", err, c.has, state)
		}
	case n < 85:
		r, err := s.Owned().ExecuteBash(c.Ctx, c.owner, c.has, &runtime.Command{})
		if state == runtime.StateRunning && (err != nil || string(r.Stdout) != c.has) || state != runtime.StateRunning && err == nil {
			return fmt.Sprintf("exec: %+v, %v; it has %q, %q", r, err, c.has, state)
		}
	case n < 92: // another's
		if foreign == "" || foreign == c.has {
			break
		}
		if err := s.Owned().DestroySandbox(c.Ctx, c.owner, foreign); !errors.Is(err, runtime.ErrNotFound) {
			return fmt.Sprintf("another's: %v", err)
		}
	case n < 97: // it dies
		c.mu.Lock()
		if b := c.boxes[c.has]; b != nil {
			b.state = runtime.StateDead
		}
		c.mu.Unlock()
	default:
		if err := s.Owned().Reconcile(c.Ctx); err != nil && !errors.Is(err, errFault) {
			return fmt.Sprintf("reconcile: %v", err)
		}
	}
	return ""
}

// Several owners do random things at the same time, with a runtime that fails,
// half fails and is slow; the service is killed in the midst of it, and goes on
// with what was on the disk.
func TestSimulateService(t *testing.T) {
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("WOLFFIA_CRASH_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed: WOLFFIA_CRASH_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	h := &host{boxes: map[string]*hostBox{}, rnd: rand.New(rand.NewPCG(seed, 1))}
	base := suite.New(t)
	var clients []*client
	for n := range 6 {
		clients = append(clients, &client{
			T: base, host: h, rnd: rand.New(rand.NewPCG(seed, uint64(n+2))),
			owner: registry.Owner{OrganizationID: "o", ProjectID: "p", UserID: strconv.Itoa(n)},
		})
	}
	dir := t.TempDir()
	for range 25 {
		line := &lineToHost{host: h, cut: make(chan struct{})}
		s, err := service.Open(base.Ctx, line, dir, nil)
		base.OK(err)
		h.settled(base, s, clients)
		h.mu.Lock()
		h.faults = 30
		h.mu.Unlock()
		killed := make(chan struct{})
		var all sync.WaitGroup
		for _, c := range clients {
			pick := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			all.Go(func() {
				c.act(s, killed, func() string { return h.any(pick) })
			})
		}
		time.Sleep(time.Duration(rnd.IntN(40)) * time.Millisecond) // it is killed at any time
		h.mu.Lock()                                                // nothing happens on the host any more
		close(killed)                                              // from here on no client gets an answer
		crashed := t.TempDir()
		base.OK(copyIndex(dir, crashed))
		close(line.cut)
		h.faults = 0
		h.mu.Unlock()
		all.Wait()
		base.OK(s.Close())
		dir = crashed
		if t.Failed() {
			return
		}
	}
	done := 0
	for _, c := range clients {
		done += c.done
	}
	t.Logf("%d operations were acknowledged", done)
}

// settled compares the host, the service that was just opened, and what the
// clients know.
func (h *host) settled(t suite.T, s *service.Service, clients []*client) {
	t.Helper()
	known := map[string]bool{}
	for _, c := range clients {
		m, err := s.Owned().FindSandbox(t.Ctx, c.owner)
		if err != nil && !errors.Is(err, runtime.ErrNotFound) {
			t.Fatal(err)
		}
		if was := c.has; m.SandboxID != was && !c.asked && c.there() != "" {
			t.Fatalf("%s had %q, acknowledged, and has %q", c.owner.UserID, was, m.SandboxID)
		} else if m.SandboxID != "" && was == "" && !c.asked {
			t.Fatalf("%s had nothing, and has %q", c.owner.UserID, m.SandboxID)
		}
		c.has, c.asked = m.SandboxID, false
		if known[c.has] = c.has != ""; known[c.has] && c.there() == "" {
			t.Fatalf("%s has %q, which is not there", c.owner.UserID, c.has)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, b := range h.boxes {
		if !known[id] {
			t.Fatalf("no record has %s, of %s, which is %s", id, b.labels[launch.LabelUserID], b.state)
		}
	}
}

// any returns the id of any sandbox.
func (h *host) any(rnd *rand.Rand) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := slices.Sorted(maps.Keys(h.boxes))
	if len(ids) == 0 {
		return ""
	}
	return ids[rnd.IntN(len(ids))]
}

// copyIndex copies the registry's file, which each change replaces as a whole, as it
// is at one moment, if there is one.
func copyIndex(from, to string) error {
	data, err := os.ReadFile(filepath.Join(from, "registry.db"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.WriteFile(filepath.Join(to, "registry.db"), data, 0o600))
}
