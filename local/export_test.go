package local

import (
	"context"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
)

func (r *Runtime) BoxOf(id string) *statedir.Box { return r.sandboxes.dir.Box(id) }
func (r *Runtime) Tidy(ctx context.Context)      { r.tidy(ctx) }

// Direct reports whether a connection to PID 1 of a sandbox is open.
func (r *Runtime) Direct(id string) bool {
	r.executor.conns.mu.Lock()
	defer r.executor.conns.mu.Unlock()
	c := r.executor.conns.open[id]
	return c != nil && c.opened() && c.err == nil && c.shim != nil
}

// AskSpare sends a spare a request as it is.
func AskSpare(box *statedir.Box, req *boot.SpareRequest) error {
	sock, _, err := askSpare(box, req)
	if err != nil {
		return err
	}
	return sock.Close()
}
