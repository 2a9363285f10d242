package local

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/audit"
	"wolffia/image/store"
	"wolffia/internal/boot"
	"wolffia/internal/fusermount"
	"wolffia/internal/statedir"
	"wolffia/internal/step"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Options say where a Runtime's parts are. The zero value is the default.
type Options struct {
	// StateDir is the state directory; empty means the user's own, see
	// statedir.Default. Relative paths are taken from the working directory.
	StateDir string
	// Binary is the wolffia program that is started for each sandbox; empty
	// means this process's own, if it is wolffia, else the one in PATH. The
	// guest, wolffia-guest, is looked for beside it, then in PATH.
	Binary string
	// Progress is told what takes long, such as getting an image; nil: nobody
	// wants to know. The text may come from elsewhere: quote before printing.
	Progress func(text string)
	// Log is told which sandboxes were removed unasked, because their lifetime
	// was over for example; nil: nobody wants to know.
	Log *slog.Logger
}

// A Runtime makes sandboxes that are held by shims. What backend launches
// them is only a name here, and one Runtime may have several. It is safe for concurrent use; Close releases it
// and leaves the sandboxes alone.
type Runtime struct {
	backends []launch.Backend // at least one
	dir      *statedir.Dir
	bin      programs
	// images are those that sandboxes can run on.
	images   *store.Store
	progress func(string) // may be nil
	log      *slog.Logger // may be nil

	mu      sync.Mutex
	conns   map[string]*connection // to running sandboxes, by id; guarded by mu
	bound   map[string]*os.File    // of sandboxes bound to this process, since Create; guarded by mu
	alive   map[string]*os.File    // of those, since Start; guarded by mu
	configs map[string]known       // configurations that were read, by id; guarded by mu
}

var (
	_ runtime.RuntimeWithExecutor = (*Runtime)(nil)
	_ runtime.PermissionSetter    = (*Runtime)(nil)
)

// New returns a runtime with the given backends; the first is the one of
// sandboxes that name none. Sandboxes of others do not exist for it.
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
	if err != nil {
		return nil, err
	}
	dir, err := statedir.Open(path)
	if err != nil {
		return nil, err
	}
	bin, err := findPrograms(opts.Binary)
	if err != nil {
		return nil, err
	}
	return &Runtime{backends: append([]launch.Backend{first}, more...), dir: dir, bin: bin, progress: opts.Progress, log: opts.Log, images: store.Open(dir.Path()), conns: map[string]*connection{}, bound: map[string]*os.File{}, alive: map[string]*os.File{}, configs: map[string]known{}}, nil
}

// findPrograms says where wolffia and its guest are.
func findPrograms(wolffia string) (programs, error) {
	if wolffia == "" {
		self, err := os.Executable()
		if err == nil && filepath.Base(self) == "wolffia" {
			wolffia = self
		} else if wolffia, err = exec.LookPath("wolffia"); err != nil {
			return programs{}, runtime.Errorf(runtime.ErrUnavailable, "the wolffia program is not in PATH: name it in Options.Binary")
		}
	}
	guest := filepath.Join(filepath.Dir(wolffia), "wolffia-guest")
	if _, err := os.Stat(guest); err != nil {
		if guest, err = exec.LookPath("wolffia-guest"); err != nil {
			return programs{}, runtime.Errorf(runtime.ErrUnavailable, "wolffia-guest is neither beside %s nor in PATH: make build makes both", wolffia)
		}
	}
	return programs{wolffia: wolffia, guest: guest}, nil
}

// Close ends the connections of this Runtime, and with them the commands that
// it runs. Sandboxes that are bound to the caller end too; the others go on.
func (r *Runtime) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	for _, files := range []map[string]*os.File{r.alive, r.bound} {
		for _, f := range files {
			_ = f.Close()
		}
		clear(files)
	}
	clear(r.conns)
	return nil
}

// StateDir is the absolute path of the state directory.
func (r *Runtime) StateDir() string { return r.dir.Path() }

// Name implements [runtime.Runtime].
func (r *Runtime) Name() string { return r.backends[0].Name() }

