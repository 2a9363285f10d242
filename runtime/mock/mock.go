package mock

import (
	"context"
	"crypto/rand"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// Name is the runtime's name.
const Name = "mock"

// A Runtime keeps sandboxes in memory. It is safe for concurrent use.
type Runtime struct {
	world *world

	mu    sync.Mutex
	bound []*sandbox // started here, and bound to their caller; guarded by mu
}

var _ runtime.RuntimeWithExecutor = (*Runtime)(nil)

// errLacks is the error of what the runtime does not have.
var errLacks = runtime.Errorf(runtime.ErrUnsupported, "runtime %s has no lifetimes, pauses and ports", Name)

// Touch implements [runtime.Runtime].
func (r *Runtime) Touch(context.Context, string) error { return errLacks }

// Pause implements [runtime.Runtime].
func (r *Runtime) Pause(context.Context, string) error { return errLacks }

// Resume implements [runtime.Runtime].
func (r *Runtime) Resume(context.Context, string) error { return errLacks }

// Renew implements [runtime.Runtime].
func (r *Runtime) Renew(context.Context, string, time.Duration) (*runtime.Sandbox, error) {
	return nil, errLacks
}

// Prune implements [runtime.Runtime].
func (r *Runtime) Prune(context.Context, bool) ([]runtime.Pruned, error) { return nil, errLacks }

// DialPort implements [runtime.Executor].
func (r *Runtime) DialPort(context.Context, string, int) (net.Conn, error) { return nil, errLacks }

// A world is what a state directory is to other runtimes: the sandboxes there
// are, for every Runtime over it.
type world struct {
	mu        sync.Mutex
	sandboxes []*sandbox     // oldest first; guarded by mu
	fail      map[Op][]error // of the next calls; guarded by mu
	handler   Handler        // guarded by mu
}

// New returns a runtime without sandboxes.
func New() *Runtime { return &Runtime{world: &world{fail: map[Op][]error{}}} }

// Reopen returns a second runtime over the same sandboxes, as another process
// would have it.
func (r *Runtime) Reopen() *Runtime { return &Runtime{world: r.world} }

// Close releases this Runtime, and destroys the sandboxes that were made or
// started with it and are bound to their caller. The others go on.
func (r *Runtime) Close() error {
	r.mu.Lock()
	bound := r.bound
	r.bound = nil
	r.mu.Unlock()
	for _, s := range bound {
		r.world.destroy(s)
	}
	return nil
}

// Name implements [runtime.Runtime].
func (r *Runtime) Name() string { return Name }

// Create implements [runtime.Runtime].
func (r *Runtime) Create(ctx context.Context, config *runtime.SandboxConfig) (*runtime.Sandbox, error) {
	if err := r.world.enter(ctx, OpCreate); err != nil {
		return nil, err
	}
	c := *config
	if c.Runtime == "" {
		c.Runtime = Name
	}
	if c.Runtime != Name {
		return nil, runtime.Errorf(runtime.ErrInvalid, "runtime %q is asked for, this is %q", c.Runtime, Name)
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.TTL != 0 || c.IdleTimeout != 0 {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "the sandboxes of a mock have no lifetime")
	}
	if len(c.Mounts) > 0 || c.Rootfs != "" || c.Image != "" || c.ImageID != "" || c.Resources != (runtime.Resources{}) {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "a mock has the host's files: no mounts, no root file system, no image")
	}
	if c.Network == runtime.NetworkFiltered {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "a mock has the host's network: no names filter it")
	}
	if len(c.Publish)+len(c.Expose)+len(c.Sockets) > 0 {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "a mock has the host's network: no ports, no sockets")
	}
	if c.CodebasePath != "" {
		dir, err := codebase(c.CodebasePath)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "codebase %s: %w", c.CodebasePath, err)
		}
		c.CodebasePath = dir
	}
	c.Labels, c.Env = maps.Clone(c.Labels), maps.Clone(c.Env)
	b, s, err := r.world.add(&c)
	if err == nil && c.BoundToCaller {
		r.bind(b)
	}
	return s, err
}

