package container

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"wolffia/image/store"
	"wolffia/internal/filecall"
	"wolffia/runtime"
	"wolffia/service"
)

// Options are an engine's options.
type Options struct {
	Images *store.Store
	// Root says that this host can give a sandbox root, and other users.
	Root bool
	// Own says that the engine's caller is the user of this host, with all of the user's rights:
	// volumes have names, and ports are published at any address.
	Own bool
	// Given returns the network that service.Options.Configure gives a container, and how long the
	// container lives; 0 means a day.
	Given func() (runtime.Network, time.Duration)
}

// An Engine keeps containers, for a caller who may use all of them. It is safe for concurrent use.
type Engine struct {
	service *service.Service
	opts    Options

	ctx    context.Context // until Close
	cancel context.CancelFunc

	mu     sync.Mutex
	live   map[string]*held           // by id of a sandbox; guarded by mu
	shown  map[string]*sync.WaitGroup // calls of Logs, by id of a sandbox; guarded by mu
	events feeds
}

// everyone is who an engine acts for.
var everyone = service.Caller{All: true}

// New returns an engine over a service. The caller closes it before the service.
func New(s *service.Service, opts *Options) *Engine {
	e := &Engine{service: s, opts: *opts, live: map[string]*held{}, shown: map[string]*sync.WaitGroup{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Close ends what waits for the ends of main processes.
func (e *Engine) Close() { e.cancel() }

// Watch has this process note the ends of all main processes, and remove what is to be removed
// then. Without it the next call that looks at a container does.
func (e *Engine) Watch(ctx context.Context) error {
	all, err := e.List(ctx)
	for _, c := range all {
		if c.State == Running { // one that was not started has no end
			c.watch()
		}
	}
	return err
}

func (c *Container) watch() {
	if c.Kind == byHolder {
		return // its holder notes it
	}
	own := *c
	own.State = Running
	go func() { _, _ = own.Wait(c.engine.ctx) }() // ends with the main process, or with Close
}

// A State is where a container is in its life, as docker calls it.
type State string

// The states.
const (
	Created State = "created"
	Running State = "running"
	Paused  State = "paused" // as runtime.StatePaused, or runtime.StateHibernated
	Exited  State = "exited"
)

// Runs reports whether the main process exists.
func (s State) Runs() bool { return s == Running || s == Paused }

// A Container describes a container at one moment.
type Container struct {
	*service.Sandbox
	record
	State  State
	Exit   Exit // of an exited one
	engine *Engine
}

// ID returns the whole id.
func (c *Container) ID() string { return FullID(c.Sandbox.ID) }

// Name returns the container's name, or the short id of one without a name.
func (c *Container) Name() string { return c.ContainerName() }

// lifetime is how long a container lives unless something else is said.
const lifetime = 24 * time.Hour

// lost is the exit code of a main process that went with its sandbox: that of SIGKILL.
const lost = 137

// Create makes a container, whose main process does not run yet. name may be empty. An image that
// the store does not have is [runtime.ErrNotFound]. The warnings are for people.
func (e *Engine) Create(ctx context.Context, name string, c *Config) (_ *Container, warnings []string, err error) {
	id, err := e.opts.Images.Find(c.Image)
	if err != nil {
		return nil, nil, noImage(c.Image, err)
	}
	img, err := e.opts.Images.Get(id)
	if err != nil {
		return nil, nil, err
	}
	r := &record{Config: *c, ImageID: id, Argv: c.argv(&img.Config)}
	switch {
	case len(r.Argv) == 0:
		return nil, nil, invalid("no command specified")
	case c.WorkingDir != "" && !path.IsAbs(c.WorkingDir):
		return nil, nil, invalid("the working directory %q is invalid, it needs to be an absolute path", c.WorkingDir)
	}
	given, life := e.opts.Given()
	if err := checkNetwork(c.HostConfig.NetworkMode, cmp.Or(given, runtime.NetworkNone)); err != nil {
		return nil, nil, err
	}
	p := &service.Params{TTL: cmp.Or(life, lifetime), Env: Variables(c.Env), Metadata: c.Labels}
	mounts, err := c.HostConfig.Mounted()
	if err != nil {
		return nil, nil, err
	}
	var volumes []runtime.VolumeMount
	for _, m := range mounts {
		switch {
		case m.Type == "bind":
			p.Volumes = append(p.Volumes, service.Volume{Path: m.Source, Target: m.Target, Writable: !m.ReadOnly})
		case e.opts.Own:
			volumes = append(volumes, runtime.VolumeMount{Name: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
		default:
			return nil, nil, runtime.Errorf(runtime.ErrUnsupported,
				"volume %q: this service gives no volumes with names: bind a directory of its --volume-root", m.Source)
		}
	}
	if p.Resources, err = c.HostConfig.resources(); err != nil {
		return nil, nil, err
	}
	ports, err := r.publish(e.opts.Own)
	if err != nil {
		return nil, nil, err
	}
	if !e.opts.Root {
		if c.User != "" {
			return nil, nil, runtime.Errorf(runtime.ErrUnsupported,
				"user %q: this host gives no other users inside: wolffia doctor has a row subids", c.User)
		}
		warnings = append(warnings,
			"programs run as the sandbox's own user, not as root: this host has no subordinate ids (wolffia doctor, row subids)")
	}
	var short [idLength / 2]byte
	_, _ = rand.Read(short[:]) // never fails
	p.SandboxID = hex.EncodeToString(short[:])
	if e.opts.Own { // no service may take the sandbox for one without a client
		p.Key = rand.Text()
	}
	p.Refine = func(s *runtime.SandboxConfig) error {
		s.Name, s.Image, s.ImageID, s.BareImage, s.Rootfs = name, imageName(c.Image), id, true, ""
		if s.Root, s.RunAs = e.opts.Root, c.User; s.Root { // the image has the users
			s.UserName = ""
		}
		s.Cwd = DirOf(c, &img.Config)
		maps.DeleteFunc(s.Env, func(k, _ string) bool { // of the caller's terminal and language
			_, asked := p.Env[k]
			return !asked && (slices.Contains([]string{"TERM", "TZ", "LANG", "LANGUAGE"}, k) ||
				strings.HasPrefix(k, "LC_"))
		})
		if network, is := c.HostConfig.NetworkMode, s.Network; network == "none" && is != runtime.NetworkNone {
			s.Network, s.Egress, s.Expose = runtime.NetworkNone, nil, nil
		}
		s.Volumes, s.Publish = append(s.Volumes, volumes...), append(s.Publish, ports...)
		s.CodebasePath, s.CodebaseNames, s.Permissions, s.Filter, s.CopyOnWrite, s.Git = "", nil, nil, "", false, nil
		s.Mounts = slices.DeleteFunc(s.Mounts, func(m runtime.Mount) bool { return m.Toolchain })
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		return r.put(s.Labels)
	}
	b, _, err := e.service.Create(ctx, p)
	if errors.Is(err, runtime.ErrExists) {
		return nil, nil, runtime.Errorf(runtime.ErrConflict,
			"the container name %q is already in use: remove that container, or choose another name", "/"+name)
	}
	if err != nil {
		return nil, nil, err
	}
	made := &Container{Sandbox: b, record: *r, State: Created, engine: e}
	if path.Clean(c.WorkingDir) != "/" && c.WorkingDir != "" {
		in, err := made.inside(ctx)
		if err == nil {
			_, err = in.Files().Do(ctx, &filecall.Request{
				Op: filecall.OpMkdir, Modes: map[string]filecall.Mode{path.Clean(c.WorkingDir): {}},
			})
		}
		if err != nil {
			return nil, nil, errors.Join(err, e.service.Destroy(context.WithoutCancel(ctx), everyone, b.ID))
		}
	}
	e.events.tell("create", made, nil)
	return made, warnings, nil
}

// imageName returns the name of an image for the sandbox; one of an id has none.
func imageName(ref string) string {
	if name, err := store.Canonical(ref); err == nil {
		return name
	}
	return ref
}

func noImage(ref string, err error) error {
	if !errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	if last := ref[strings.LastIndex(ref, "/")+1:]; !strings.ContainsAny(last, ":@") {
		ref += ":latest"
	}
	return runtime.Errorf(runtime.ErrNotFound, "No such image: %s", ref)
}

// DirOf returns the working directory of a container.
func DirOf(c *Config, img *store.Config) string {
	for _, dir := range []string{c.WorkingDir, img.WorkingDir} {
		if path.IsAbs(dir) {
			return path.Clean(dir)
		}
	}
	return "/"
}

// Get returns a container by its name, its id, or a beginning of the id that no other has.
func (e *Engine) Get(ctx context.Context, ref string) (*Container, error) {
	if len(ref) >= idLength && isHex(ref) {
		if b, err := e.service.Get(ctx, everyone, ref[:idLength]); err == nil && strings.HasPrefix(FullID(b.ID), ref) {
			if c := e.observe(ctx, b); c != nil {
				return c, nil
			}
		}
	}
	all, err := e.service.List(ctx, everyone)
	if err != nil {
		return nil, err
	}
	var found []*service.Sandbox
	name := func(b *service.Sandbox) bool { return b.Name != "" && b.Name == strings.TrimPrefix(ref, "/") }
	for _, b := range all {
		if recordOf(b.Labels) != nil && (name(b) || ref != "" && isHex(ref) && strings.HasPrefix(FullID(b.ID), ref)) {
			found = append(found, b)
		}
	}
	if n := slices.IndexFunc(found, name); n >= 0 { // a name counts more
		found = found[n : n+1]
	}
	if len(found) > 1 {
		return nil, invalid("multiple IDs found with provided prefix: %s", ref)
	}
	if len(found) == 1 {
		if c := e.observe(ctx, found[0]); c != nil {
			return c, nil
		}
	}
	return nil, runtime.Errorf(runtime.ErrNotFound, "No such container: %s", ref)
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// List returns the containers, the newest first.
func (e *Engine) List(ctx context.Context) ([]*Container, error) {
	all, err := e.service.List(ctx, everyone)
	if err != nil {
		return nil, err
	}
	found := []*Container{}
	for _, b := range all {
		if c := e.observe(ctx, b); c != nil {
			found = append(found, c)
		}
	}
	return found, nil
}

// standsStill reports whether a sandbox has all that ran in it, and none of it runs.
func standsStill(b *service.Sandbox) bool {
	return b.State == runtime.StatePaused || b.State == runtime.StateHibernated
}

// observe returns the container that a sandbox is; nil: it is none, or one that was to be removed
// with its end, which observe then does.
func (e *Engine) observe(ctx context.Context, b *service.Sandbox) *Container {
	r := recordOf(b.Labels)
	if r == nil {
		return nil
	}
	c := &Container{Sandbox: b, record: *r, engine: e}
	if standsStill(b) && !r.Started.IsZero() && r.Exit == nil { // a look would wake it
		c.State = Paused
		return c
	}
	exit, running := c.exitOf(ctx)
	switch {
	case r.Started.IsZero():
		c.State = Created
		return c
	case running:
		c.State = Running
		return c
	}
	c.State, c.Exit = Exited, exit
	if r.Exit == nil {
		c.finish(ctx, exit)
	}
	if r.HostConfig.AutoRemove {
		return nil
	}
	return c
}

// Now returns the container as it is now.
func (c *Container) Now(ctx context.Context) (*Container, error) { return c.engine.Get(ctx, c.ID()) }

// Remove removes a container. One that runs is [runtime.ErrConflict], unless force kills it.
func (c *Container) Remove(ctx context.Context, force bool) error {
	if c.State.Runs() && !force {
		return runtime.Errorf(runtime.ErrConflict,
			"cannot remove container %q: container is %s: stop the container before removing or force remove", "/"+c.Name(), c.State)
	}
	return c.destroy(ctx, !c.State.Runs())
}

// logsLimit is how long the removal of a container waits for those who read its logs.
const logsLimit = 2 * time.Second

func (c *Container) destroy(ctx context.Context, ended bool) error {
	c.engine.mu.Lock()
	shown := c.engine.shown[c.Sandbox.ID]
	delete(c.engine.shown, c.Sandbox.ID)
	c.engine.mu.Unlock()
	if shown != nil && ended { // who follows the logs gets the last of them
		all := make(chan struct{})
		go func() { shown.Wait(); close(all) }() // ends with the sandbox
		select {
		case <-all:
		case <-time.After(logsLimit):
		}
	}
	err := c.engine.service.Destroy(ctx, everyone, c.Sandbox.ID)
	c.engine.drop(c.Sandbox.ID, lost)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err == nil {
		c.engine.events.tell("destroy", c, nil)
	}
	return err
}

// inside returns a handle on the container's sandbox.
func (c *Container) inside(ctx context.Context) (*service.Inside, error) {
	return c.engine.service.Inside(ctx, everyone, c.Sandbox.ID)
}

// Inside returns a handle on the sandbox of a container for copying files.
func (c *Container) Inside(ctx context.Context) (*service.Inside, error) {
	if !c.Sandbox.State.Runs() {
		if err := c.engine.service.Start(ctx, everyone, c.Sandbox.ID); err != nil && !errors.Is(err, runtime.ErrConflict) {
			return nil, err
		}
	}
	return c.inside(ctx)
}

// Running returns a handle on a container whose main process runs; another one is
// [runtime.ErrConflict].
func (c *Container) Running(ctx context.Context) (*service.Inside, error) {
	switch {
	case c.State == Paused && !c.Sandbox.Usable():
		return nil, runtime.Errorf(runtime.ErrConflict, "container %s is paused: unpause it first", c.ID())
	case !c.State.Runs():
		return nil, runtime.Errorf(runtime.ErrConflict, "container %s is not running", c.ID())
	}
	return c.inside(ctx)
}
