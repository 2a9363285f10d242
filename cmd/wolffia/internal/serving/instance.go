//go:build !small

package serving

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync/atomic"

	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/image/store"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/agent"
	page "wolffia/service/console"
	"wolffia/service/e2b"
	"wolffia/service/gate"
	"wolffia/service/meter"
	"wolffia/service/opensandbox"
	"wolffia/service/quota"
	"wolffia/service/server"
	"wolffia/service/swerex"
)

// An instance is a service that serves, with the settings that hold now.
type instance struct {
	*host.Host
	typed    *pflag.FlagSet // the command line
	log      *slog.Logger
	rt       *local.Runtime
	null     *os.File
	service  *service.Service
	agents   *agent.Handler
	swerex   *swerex.Handler
	e2b      *e2b.Handler
	console  *page.Handler // nil: none
	docker   *dockerSocket // nil: none
	gate     *gate.Gate
	listener net.Listener
	server   *server.Server

	now    *settings
	site   *site
	passed net.Listener             // the socket of systemd; nil: none
	warm   atomic.Pointer[keptPool] // nil: none
	// now, as requests read it
	current atomic.Pointer[settings]
}

// settings are what the command line and the file of a service say.
type settings struct {
	flags *sandboxflags.Sandbox
	serveFlags
	quotas   []quota.Rule
	template *runtime.SandboxConfig
}

// A keptPool is a pool that is being kept.
type keptPool struct {
	*warmPool
	end func()
}

// read reads the settings. Those of old that only a start can change stay as they are; nil: none.
func (i *instance) read(old *settings) (*settings, error) {
	flags, err := sandboxflags.ForService(i.Host, i.typed)
	if err != nil {
		return nil, err
	}
	if flags.Text("name") != "" || flags.Text("owner") != "" {
		return nil, runtime.Errorf(runtime.ErrInvalid, "serve does not take --name or --owner: ids are generated, and owners come with each request")
	}
	if i.passed != nil {
		if flags.Text("listen") != "" {
			return nil, runtime.Errorf(runtime.ErrInvalid, "--listen %s: systemd has passed a socket to listen on, %s: leave --listen out", flags.Text("listen"), listenOf(i.passed))
		}
		flags.Values = flags.With("listen", listenOf(i.passed))
	}
	for _, name := range []string{"listen", "runtime", "docker-socket"} {
		if old == nil || old.flags.Text(name) == flags.Text(name) {
			continue
		}
		i.log.Warn("a setting has changed that the next start of the service takes over", "setting", name)
		flags.Values = flags.With(name, old.flags.Text(name))
	}
	s := &settings{flags: flags}
	s.Values = flags.Values
	if s.grace, err = sandboxflags.ParseDuration("grace", s.Text("grace")); err != nil {
		return nil, err
	}
	if s.quotas, err = sandboxflags.ParseQuotas(s.List("quota")); err != nil {
		return nil, err
	}
	return s, s.resolve()
}

// complete makes the configuration of new sandboxes, and says where the service listens.
func (i *instance) complete(ctx context.Context, s *settings) (_ *site, err error) {
	if s.template, err = s.flags.Config(ctx, i.Host); err != nil { // report a wrong flag now
		return nil, err
	}
	nameUser(s.template)
	if err := i.rt.CheckLimits(s.template); err != nil {
		return nil, err
	}
	if s.template.Resources.BestEffort {
		i.log.Warn("limits are best effort: wolffia inspect SANDBOX shows which ones this host enforces")
	}
	return newSite(&s.serveFlags, i.rt.StateDir(), s.shown(s.template))
}

