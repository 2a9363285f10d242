package container

import (
	"context"
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
)

// A host has running sandboxes, and an error for who asks for their jobs.
type host struct {
	service.Runtime
	boxes     []*runtime.Sandbox
	jobs      error
	old       []*runtime.Job
	destroyed bool
	stop      func() // called by Stop
}

func (h *host) Get(_ context.Context, id string) (*runtime.Sandbox, error) {
	for _, b := range h.boxes {
		if b.ID == id {
			return b, nil
		}
	}
	return nil, runtime.ErrNotFound
}

func (h *host) SessionJobs(context.Context, runtime.SessionID) ([]*runtime.Job, error) {
	return h.old, h.jobs
}

func (h *host) WaitJob(context.Context, runtime.SessionID, string) (runtime.Result, error) {
	return runtime.Result{}, runtime.ErrNotFound
}

func (h *host) List(context.Context) ([]*runtime.Sandbox, error) {
	return slices.Clone(h.boxes), nil
}

func (h *host) Destroy(context.Context, string) error {
	h.destroyed = true
	return nil
}

func (h *host) ChangeLabels(_ context.Context, _ string, edit func(map[string]string) error) (*runtime.Sandbox, error) {
	return h.boxes[0], edit(h.boxes[0].Labels)
}

// A look at a container that tells nothing neither ends nor removes it: as that of a client that
// has gone, and while another call starts it.
func TestLook(t *testing.T) {
	dead := holder{PID: self().PID, Start: self().Start + 1}
	long := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		jobs    error
		started time.Time
		by      holder
		want    State // empty: it is removed
		box     runtime.State
	}{
		"the client has gone":         {context.Canceled, long, dead, Running, runtime.StateRunning},
		"it is being started":         {runtime.ErrNotFound, time.Now(), self(), Running, runtime.StateRunning},
		"it has gone":                 {runtime.ErrNotFound, long, self(), "", runtime.StateRunning},
		"its starter was killed":      {runtime.ErrNotFound, time.Now(), dead, "", runtime.StateRunning},
		"it is paused":                {runtime.ErrConflict, long, self(), Paused, runtime.StatePaused},
		"it hibernates":               {nil, long, self(), Paused, runtime.StateHibernated},
		"the host has no answer here": {runtime.ErrUnavailable, long, dead, Running, runtime.StateRunning},
	} {
		r := &record{Started: c.started, Kind: byJob, Holder: c.by}
		r.HostConfig.AutoRemove = true
		labels := map[string]string{launch.LabelRecord: "{}"}
		if err := r.put(labels); err != nil {
			t.Fatal(err)
		}
		h := &host{jobs: c.jobs, boxes: []*runtime.Sandbox{{ID: "0123456789ab", State: c.box, Labels: labels}}}
		e := New(service.New(h, nil), &Options{})
		list, err := e.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got State
		if len(list) > 0 {
			got = list[0].State
		}
		if got != c.want || h.destroyed != (c.want == "") {
			t.Errorf("%s: state %q, destroyed %v, want state %q", name, got, h.destroyed, c.want)
		}
	}
}

// A pausing host has a paused sandbox, which it ends at the look of that number.
type pausing struct {
	host
	looks, ends int
	end         *runtime.Sandbox
}

func (p *pausing) Get(ctx context.Context, id string) (*runtime.Sandbox, error) {
	if p.looks++; p.looks == p.ends {
		p.boxes = []*runtime.Sandbox{p.end}
	}
	return p.host.Get(ctx, id)
}

// A wait for a container that is paused, or that another call is about to start, waits until it has
// ended after that, and does not take what is left of an earlier start for its end.
func TestWaitLater(t *testing.T) {
	for was, c := range map[State]struct {
		state runtime.State
		by    kind
	}{Paused: {runtime.StatePaused, byJob}, Running: {runtime.StateRunning, ""}} {
		synctest.Test(t, func(t *testing.T) {
			r := &record{Started: time.Now(), Kind: c.by, Holder: self()}
			box := func(state runtime.State) *runtime.Sandbox {
				labels := map[string]string{launch.LabelRecord: "{}"}
				if err := r.put(labels); err != nil {
					t.Fatal(err)
				}
				return &runtime.Sandbox{ID: "0123456789ab", State: state, Labels: labels}
			}
			h := &pausing{host: host{boxes: []*runtime.Sandbox{box(c.state)}}, ends: 30}
			h.old = []*runtime.Job{{ID: "1", Name: mainJob, EndedAt: time.Now(), ExitCode: new(5)}}
			r.Exit = &Exit{Code: 3, At: time.Now()}
			h.end = box(runtime.StateStopped)
			e := New(service.New(h, nil), &Options{})
			one, err := e.Get(t.Context(), FullID("0123456789ab"))
			if err != nil || one.State != was {
				t.Fatalf("got %+v, %v; want one that is %s", one, err, was)
			}
			if code, err := one.Wait(t.Context()); code != 3 || err != nil || h.looks < h.ends {
				t.Errorf("%s: got %d, %v after %d looks; want 3 after %d", was, code, err, h.looks, h.ends)
			}
		})
	}
}

// A service that starts leaves a container that was made and not started as it is.
func TestWatchCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &record{}
		r.HostConfig.AutoRemove = true
		labels := map[string]string{launch.LabelRecord: "{}"}
		if err := r.put(labels); err != nil {
			t.Fatal(err)
		}
		h := &host{boxes: []*runtime.Sandbox{{ID: "0123456789ab", State: runtime.StateRunning, Labels: labels}}}
		e := New(service.New(h, nil), &Options{})
		if err := e.Watch(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if h.destroyed || recordOf(labels).Exit != nil {
			t.Errorf("destroyed: %v, record: %+v", h.destroyed, recordOf(labels))
		}
	})
}

