package local

import (
	"context"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
)

func (r *Runtime) BoxOf(id string) *statedir.Box { return r.sandboxes.dir.Box(id) }
func (r *Runtime) Tidy(ctx context.Context)      { r.tidy(ctx) }

// AskSpare sends a spare a request as it is.
func AskSpare(box *statedir.Box, req *boot.SpareRequest) error {
	sock, err := askSpare(box, req)
	if err != nil {
		return err
	}
	return sock.Close()
}
