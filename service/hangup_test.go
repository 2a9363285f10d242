package service_test

import (
	"context"
	"slices"
	"testing"

	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
)

// A hungUp is a runtime with one sandbox, whose caller hangs up during the first step that changes it.
type hungUp struct {
	service.Runtime // nil: the tests call nothing else
	hangUp          context.CancelFunc
	id              string
	state           runtime.State
	steps           []string // that are complete
}

// step records a step, unless the caller is heeded who hangs up in it.
func (h *hungUp) step(ctx context.Context, name string, then runtime.State) error {
	h.hangUp()
	if ctx.Err() == nil {
		h.steps, h.state = append(h.steps, name), then
	}
	return ctx.Err()
}

func (h *hungUp) Stop(ctx context.Context, _ string) error {
	return h.step(ctx, "stop", runtime.StateStopped)
}

func (h *hungUp) Start(ctx context.Context, _ string) error {
	return h.step(ctx, "start", runtime.StateRunning)
}

func (h *hungUp) StartJob(ctx context.Context, _ runtime.SessionID, name string, _ *runtime.SessionExecRequest) (*runtime.Job, error) {
	return nil, h.step(ctx, name, h.state)
}

// No session exists yet.
func (h *hungUp) GetSession(context.Context, runtime.SessionID) (*runtime.Session, error) {
	return nil, runtime.ErrNotFound
}

func (h *hungUp) SessionJobs(context.Context, runtime.SessionID) ([]*runtime.Job, error) {
	return nil, runtime.ErrNotFound
}

func (h *hungUp) Get(ctx context.Context, _ string) (*runtime.Sandbox, error) {
	return &runtime.Sandbox{ID: h.id, State: h.state, CopyOnWrite: true, Labels: map[string]string{launch.LabelRecord: `{"owner":{},"entrypoint":["serve"]}`}}, ctx.Err()
}

// reviewed is a hungUp with snapshots.
type reviewed struct {
	*hungUp
	runtime.Workspace
}

func (reviewed) ForkAs(context.Context, string, runtime.ForkOptions, func(int, *runtime.SandboxConfig)) ([]*runtime.Sandbox, error) {
	panic("not called")
}

func (reviewed) Snapshots(ctx context.Context, _ string) ([]runtime.Snapshot, error) {
	return []runtime.Snapshot{{Name: "one"}}, ctx.Err()
}

func (r reviewed) Restore(ctx context.Context, _, _ string) error {
	return r.step(ctx, "restore", r.state)
}

// A change in several steps is completed though its caller hangs up: no sandbox stays stopped, or runs without
// its entrypoint.
func TestHungUp(t *testing.T) {
	all := service.Caller{All: true}
	for _, c := range []struct {
		name  string
		state runtime.State
		steps []string
		call  func(ctx context.Context, h reviewed) error
	}{
		{"start", runtime.StateStopped, []string{"start", "entrypoint"}, func(ctx context.Context, h reviewed) error {
			return service.New(h, nil).Start(ctx, all, h.id)
		}},
		{"restore", runtime.StateRunning, []string{"stop", "restore", "start", "entrypoint"}, func(ctx context.Context, h reviewed) error {
			r, err := service.New(h, nil).Review(ctx, all, h.id)
			if err != nil {
				return err
			}
			return r.Restore(ctx, "one")
		}},
		{"restart", runtime.StateRunning, []string{"stop", "start"}, func(ctx context.Context, h reviewed) error {
			return service.New(h, nil).Restart(ctx, h.id)
		}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h := reviewed{hungUp: &hungUp{hangUp: cancel, id: runtime.NewID(), state: c.state}}
		if err := c.call(ctx, h); err != nil || !slices.Equal(h.steps, c.steps) || h.state != runtime.StateRunning {
			t.Errorf("%s: %v after %q; the sandbox is %s", c.name, err, h.steps, h.state)
		}
	}
}