// backend returns the backend with the given name, or nil.
func (r *Runtime) backend(name string) *launch.Backend {
	i := slices.IndexFunc(r.backends, func(b launch.Backend) bool { return b.Name() == name })
	if i < 0 {
		return nil
	}
	return &r.backends[i]
}

// names are the names of the backends.
func (r *Runtime) names() []string {
	var list []string
	for _, b := range r.backends {
		list = append(list, b.Name())
	}
	return list
}

// Create implements [runtime.Runtime].
func (r *Runtime) Create(ctx context.Context, config *runtime.SandboxConfig) (*runtime.Sandbox, error) {
	c := &statedir.Config{SandboxConfig: *config, CreatedAt: time.Now().UnixMilli()}
	// Nothing that the caller can still change.
	c.Labels, c.Env = maps.Clone(c.Labels), maps.Clone(c.Env)
	c.Mounts, c.Permissions = slices.Clone(c.Mounts), slices.Clone(c.Permissions)
	if c.Docker != nil {
		d := *c.Docker
		c.Docker = &d
	}
	if c.Runtime == "" {
		c.Runtime = r.Name()
	}
	backend := r.backend(c.Runtime)
	if backend == nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "runtime %q is asked for, this is %s", c.Runtime, strings.Join(r.names(), ", "))
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Platform != "" && !slices.Contains(backend.Platforms, c.Platform) {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "runtime %s has no platform %q; it has: %s", c.Runtime, c.Platform, cmp.Or(strings.Join(backend.Platforms, ", "), "none to choose from"))
	}
	if err := r.resolve(c); err != nil {
		return nil, err
	}
	if err := identify(c); err != nil {
		return nil, err
	}
	if c.DroppedUID != 0 {
		if err := reachable(r.dir.Path()); err != nil {
			return nil, err
		}
	}
	if c.ID == "" {
		c.ID = runtime.NewID()
	}
	if err := r.complete(backend, c); err != nil {
		return nil, err
	}
	if backend.Engine && c.CodebasePath != "" && os.Geteuid() != 0 {
		if err := fusermount.CanUnmount(); err != nil { // the sandbox could start and could not be removed
			return nil, runtime.Errorf(runtime.ErrUnavailable, "show the codebase to the engine: %w", err)
		}
	}
	release, err := r.useImage(ctx, backend, c)
	if err != nil {
		return nil, err
	}
	defer release()
	r.tidy(ctx) // a name may be free again
	box, caller, err := r.dir.Create(c)
	if err != nil {
		return nil, err
	}
	if caller != nil {
		r.mu.Lock()
		r.bound[c.ID] = caller
		r.mu.Unlock()
	}
	step.Reached("create: done")
	r.remember(c, box.Stamp())
	return sandbox(box, c)
}

// resolve looks at the host's side of a configuration.
func (r *Runtime) resolve(c *statedir.Config) error {
	for _, p := range []struct {
		what  string
		path  *string
		check func(fd int) error
	}{{"codebase", &c.CodebasePath, fusefs.CheckNames}, {"root file system", &c.Rootfs, nil}} {
		if *p.path == "" {
			continue
		}
		dir, err := directory(*p.path, p.check)
		if err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "%s %s: %w", p.what, *p.path, err)
		}
		*p.path = dir
		if err := r.apart(p.what, dir); err != nil {
			return err
		}
	}
	for i := range c.Mounts {
		m := &c.Mounts[i]
		real, err := filepath.EvalSymlinks(m.Source)
		if err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "mount %s: %w", m.Source, plain(err))
		}
		m.Source = real
		if err := r.apart("mount", real); err != nil {
			return err
		}
	}
	return nil
}

// apart refuses what would show a sandbox the state directory.
func (r *Runtime) apart(what, dir string) error {
	state, err := filepath.EvalSymlinks(r.dir.Path())
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if within := func(a, b string) bool { return a == b || b == "/" || strings.HasPrefix(a, b+"/") }; within(state, dir) || within(dir, state) {
		return runtime.Errorf(runtime.ErrInvalid, "%s %s and the state directory %s must not contain one another: choose another with --state-dir or WOLFFIA_STATE_DIR", what, dir, state)
	}
	return nil
}

