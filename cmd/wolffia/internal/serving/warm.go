package serving

import (
	"cmp"
	"context"
	"log/slog"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/fields"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/meter"
)

// A warmPool is the pool of a service.
type warmPool struct {
	rt       *local.Runtime
	template *runtime.SandboxConfig
	image    string // as requests name it
	size     int
	shape    string
	log      *slog.Logger
}

// warmPool returns the pool of a service for sandboxes like template; nil if it is to have none.
func newWarmPool(ctx context.Context, h *host.Host, rt *local.Runtime, template *runtime.SandboxConfig, image string, size int, log *slog.Logger) (*warmPool, error) {
	if size == 0 {
		return nil, nil
	}
	if size < 0 || size > local.MaxPoolSize {
		return nil, runtime.Errorf(runtime.ErrInvalid, "--warm %d: it must be 0 to %d", size, local.MaxPoolSize)
	}
	shape, err := rt.PoolShape(ctx, template, local.PoolOptions{})
	if err != nil {
		return nil, err
	}
	return &warmPool{rt, template, image, size, shape, log}, nil
}

// keep starts the pool, which is not nil, in the background. The function that it returns ends it,
// and returns when all its processes have ended.
func (p *warmPool) keep(ctx context.Context) (end func()) {
	return background(ctx, func(ctx context.Context) {
		err := p.rt.KeepPool(ctx, p.template, local.PoolOptions{Size: p.size, Shell: true}, func(err error) {
			p.log.Warn("the pool is not filled", "pool", p.shape, "error", err.Error())
		})
		if err != nil {
			p.log.Warn("the pool has ended", "pool", p.shape, "error", err.Error())
		}
	})
}

// background calls f. The function that it returns ends f's context, and returns when f has.
func background(ctx context.Context, f func(context.Context)) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		f(ctx)
	}()
	return func() {
		stop()
		<-done
	}
}

// newID returns the id of a new sandbox: that of a pooled one, if one fits. p may be nil.
func (p *warmPool) newID(r *service.Params) string {
	switch {
	case p == nil, r.UserName != "" && r.UserName != p.template.UserName, r.Network != "" && r.Network != p.template.Network, r.Egress != nil, len(r.Volumes) > 0, r.Resources != runtime.Resources{},
		r.Image != "" && r.Image != p.image, r.Settings.Text("codebase") == "" && p.template.CodebasePath == "":
		return runtime.NewID()
	}
	for name := range r.Settings {
		if fields.Flag(name).Pool != fields.Claim && !(name == "runtime" && r.Settings.Text(name) == p.rt.Name()) {
			return runtime.NewID()
		}
	}
	return cmp.Or(p.rt.ReservePooled(p.shape), runtime.NewID())
}

// count counts the sandboxes of the pool; nil without a pool.
func (p *warmPool) count() (*meter.Pool, error) {
	if p == nil {
		return nil, nil
	}
	pools, err := p.rt.Pools()
	c := new(meter.Pool)
	for _, pool := range pools {
		if pool.Shape == p.shape {
			c.Ready, c.Claimed = pool.Ready, pool.Claimed
		}
	}
	return c, err
}
