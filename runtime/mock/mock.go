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
	bound []*box // started here, and bound to their caller; guarded by mu
}

var _ runtime.RuntimeWithExecutor = (*Runtime)(nil)

// errLacks is the error of what the runtime does not have.
var errLacks = runtime.Errorf(runtime.ErrUnsupported, "runtime %s has neither lifetimes nor ports", Name)

// Touch implements [runtime.Runtime].
func (r *Runtime) Touch(context.Context, string) error { return errLacks }

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
	mu      sync.Mutex
	boxes   []*box         // oldest first; guarded by mu
	fail    map[Op][]error // of the next calls; guarded by mu
	handler Handler        // guarded by mu
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
	for _, b := range bound {
		r.world.destroy(b)
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
func (r *Runtime) bind(b *box) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bound = append(r.bound, b)
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
func (w *world) add(c *runtime.SandboxConfig) (*box, *runtime.Sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.boxes {
		if b.config.ID == c.ID || c.Name != "" && b.config.Name == c.Name {
			return nil, nil, runtime.Errorf(runtime.ErrExists, "sandbox %s has that id or name", b.config.ID)
		}
	}
	if c.ID == "" {
		c.ID = strings.ToLower(rand.Text()[:12])
	}
	b := &box{config: c, created: time.Now().Truncate(time.Millisecond), state: runtime.StateCreated, processes: map[*process]bool{}}
	w.boxes = append(w.boxes, b)
	return b, b.describe(), nil
}

// find returns the sandbox that ref means.
func (w *world) find(ref string) (*box, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var starting []*box
	for _, b := range w.boxes {
		if ref != "" && (b.config.ID == ref || b.config.Name == ref) {
			return b, nil
		}
		if ref != "" && strings.HasPrefix(b.config.ID, ref) {
			starting = append(starting, b)
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
	b, err := r.world.at(ctx, OpStart, sandboxID)
	if err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	if b.config.BoundToCaller {
		r.bind(b)
	}
	return nil
}

// Stop implements [runtime.Runtime].
func (r *Runtime) Stop(ctx context.Context, sandboxID string) error {
	b, err := r.world.at(ctx, OpStop, sandboxID)
	if err == nil {
		b.end(runtime.StateStopped, "")
	}
	return err
}

// Kill makes a running sandbox dead, as if its host process had been killed.
func (r *Runtime) Kill(sandboxID, reason string) error {
	b, err := r.world.find(sandboxID)
	if err == nil {
		b.end(runtime.StateDead, reason)
	}
	return err
}

// Destroy implements [runtime.Runtime].
func (r *Runtime) Destroy(ctx context.Context, sandboxID string) error {
	b, err := r.world.at(context.WithoutCancel(ctx), OpDestroy, sandboxID)
	if err == nil && !r.world.destroy(b) {
		err = runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", sandboxID)
	}
	return err
}

// destroy ends a sandbox and forgets it, unless another caller just did.
func (w *world) destroy(b *box) bool {
	b.end(runtime.StateStopped, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.boxes)
	w.boxes = slices.DeleteFunc(w.boxes, func(other *box) bool { return other == b })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.destroyed = true // a caller that found it before must not start it
	return len(w.boxes) < n
}

// Get implements [runtime.Runtime].
func (r *Runtime) Get(ctx context.Context, sandboxID string) (*runtime.Sandbox, error) {
	b, err := r.world.at(ctx, OpGet, sandboxID)
	if err != nil {
		return nil, err
	}
	return b.describe(), nil
}

// List implements [runtime.Runtime].
func (r *Runtime) List(ctx context.Context) ([]*runtime.Sandbox, error) {
	if err := r.world.enter(ctx, OpList); err != nil {
		return nil, err
	}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	all := []*runtime.Sandbox{}
	for _, b := range r.world.boxes {
		all = append(all, b.describe())
	}
	return all, nil
}
