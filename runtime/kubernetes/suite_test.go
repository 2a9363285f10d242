package kubernetes_test

import (
	"context"
	"testing"

	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/session/sessiontest"
)

// imaged gives sandboxes an image: a pod has nothing of the host's system.
type imaged struct {
	*shimtest.Runtime
	image string
}

func (r imaged) Create(ctx context.Context, c *runtime.SandboxConfig) (*runtime.Sandbox, error) {
	if c.Image == "" {
		own := *c
		own.Image, c = r.image, &own
	}
	return r.Runtime.Create(ctx, c)
}

func reopen(t testing.TB, rt any) imaged {
	r := rt.(imaged)
	return imaged{backend.Reopen(t, r.Runtime), r.image}
}

func TestSessions(t *testing.T) {
	image := need(t)
	testenv.Root(t)
	sessiontest.Run(t, sessiontest.Config{
		New:    func(t testing.TB) runtime.RuntimeWithExecutor { return imaged{fresh(t), image} },
		Reopen: func(t testing.TB, rt runtime.RuntimeWithSession) runtime.RuntimeWithSession { return reopen(t, rt) },
		Sample: true,
	})
}
