package service_test

import (
	"context"
	"testing"

	"wolffia/local"
	"wolffia/runtime"
	"wolffia/service"
)

// A deleting runtime lets another process destroy a sandbox before or after it starts it.
type deleting struct {
	*local.Runtime
	other  *local.Runtime
	before bool
	id     string
}

func (d *deleting) Start(ctx context.Context, id string) error {
	d.id = id
	if d.before {
		if err := d.other.Destroy(ctx, id); err != nil {
			return err
		}
	}
	err := d.Runtime.Start(ctx, id)
	if err != nil || d.before {
		return err
	}
	return d.other.Destroy(ctx, id)
}

// A create whose sandbox is deleted meanwhile is a conflict, and nothing that is not found: its image was.
func TestDeletedWhileCreated(t *testing.T) {
	w := newWorld(t)
	for _, before := range []bool{true, false} {
		rt := &deleting{Runtime: w.open(), other: w.open(), before: before}
		f := service.New(rt, &service.Options{Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
			return &runtime.SandboxConfig{CodebasePath: w.codebase, Permissions: w.rules}, nil
		}})
		_, _, err := f.Create(w.Ctx, &service.Params{Entrypoint: []string{"sleep", "1000"}})
		w.Wrong("the create", err, runtime.ErrConflict)
		if class := runtime.Class(err); class != runtime.ErrConflict {
			t.Errorf("before the start %v: %v, which is %v", before, err, class)
		}
		if _, err := w.rt.Get(w.Ctx, rt.id); err == nil {
			t.Error("it exists")
		}
	}
}
