package container

import (
	"context"
	"testing"
	"time"

	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
)

// A host has one running sandbox, and an error for who asks for its jobs.
type host struct {
	service.Runtime
	box       *runtime.Sandbox
	jobs      error
	destroyed bool
}

func (h *host) Get(context.Context, string) (*runtime.Sandbox, error) { return h.box, nil }

func (h *host) SessionJobs(context.Context, runtime.SessionID) ([]*runtime.Job, error) {
	return nil, h.jobs
}

func (h *host) List(context.Context) ([]*runtime.Sandbox, error) {
	return []*runtime.Sandbox{h.box}, nil
}

func (h *host) Destroy(context.Context, string) error {
	h.destroyed = true
	return nil
}

func (h *host) ChangeLabels(_ context.Context, _ string, edit func(map[string]string) error) (*runtime.Sandbox, error) {
	return h.box, edit(h.box.Labels)
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
	}{
		"the client has gone":         {context.Canceled, long, dead, Running},
		"it is being started":         {runtime.ErrNotFound, time.Now(), self(), Running},
		"it has gone":                 {runtime.ErrNotFound, long, self(), ""},
		"its starter was killed":      {runtime.ErrNotFound, time.Now(), dead, ""},
		"the host has no answer here": {runtime.ErrUnavailable, long, dead, Running},
	} {
		r := &record{Started: c.started, Kind: byJob, Holder: c.by}
		r.HostConfig.AutoRemove = true
		labels := map[string]string{launch.LabelRecord: "{}"}
		if err := r.put(labels); err != nil {
			t.Fatal(err)
		}
		h := &host{jobs: c.jobs, box: &runtime.Sandbox{ID: "0123456789ab", State: runtime.StateRunning, Labels: labels}}
		e := New(service.New(h, nil), &Options{})
		list, err := e.List(t.Context(), service.Caller{All: true})
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
