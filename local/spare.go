package local

import (
	"context"
	"time"

	"wolffia/internal/statedir"
	"wolffia/runtime"
)

// A Spare is a sandbox that was started ahead, and has no user yet.
type Spare struct {
	ID      string
	Shape   string        // of the configurations that it serves
	Runtime string        // name of its backend
	Since   time.Time     // when it was ready
	Left    time.Duration // until it ends by itself, unless it is taken
}

// template completes a configuration that a pool was asked for, and returns it with its shape. The
// configuration need not name a codebase. ErrUnsupported: no spare can serve such a configuration.
func (s *sandboxes) template(ctx context.Context, config *runtime.SandboxConfig) (template *statedir.Config, shape string, err error) {
	return nil, "", runtime.Errorf(runtime.ErrUnsupported, "no spare can serve this")
}

// startSpare starts a sandbox that has no user yet, for configurations of the shape of template, which is
// one of [sandboxes.template]. It ends by itself when no one has taken it for the time idle.
func (s *sandboxes) startSpare(ctx context.Context, template *statedir.Config, idle time.Duration) (id string, err error) {
	return "", runtime.Errorf(runtime.ErrUnsupported, "no spare can serve this")
}

// spares returns the spares that there are, in no particular order.
func (s *sandboxes) spares() ([]Spare, error) { return nil, nil }

// endSpare ends a spare, and returns when it is gone. One that was taken is left alone.
func (s *sandboxes) endSpare(ctx context.Context, id string) error { return nil }
