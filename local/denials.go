package local

import (
	"context"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/local/conns"
	"wolffia/runtime"
)

// WatchDenials implements [runtime.Workspace].
func (e *executor) WatchDenials(sandboxID string) func(context.Context) *runtime.Denials {
	if rec, c, err := e.header(sandboxID); err == nil {
		if denied := denialsBefore(rec, c); denied != nil {
			return denied
		}
	}
	return func(context.Context) *runtime.Denials { return nil }
}

// denialsBefore returns a function that returns what a sandbox's tree has denied since this
// call; nil without a tree server. It costs three system calls, and each call of the function
// as many; a request to the tree server only if there were denials.
func denialsBefore(rec *statedir.Record, c *statedir.Config) func(context.Context) *runtime.Denials {
	if !c.Serves() {
		return nil
	}
	before, err := rec.Denials()
	if err != nil {
		return nil
	}
	return func(ctx context.Context) *runtime.Denials {
		if now, err := rec.Denials(); err != nil || now <= before {
			return nil
		}
		// The command has ended, whether or not its caller still waits.
		answer, err := conns.Ask(context.WithoutCancel(ctx), rec, &boot.Request{Op: boot.OpDenials, Since: before}, boot.StatsLimit)
		if err != nil {
			return nil // the log has them
		}
		return answer.Denied
	}
}
