package local

import (
	"context"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
)

func (r *Runtime) RecordFor(id string) *statedir.Record { return r.sandboxes.dir.Record(id) }
func (r *Runtime) Tidy(ctx context.Context)             { r.tidy(ctx) }

// Direct reports whether a connection to PID 1 of a sandbox is open.
func (r *Runtime) Direct(id string) bool { return r.executor.conns.IsDirect(id) }

// RequestPooled sends a pooled sandbox a request as it is.
func RequestPooled(rec *statedir.Record, req *boot.PooledRequest) error {
	sock, _, err := requestPooled(rec, req)
	if err != nil {
		return err
	}
	return sock.Close()
}