// directory resolves the path of a directory that the caller may list, and that check
// has no objection to.
func directory(path string, check func(fd int) error) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", plain(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if check != nil {
		err = check(fd)
	}
	return path, err
}

// plain drops the operation and path that a *PathError repeats.
func plain(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Start implements [runtime.Runtime].
func (r *Runtime) Start(ctx context.Context, sandboxID string) error {
	box, c, err := r.find(sandboxID)
	if err != nil {
		return err
	}
	bin, backend := r.bin, r.backend(c.Runtime)
	bin.ownKernel = backend.OwnKernel
	if backend.Program != nil {
		if bin.backend, err = backend.Program(filepath.Dir(bin.wolffia)); err != nil {
			return err
		}
		bin.engine = backend.Engine
	}
	bin.stateDir = r.dir.Path()
	s, err := start(ctx, box, func() (*statedir.Config, error) {
		_, c, err := r.find(box.ID())
		return c, err
	}, bin, r.images)
	if err != nil {
		return err
	}
	if s.alive != nil {
		r.mu.Lock()
		r.alive[box.ID()] = s.alive
		r.mu.Unlock()
	}
	return nil
}

// Destroy implements [runtime.Runtime].
func (r *Runtime) Destroy(ctx context.Context, sandboxID string) error {
	box, c, err := r.find(sandboxID)
	if errors.Is(err, runtime.ErrUnavailable) && runtime.IsID(sandboxID) {
		// A damaged configuration says nothing; what runs names its sandbox.
		box, c = r.dir.Box(sandboxID), &statedir.Config{UID: os.Geteuid()}
	} else if errors.Is(err, runtime.ErrNotFound) && runtime.IsID(sandboxID) {
		if lost, lerr := r.destroyLost(ctx, sandboxID); lost {
			return lerr
		}
		r.tidy(ctx) // it may be half removed
		return err
	} else if err != nil {
		return err
	}
	if err := box.RenewLock(); err != nil {
		return err
	}
	if err := r.stop(ctx, box, c, 0); err != nil {
		return err
	}
	defer r.tidy(ctx)
	step.Reached("destroy: stopped")
	settled, err := box.LockConfig(ctx, boot.KillLimit)
	if err != nil {
		return err
	}
	defer settled()
	// Nobody may start it while it goes.
	release, err := box.WaitLock(ctx, boot.KillLimit)
	if err != nil {
		return err
	}
	defer release()
	step.Reached("destroy: locks taken")
	if err := r.clean(ctx, box, c); err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.configs, box.ID())
	if f := r.bound[box.ID()]; f != nil {
		_ = f.Close()
		delete(r.bound, box.ID())
	}
	r.mu.Unlock()
	return box.Remove()
}

// Get implements [runtime.Runtime].
func (r *Runtime) Get(_ context.Context, sandboxID string) (*runtime.Sandbox, error) {
	box, c, err := r.find(sandboxID)
	if err != nil {
		return nil, err
	}
	return sandbox(box, c)
}

// Log opens what shim, guest and backend of a sandbox had to say. The caller
// closes it. Its content is hostile: quote before printing.
func (r *Runtime) Log(sandboxID string) (*os.File, error) {
	box, _, err := r.find(sandboxID)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(box.Log(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "log of sandbox %s: %w", box.ID(), err)
	}
	return f, nil
}

// Audit opens the log of what a sandbox's tree has denied, and names the file
// that is there as long as the sandbox is, for [audit.Reader.Follow]. It does
// not matter whether the sandbox runs; of one that does, what was denied before the
// call is in the log, unless the disk takes longer than a second, or the tree server does
// not answer. The caller closes the reader.
func (r *Runtime) Audit(ctx context.Context, sandboxID string) (log *audit.Reader, alive string, err error) {
	box, c, err := r.find(sandboxID)
	if err != nil {
		return nil, "", err
	}
	if c.CodebasePath != "" {
		// Where nobody answers, the log is what there is.
		_, _ = ask(ctx, box, &boot.Request{Op: boot.OpAudit}, boot.StatsLimit+time.Second)
	}
	log, err = audit.Open(box.Audit())
	if err != nil {
		return nil, "", runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", box.ID(), err)
	}
	return log, box.ConfigFile(), nil
}

