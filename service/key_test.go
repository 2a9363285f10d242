package service_test

import (
	"context"
	"testing"

	"wolffia/fields"
	"wolffia/runtime"
	"wolffia/service"
)

// A keyed is a runtime whose sandboxes stay created.
type keyed struct {
	service.Runtime // nil: the test calls nothing else
	all             []*runtime.Sandbox
	started         bool
}

func (k *keyed) List(context.Context) ([]*runtime.Sandbox, error) { return k.all, nil }

func (k *keyed) Create(_ context.Context, c *runtime.SandboxConfig) (*runtime.Sandbox, error) {
	s := &runtime.Sandbox{ID: c.ID, State: runtime.StateCreated, Labels: c.Labels, CodebasePath: c.CodebasePath}
	k.all = append(k.all, s)
	return s, nil
}

func (k *keyed) Destroy(context.Context, string) error { return nil } // as if the service was killed

func (k *keyed) Start(context.Context, string) error {
	k.started = true
	return runtime.ErrUnavailable
}

// A sandbox that a killed service has created is not started by its key if its codebase is another one than the
// request may choose.
func TestKeyChecksCodebase(t *testing.T) {
	k := &keyed{}
	f := service.New(k, &service.Options{Chosen: true, Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
		return &runtime.SandboxConfig{CodebasePath: "/roots/code"}, nil
	}})
	params := &service.Params{Owner: zoe, Key: "k", Settings: fields.Values{}.With("codebase", "/roots/code")}
	create := func(class error) {
		t.Helper()
		if _, _, err := f.Create(t.Context(), params); runtime.Class(err) != class {
			t.Errorf("%v, want one of class %v", err, class)
		}
	}
	create(runtime.ErrUnavailable)
	k.started, k.all[0].CodebasePath = false, "/elsewhere"
	create(runtime.ErrConflict)
	if k.started || len(k.all) != 1 {
		t.Errorf("started: %v; there are %d", k.started, len(k.all))
	}
	k.all[0].CodebasePath = "/roots/code"
	if create(runtime.ErrUnavailable); !k.started || len(k.all) != 1 {
		t.Errorf("started: %v; there are %d", k.started, len(k.all))
	}
}
