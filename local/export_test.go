package local

import (
	"context"
	"time"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/runtime"
)

// StartSpare starts a spare for configurations like config.
func (r *Runtime) StartSpare(ctx context.Context, config *runtime.SandboxConfig, idle time.Duration) (id string, err error) {
	template, _, err := r.template(ctx, config)
	if err != nil {
		return "", err
	}
	return r.startSpare(ctx, template, idle)
}

// Spares and EndSpare are those of the engine.
func (r *Runtime) Spares() ([]Spare, error)                      { return r.spares() }
func (r *Runtime) EndSpare(ctx context.Context, id string) error { return r.endSpare(ctx, id) }
func (r *Runtime) BoxOf(id string) *statedir.Box                 { return r.sandboxes.dir.Box(id) }
func (r *Runtime) Took(f func(shape string))                     { r.took = f }
func (r *Runtime) Tidy(ctx context.Context)                      { r.tidy(ctx) }

// AskSpare sends a spare a request as it is.
func AskSpare(box *statedir.Box, req *boot.SpareRequest) error {
	sock, err := askSpare(box, req)
	if err != nil {
		return err
	}
	return sock.Close()
}