// The beginning of more than one id means none of them, a name one only.
func TestPrefix(t *testing.T) {
	labels := map[string]string{launch.LabelRecord: "{}"}
	if err := new(record).put(labels); err != nil {
		t.Fatal(err)
	}
	h := &host{boxes: []*runtime.Sandbox{
		{ID: "abc000000000", State: runtime.StateRunning, Labels: labels},
		{ID: "abd000000000", State: runtime.StateRunning, Labels: labels},
		{ID: "fff000000000", State: runtime.StateRunning, Labels: labels, Name: "abd"},
	}}
	e := New(service.New(h, nil), &Options{})
	for ref, want := range map[string]string{"abc": "abc000000000", "ab": "", "abd": "fff000000000", "/abd": "fff000000000", "": "", "f": "fff000000000"} {
		c, err := e.Get(t.Context(), ref)
		if (err == nil) != (want != "") || err == nil && c.Sandbox.ID != want {
			t.Errorf("%q: got %v, %v, want %q", ref, c, err, want)
		}
	}
}

// A client that follows the logs and does not read does not stop the main process.
func TestIdleFollower(t *testing.T) {
	m := newHeld()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		v, _ := m.view(look{follow: true})
		done <- (&Sight{Follow: true, Stdout: writer(func([]byte) error {
			<-ctx.Done()
			return ctx.Err()
		})}).show(ctx, viewed{Process: v})
	}()
	taken := make(chan error)
	from, to := io.Pipe()
	go func() { taken <- m.take(0)(from) }()
	go func() {
		for n := 0; n < 2*kept; n += 1 << 10 {
			_, _ = to.Write(make([]byte, 1<<10))
		}
		_ = to.Close()
	}()
	select {
	case err := <-taken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the main process waits for a client that does not read")
	}
	cancel()
	m.end(0)
	<-done
}

// Of two calls that start a container that has ended, here of two processes, the second one does not
// stop the first one's sandbox. A start that fails leaves the record as it was.
func TestStartTwice(t *testing.T) {
	labels := map[string]string{launch.LabelRecord: "{}"}
	r := &record{Started: time.Now().Add(-time.Hour), Kind: byJob, Exit: &Exit{Code: 3}}
	if err := r.put(labels); err != nil {
		t.Fatal(err)
	}
	h := &host{boxes: []*runtime.Sandbox{{ID: "0123456789ab", State: runtime.StateRunning, Labels: labels}}}
	get := func() *Container {
		c, err := New(service.New(h, nil), &Options{}).Get(t.Context(), "0123456789ab")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, early := get(), get()
	stopped := 0
	h.stop = func() {
		if stopped++; stopped == 1 {
			late := get()
			if late.State != Running {
				t.Errorf("during a start: it is %s", late.State)
			}
			for _, second := range []*Container{early, late} {
				if err := second.Start(t.Context(), nil); !errors.Is(err, runtime.ErrExists) {
					t.Errorf("during another start: %v", err)
				}
			}
		}
	}
	if err := c.Start(t.Context(), nil); !errors.Is(err, errNoStart) || stopped != 1 {
		t.Errorf("stopped %d times, %v", stopped, err)
	}
	if now := get(); now.State != Exited || now.Exit.Code != 3 || !now.Started.Equal(r.Started) {
		t.Errorf("after a start that failed: %+v", now.record)
	}
	r.Started = time.Now()
	if err := r.put(labels); err != nil {
		t.Fatal(err)
	}
	if err := early.Start(t.Context(), nil); !errors.Is(err, runtime.ErrExists) || stopped != 1 {
		t.Errorf("after another start: stopped %d times, %v", stopped, err)
	}
}

var errNoStart = errors.New("a host that starts nothing")

func (h *host) Stop(context.Context, string) error {
	h.stop()
	return nil
}

func (h *host) Start(context.Context, string) error { return errNoStart }

type writer func([]byte) error

func (w writer) Write(b []byte) (int, error) { return len(b), w(b) }

// A main process that begins cannot be signaled yet.
func TestSignalEarly(t *testing.T) {
	labels := map[string]string{launch.LabelRecord: "{}"}
	if err := (&record{Started: time.Now(), Kind: byHolder, Holder: self()}).put(labels); err != nil {
		t.Fatal(err)
	}
	h := &host{boxes: []*runtime.Sandbox{{ID: "0123456789ab", State: runtime.StateRunning, Labels: labels}}}
	e := New(service.New(h, nil), &Options{})
	e.next("0123456789ab")
	c, err := e.Get(t.Context(), "0123")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Signal(t.Context(), syscall.SIGTERM); !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("signal: got %v, want runtime.ErrUnavailable", err)
	}
	if err := c.Resize(t.Context(), 1, 1); !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("resize: got %v, want runtime.ErrUnavailable", err)
	}
}

// What is held of a container goes with it, also when another process has removed it.
func TestForgets(t *testing.T) {
	e := New(service.New(&host{}, nil), &Options{})
	c := &Container{Sandbox: &service.Sandbox{Sandbox: &runtime.Sandbox{ID: "0123456789ab"}}, engine: e}
	e.next(c.Sandbox.ID).begin(nil)
	c.finish(t.Context(), Exit{Code: lost})
	if m := e.main(c.Sandbox.ID); m != nil {
		t.Error("the output of a container that does not exist is kept")
	}
}
