package local

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"wolffia/image/store"
	"wolffia/internal/host/cause"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/hostpath"
	"wolffia/local/conns"
	"wolffia/local/pool"
	"wolffia/local/reposync"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/volume"
	"wolffia/wire"
)

// Options configure a Runtime. The zero value is the default.
type Options struct {
	// StateDir is the state directory. Empty means WOLFFIA_STATE_DIR, else wolffia in
	// XDG_STATE_HOME or ~/.local/state; for root /var/lib/wolffia. A relative path is
	// taken from the working directory.
	StateDir string
	// Binary is the wolffia program, which is started for each sandbox. Empty means the
	// running program if its name is wolffia, else the one in PATH. Its companions, such
	// as wolffia-guest, are those that it carries; without any, they are looked for
	// beside it, then in PATH.
	Binary string
	// Progress is called with each step of what takes long, such as the download of an
	// image, and with an empty text when that has ended; nil disables it. The text may come
	// from elsewhere: quote it before printing.
	Progress func(text string)
	// Log receives a line for each sandbox that is removed unasked, for example because
	// its lifetime is over; nil disables logging.
	Log *slog.Logger
	// Umask is that of the processes and of the shells of sessions that this runtime starts in
	// sandboxes, without the owner's bits (umask(2)); nil: 022.
	Umask *uint32
	// Resume has a call that needs a running sandbox resume a paused one. Without it, only one that
	// was paused since it was not used is resumed.
	Resume bool
}

// A Runtime runs sandboxes on this host, by one or more backends. It is safe for
// concurrent use. Close releases it and leaves the sandboxes running.
//
// Each of its parts owns what it is named for. They share the catalog, and have those that they
// need.
type Runtime struct {
	*sandboxes // implements runtime.Runtime
	*settings
	*reviews
	*pooledSandboxes
	*pools
	*completer
	*engines
	*executor // implements runtime.Executor
	*sessions // implements runtime.SessionManager
}

var (
	_ runtime.RuntimeWithSession = (*Runtime)(nil)
	_ runtime.Workspace          = (*Runtime)(nil)
	_ runtime.Asker              = (*Runtime)(nil)
)

// New returns a runtime with the given backends. A sandbox that names no backend gets
// the first. Sandboxes of other backends do not exist for it.
func New(opts *Options, first launch.Backend, more ...launch.Backend) (*Runtime, error) {
	if opts == nil {
		opts = &Options{}
	}
	path := opts.StateDir
	var err error
	if path == "" {
		path, err = statedir.Default(os.Getenv, os.Geteuid())
	} else {
		path, err = filepath.Abs(path)
	}
	var dir *statedir.Dir
	if err == nil {
		dir, err = statedir.Open(path)
	}
	if err != nil {
		return nil, cause.Explain(cause.State, err)
	}
	hostpath.Distrust(dir.Path(), dir.Written)
	wolffia, err := findWolffia(opts.Binary)
	if err != nil {
		return nil, err
	}
	removeOthers(wolffia, dir.Path())
	all := &catalog{dir: dir, wolffia: wolffia, backends: append([]launch.Backend{first}, more...), cache: map[string]cached{}}
	if opts.Umask != nil {
		all.umask = wire.UmaskOf(*opts.Umask)
	}
	shared := &conns.Conns{Table: conns.NewTable[*conns.Conn](), Resume: opts.Resume}
	exec := &executor{catalog: all, conns: shared}
	exec.gits = reposync.New(exec.inside, func(id string) (*statedir.Config, error) {
		_, c, err := all.find(id)
		return c, err
	})
	images := store.Open(dir.Path())
	start := &starter{
		catalog: all, conns: shared, images: images, volumes: volume.Open(dir.Path()), gits: exec.gits,
		bound: conns.NewTable[*os.File](), alive: conns.NewTable[*os.File](),
	}
	engines := &engines{all, opts.Progress}
	s := &sandboxes{
		catalog: all, engines: engines, completer: &completer{all, engines, images}, starter: start, reviews: &reviews{all, start},
		pooled: &pooledSandboxes{all, start, pool.NewFillers(dir, wolffia, opts.Log)},
		gits:   exec.gits, log: opts.Log,
	}
	shared.Wake = func(ctx context.Context, rec *statedir.Record) error {
		if state, _, err := rec.State(); err != nil || state != runtime.StateHibernated {
			return nil
		}
		err := s.Start(ctx, rec.ID())
		if errors.Is(err, runtime.ErrConflict) && rec.HasSocket() { // another process was faster
			err = nil
		}
		return err
	}
	return &Runtime{
		sandboxes: s, settings: &settings{all}, reviews: s.reviews, pooledSandboxes: s.pooled, pools: pool.New(dir, poolStarter{all, s.pooled, s}),
		completer: s.completer, engines: engines, executor: exec, sessions: &sessions{exec},
	}, nil
}

// findWolffia returns the absolute path of wolffia, which it looks for unless it is given.
func findWolffia(path string) (string, error) {
	if path == "" {
		self, err := os.Executable()
		if err == nil && filepath.Base(self) == "wolffia" {
			path = self
		} else if path, err = hostpath.Look("wolffia"); err != nil {
			return "", runtime.Errorf(runtime.ErrUnavailable, "no program called wolffia is in PATH, nor is %s called so: give it that name, or name it in Options.Binary", self)
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return path, nil
}

// Close ends the connections of this Runtime, and with them the commands that it runs.
// Sandboxes that are bound to the caller end too; the others keep running.
func (r *Runtime) Close() error {
	r.pooledSandboxes.fillers.Close()
	r.executor.gits.Close()
	r.executor.conns.CloseAll()
	r.sandboxes.starter.alive.CloseAll()
	r.sandboxes.starter.bound.CloseAll()
	return nil
}