// open opens the service. The caller closes i, unless there is an error.
func (i *instance) open(ctx context.Context) (err error) {
	if i.passed, err = passedListener(); err != nil {
		return err
	}
	if i.now, err = i.read(nil); err != nil {
		return err
	}
	if i.rt, err = i.Open(i.now.Text("runtime")); err != nil {
		return err
	}
	if i.site, err = i.complete(ctx, i.now); err != nil {
		return err
	}
	if i.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			i.close()
		}
	}()
	pool, err := i.pool(ctx, i.now)
	if err != nil {
		return err
	}
	meter, options := new(meter.Meter), &service.Options{Log: i.log, Chosen: true, Config: i.config}
	options.Meter, options.Record = meter, recorder(i.rt.StateDir(), "serve", i.log)
	options.HasImage = func(name string) error {
		_, err := store.Open(i.rt.StateDir()).Find(name)
		return err
	}
	i.set(options, pool)
	if i.service, err = service.Open(ctx, i.rt, i.rt.StateDir(), options); err != nil {
		return err
	}
	if i.listener, i.gate, err = i.site.open(ctx, i.passed); err != nil {
		return err
	}
	i.agents = agent.New(&agent.Options{Runtime: i.rt, Service: i.service, Allow: i.AddTo, AllowHost: i.AllowTo, Version: i.Version, Copied: i.now.template.CopyOnWrite})
	i.swerex = swerex.New(i.service, &swerex.Options{Log: i.log})
	i.e2b = e2b.New(i.service, i.site.keys != nil, i.forE2B())
	serves := &server.Options{
		Pool: i.counter, Log: i.log, Gate: i.gate, Meter: meter, Metrics: true, Agents: i.agents, SWEReX: i.swerex,
		OpenSandbox: opensandbox.New(i.service, &opensandbox.Options{Log: i.log}),
		E2B:         i.e2b,
	}
	if i.now.Truth("console") {
		i.console = newPage(i.Host, i.rt, i.service, "serve", i.log)
		serves.Console = i.console
	}
	i.server = server.New(i.service, serves)
	if i.docker, err = i.openDocker(ctx); err != nil {
		return err
	}
	i.keep(ctx, pool)
	return nil
}

// set sets the options that can change while the service runs.
func (i *instance) set(o *service.Options, pool *warmPool) {
	o.NewID, o.Quotas, o.Roots = pool.newID, i.now.quotas, i.now.volumes
	o.Configure = sandboxTemplate(i.Host, i.now.flags, &i.now.choiceFlags, i.null)
	o.MayReach, o.AllowApply = i.now.flags.MayReach, i.now.Truth("allow-apply")
	o.AllowAnswers = i.now.Truth("allow-answers")
	i.current.Store(i.now)
}

// config returns the configuration of a sandbox.
func (i *instance) config(ctx context.Context, id string) (*runtime.SandboxConfig, error) {
	d, err := i.rt.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	return &d.Config, nil
}

// reload reads the settings again. If they cannot be used, all stays as it is.
func (i *instance) reload(ctx context.Context) {
	if err := i.renew(ctx); err != nil {
		i.log.Error("the settings and the API keys stay as they are: they cannot be used", "error", err.Error())
		return
	}
	i.log.Info("read the settings", "apiKeys", i.site.keys.Len())
}

func (i *instance) renew(ctx context.Context) error {
	next, err := i.read(i.now)
	if err != nil {
		return err
	}
	at, err := i.complete(ctx, next)
	switch {
	case err != nil:
		return err
	case (at.keys == nil) != (i.site.keys == nil):
		return runtime.Errorf(runtime.ErrInvalid, "--api-keys: only a start of the service begins or ends to need keys: restart it")
	}
	pool, err := i.pool(ctx, next)
	if err != nil {
		return err
	}
	i.now, i.site = next, at
	i.gate.SetKeys(at.keys)
	i.service.Reconfigure(func(o *service.Options) { i.set(o, pool) })
	i.keep(ctx, pool)
	return nil
}

// pool returns the pool for settings; nil: none.
func (i *instance) pool(ctx context.Context, s *settings) (*warmPool, error) {
	return newWarmPool(ctx, i.Host, i.rt, s.template, s.flags.Text("image"), int(s.Whole("warm")), i.log)
}

// keep keeps the pool, and ends the one that was kept, unless both are alike.
func (i *instance) keep(ctx context.Context, pool *warmPool) {
	old := i.warm.Load()
	if old != nil && pool != nil && old.shape == pool.shape && old.size == pool.size {
		return
	}
	i.warm.Store(nil)
	if old != nil {
		old.end()
	}
	if pool != nil {
		i.warm.Store(&keptPool{pool, pool.keep(ctx)})
	}
}

// counter counts the sandboxes of the pool; nil: there is none.
func (i *instance) counter() (*meter.Pool, error) {
	return cmp.Or(i.warm.Load(), new(keptPool)).count()
}

// close releases what i has.
func (i *instance) close() {
	if pool := i.warm.Load(); pool != nil {
		pool.end()
	}
	if i.agents != nil {
		i.agents.Close()
		i.swerex.Close()
		i.e2b.Close()
	}
	if i.console != nil {
		i.console.Close()
	}
	err := i.docker.close()
	if i.service != nil {
		err = errors.Join(err, i.service.Close())
	}
	if err = errors.Join(err, i.null.Close()); err != nil {
		i.log.Warn("the service has not ended in good order", "error", err.Error())
	}
}
