package local

import (
	"context"

	"wolffia/runtime"
	"wolffia/wire/client"
)

var _ runtime.OperationManager = (*Runtime)(nil)

// CancelOperation implements [runtime.OperationManager].
func (r *Runtime) CancelOperation(ctx context.Context, sessionID, operation string) error {
	_, err := r.inside(sessionID, func(conn *client.Conn, name string) error {
		return conn.Cancel(ctx, name, operation)
	})
	return err
}