// find returns the place and configuration of a sandbox of this runtime.
func (r *Runtime) find(ref string) (*statedir.Box, *statedir.Config, error) {
	if box := r.dir.Box(ref); runtime.IsID(ref) {
		r.mu.Lock()
		k := r.configs[ref]
		r.mu.Unlock()
		if k.config != nil && k.stamp == box.Stamp() {
			return box, k.config, nil
		}
	}
	box, err := r.dir.Find(ref)
	if err != nil {
		return nil, nil, err
	}
	stamp := box.Stamp() // before it is read: a later one is read again
	c, err := box.Config()
	if err != nil {
		return nil, nil, err
	}
	if r.backend(c.Runtime) == nil {
		return nil, nil, runtime.Errorf(runtime.ErrNotFound, "sandbox %s is of runtime %q, this is %s", box.ID(), c.Runtime, strings.Join(r.names(), ", "))
	}
	r.remember(c, stamp)
	return box, c, nil
}

func (r *Runtime) remember(c *statedir.Config, stamp statedir.Stamp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.configs[c.ID] = known{c, stamp}
}

// A known configuration is one that was read. It never changes, but the id may
// come to mean another sandbox.
type known struct {
	config *statedir.Config
	stamp  statedir.Stamp
}

// sandbox describes what is in a box.
func sandbox(box *statedir.Box, c *statedir.Config) (*runtime.Sandbox, error) {
	return describe(box, c, (*statedir.Box).State)
}

// describe is sandbox for whoever knows better how to tell the state.
func describe(box *statedir.Box, c *statedir.Config, state func(*statedir.Box) (runtime.State, string, error)) (*runtime.Sandbox, error) {
	is, reason, err := state(box)
	if err != nil {
		return nil, err
	}
	s := &runtime.Sandbox{
		ID: box.ID(), Name: c.Name, Runtime: c.Runtime, State: is, Reason: reason,
		Labels: maps.Clone(c.Labels), CreatedAt: time.UnixMilli(c.CreatedAt),
		CodebaseID: c.CodebaseID, CodebasePath: c.CodebasePath, Image: c.Image, MountPoint: c.MountPointOrDefault(),
		Network: cmp.Or(c.Network, runtime.NetworkNone), UID: c.UID, GID: c.GID,
	}
	life, err := box.Lifetime(c)
	if err != nil {
		return nil, err
	}
	if life != nil {
		now := statedir.Now()
		s.ExpiresAt, s.IdleTimeout, s.Expired = life.Deadline(now), life.IdleTimeout(), box.Expired(life, now)
		s.Reason = cmp.Or(s.Reason, s.Expired.Why())
	}
	return s, nil
}

// Details are all that is known of a sandbox.
type Details struct {
	runtime.Sandbox
	Config runtime.SandboxConfig // as it was resolved
	Tree   *TreeState            // of a running sandbox with a codebase; else nil
	Limits *runtime.LimitsState  // of a running sandbox that has any; else nil
}

// Inspect returns all that is known of a sandbox. It waits a few seconds at
// most for a running one to tell about itself.
func (r *Runtime) Inspect(ctx context.Context, sandboxID string) (*Details, error) {
	box, c, err := r.find(sandboxID)
	if err != nil {
		return nil, err
	}
	s, err := sandbox(box, c)
	if err != nil {
		return nil, err
	}
	d := &Details{Sandbox: *s, Config: c.SandboxConfig}
	if s.State == runtime.StateRunning && c.CodebasePath != "" {
		d.Tree = treeState(ctx, box, c)
	}
	if s.State == runtime.StateRunning {
		d.Limits = r.limitsState(box, c)
	}
	return d, nil
}