// bind has a sandbox end with this Runtime.
func (r *Runtime) bind(s *sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bound = append(r.bound, s)
}

// codebase resolves the path of a directory that can be listed, and that is
// not all there is.
func codebase(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	_ = unix.Close(fd)
	if temp, err := filepath.EvalSymlinks(os.TempDir()); err == nil && strings.HasPrefix(temp+"/", strings.TrimSuffix(path, "/")+"/") {
		return "", fs.ErrInvalid // what is temporary would be in it
	}
	return path, nil
}

// add makes a sandbox of a configuration that is ours.
func (w *world) add(c *runtime.SandboxConfig) (*sandbox, *runtime.Sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sandboxes {
		if s.config.ID == c.ID || c.Name != "" && s.config.Name == c.Name {
			return nil, nil, runtime.Errorf(runtime.ErrExists, "sandbox %s has that id or name", s.config.ID)
		}
	}
	if c.ID == "" {
		c.ID = strings.ToLower(rand.Text()[:12])
	}
	s := &sandbox{config: c, created: time.Now().Truncate(time.Millisecond), state: runtime.StateCreated, processes: map[*process]bool{}}
	w.sandboxes = append(w.sandboxes, s)
	return s, s.describe(), nil
}

// find returns the sandbox that ref means.
func (w *world) find(ref string) (*sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var starting []*sandbox
	for _, s := range w.sandboxes {
		if ref != "" && (s.config.ID == ref || s.config.Name == ref) {
			return s, nil
		}
		if ref != "" && strings.HasPrefix(s.config.ID, ref) {
			starting = append(starting, s)
		}
	}
	switch len(starting) {
	case 0:
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", ref)
	case 1:
		return starting[0], nil
	}
	return nil, runtime.Errorf(runtime.ErrInvalid, "%q is not unique: %d sandboxes begin so", ref, len(starting))
}

// Start implements [runtime.Runtime].
func (r *Runtime) Start(ctx context.Context, sandboxID string) error {
	s, err := r.world.at(ctx, OpStart, sandboxID)
	if err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	if s.config.BoundToCaller {
		r.bind(s)
	}
	return nil
}

// Stop implements [runtime.Runtime].
func (r *Runtime) Stop(ctx context.Context, sandboxID string) error {
	s, err := r.world.at(ctx, OpStop, sandboxID)
	if err == nil {
		s.end(runtime.StateStopped, "")
	}
	return err
}

// Kill makes a running sandbox dead, as if its host process had been killed.
func (r *Runtime) Kill(sandboxID, reason string) error {
	s, err := r.world.find(sandboxID)
	if err == nil {
		s.end(runtime.StateDead, reason)
	}
	return err
}

// Destroy implements [runtime.Runtime].
func (r *Runtime) Destroy(ctx context.Context, sandboxID string) error {
	s, err := r.world.at(context.WithoutCancel(ctx), OpDestroy, sandboxID)
	if err == nil && !r.world.destroy(s) {
		err = runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", sandboxID)
	}
	return err
}

// destroy ends a sandbox and forgets it, unless another caller just did.
func (w *world) destroy(s *sandbox) bool {
	s.end(runtime.StateStopped, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.sandboxes)
	w.sandboxes = slices.DeleteFunc(w.sandboxes, func(other *sandbox) bool { return other == s })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.destroyed = true // a caller that found it before must not start it
	return len(w.sandboxes) < n
}

// Get implements [runtime.Runtime].
func (r *Runtime) Get(ctx context.Context, sandboxID string) (*runtime.Sandbox, error) {
	s, err := r.world.at(ctx, OpGet, sandboxID)
	if err != nil {
		return nil, err
	}
	return s.describe(), nil
}

// List implements [runtime.Runtime].
func (r *Runtime) List(ctx context.Context) ([]*runtime.Sandbox, error) {
	if err := r.world.enter(ctx, OpList); err != nil {
		return nil, err
	}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	all := []*runtime.Sandbox{}
	for _, s := range r.world.sandboxes {
		all = append(all, s.describe())
	}
	return all, nil
}
