package local

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/internal/host/hostsocket"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/pathname"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/fusermount"
	"wolffia/internal/sys/hostpath"
	"wolffia/local/defaults"
	"wolffia/network"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// recordOf returns what is recorded of config.
func recordOf(config *runtime.SandboxConfig) *statedir.Config {
	return &statedir.Config{SandboxConfig: apartFrom(config), CreatedAt: time.Now().UnixMilli()}
}

// apartFrom returns a copy of config that shares nothing with it that could change.
func apartFrom(config *runtime.SandboxConfig) runtime.SandboxConfig {
	c := *config
	c.Labels, c.Env = maps.Clone(c.Labels), maps.Clone(c.Env)
	c.Mounts, c.Permissions = slices.Clone(c.Mounts), slices.Clone(c.Permissions)
	c.Volumes, c.CodebaseNames = slices.Clone(c.Volumes), slices.Clone(c.CodebaseNames)
	c.Egress = copyOf(c.Egress)
	c.Publish, c.Expose, c.Sockets = slices.Clone(c.Publish), slices.Clone(c.Expose), slices.Clone(c.Sockets)
	if c.Git != nil {
		g := *c.Git
		g.Files = maps.Clone(g.Files)
		c.Git = &g
	}
	if c.Docker != nil {
		d := *c.Docker
		c.Docker = &d
	}
	return c
}

// A completer fills in what configurations leave to Create.
type completer struct {
	*catalog
	engines *engines
	images  *store.Store // of backends without images of their own
}

// complete fills in what a configuration leaves to Create, and refuses what the backend or
// this host cannot do. It returns how the limits are to be kept, nil if it has no limits to
// keep; until release is called the image is not deleted.
func (s *completer) complete(ctx context.Context, c *statedir.Config) (limits *limiting, release func(), err error) {
	c.Runtime = cmp.Or(c.Runtime, s.backends[0].Name())
	backend := s.backend(c.Runtime)
	if backend == nil {
		return nil, nil, runtime.Errorf(runtime.ErrInvalid, "runtime %q is not available: this runtime has %s",
			c.Runtime, strings.Join(launch.Names(s.backends), ", "))
	}
	defaults.LeaveToolchains(c)
	if err := c.Validate(); err != nil {
		return nil, nil, err
	}
	if c.Platform != "" && !slices.Contains(backend.Platforms, c.Platform) {
		return nil, nil, runtime.Errorf(runtime.ErrUnsupported, "platform %q: runtime %s has %s", c.Platform, c.Runtime, cmp.Or(strings.Join(backend.Platforms, ", "), "none to choose from; use runtime gvisor"))
	}
	if err := checkRoot(c, backend); err != nil {
		return nil, nil, err
	}
	if err := s.resolve(c); err != nil {
		return nil, nil, err
	}
	if err := defaults.Identify(c, s.dir.Path()); err != nil {
		return nil, nil, err
	}
	if err := defaults.Volumes(c); err != nil {
		return nil, nil, err
	}
	c.ID = cmp.Or(c.ID, runtime.NewID())
	defaults.Git(c, backend.Can.Has(launch.HostInodes))
	if err := defaults.Filter(c, backend); err != nil {
		return nil, nil, err
	}
	if err := checkAsk(c, backend); err != nil {
		return nil, nil, err
	}
	if c.IdleAction == runtime.IdleHibernate {
		if err := s.canHibernate(c); err != nil {
			return nil, nil, err
		}
	}
	c.PrivateGit = defaults.HasPrivateGit(c)
	defaults.GitMonitor(c)
	c.Permissions = gitRules(c, c.Permissions)
	switch {
	case backend.Place != launch.BesideShim:
		err = completeForEngine(backend, c)
	case c.Docker != nil:
		err = runtime.Errorf(runtime.ErrUnsupported, "runtime %s has no engine", backend.Name())
	default:
		limits, err = planLimits(&c.SandboxConfig, backend.Can.Has(launch.OwnKernel))
	}
	if err != nil {
		return nil, nil, err
	}
	release, err = s.useImage(ctx, backend, c)
	return limits, release, err
}

// checkRoot refuses root inside where the backend does not have it.
func checkRoot(c *statedir.Config, backend *launch.Backend) error {
	switch {
	case !c.Root:
	case !backend.Can.Has(launch.RootInside):
		return runtime.Errorf(runtime.ErrUnsupported, "runtime %s has no root inside: its engine decides the users of containers, and its root may be the host's; use runtime bwrap or gvisor", c.Runtime)
	case c.Resources.PIDs > 0 && backend.Can.Has(launch.OwnKernel) && !c.Resources.BestEffort:
		return runtime.Errorf(runtime.ErrUnsupported, "processes cannot be limited exactly with root inside of runtime %s, which counts those of each user: use runtime bwrap, or --limits best-effort", c.Runtime)
	case c.OverHost():
		return rootfs.CheckSystem()
	}
	return nil
}

// checkAsk refuses questions about files where the tree server does not see which process asks,
// and for what.
func checkAsk(c *statedir.Config, backend *launch.Backend) error {
	for _, kind := range []string{runtime.AskWrite, runtime.AskReveal} {
		if c.Asks(kind) && !backend.Can.Has(launch.HostProcesses) {
			return runtime.Errorf(runtime.ErrUnsupported, "ask %s: processes of runtime %s cannot be seen while they wait for a file: leave it out, or use runtime bwrap", kind, c.Runtime)
		}
	}
	return nil
}

// completeForEngine fills in which engine runs the sandbox.
func completeForEngine(backend *launch.Backend, c *statedir.Config) error {
	elsewhere := backend.Place == launch.Elsewhere
	switch {
	case elsewhere && (c.Rootfs != "" || len(c.Mounts)+len(c.Volumes)+len(c.Sockets) > 0):
		return runtime.Errorf(runtime.ErrUnsupported,
			"runtime %s runs sandboxes on another machine, which sees no directory of this host: leave root, mounts and volumes out", c.Runtime)
	case elsewhere && c.CodebasePath != "" && !c.CopyOnWrite:
		return runtime.Errorf(runtime.ErrUnsupported,
			"runtime %s runs sandboxes on another machine, which gets a copy of the codebase: add --cow, or --no-codebase", c.Runtime)
	}
	if err := backend.Complete(&c.SandboxConfig); err != nil {
		return err
	}
	if c.Serves() && !elsewhere && os.Geteuid() != 0 {
		// the sandbox could start and could not be removed
		if err := fusermount.CanUnmount(); err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "show the codebase to the engine: %w", err)
		}
	}
	return nil
}

// resolve replaces the paths of a configuration on the host by those without symbolic
// links, and checks what is there.
func (s *completer) resolve(c *statedir.Config) (err error) {
	if c.CodebasePath, err = s.directory("codebase", c.CodebasePath, beneath.CheckNames); err != nil {
		return err
	}
	for _, name := range c.CodebaseNames {
		if real, err := filepath.EvalSymlinks(name); err != nil || real != c.CodebasePath {
			return runtime.Errorf(runtime.ErrInvalid, "name of the codebase %s: it does not lead to %s", name, c.CodebasePath)
		}
	}
	if c.Rootfs, err = s.directory("root file system", c.Rootfs, func(int) error { return nil }); err != nil {
		return err
	}
	places := written(c)
	for i := range c.Mounts {
		if err := s.resolveMount(c, &c.Mounts[i], places); err != nil {
			return err
		}
	}
	if err := s.resolveSockets(c, places); err != nil {
		return err
	}
	return checkHeaders(c.Egress, places)
}

// written returns a function that gathers what sandboxes can change, that of c too, when it is
// first called.
func written(c *statedir.Config) func() ([]string, error) {
	return sync.OnceValues(func() ([]string, error) {
		all, err := hostpath.Places() // those that the state directory records, and the caller's
		for _, place := range statedir.Changes(c) {
			if real, err := filepath.EvalSymlinks(place); err == nil {
				all = append(all, real)
			}
		}
		return all, err
	})
}

// resolveMount replaces the source of a mount by its path without symbolic links, and refuses one
// that a sandbox could have changed, or that passes by the rules of the codebase.
func (s *completer) resolveMount(c *statedir.Config, m *runtime.Mount, written func() ([]string, error)) error {
	real, err := filepath.EvalSymlinks(m.Source)
	if m.Within != "" && (err != nil || !pathname.Within(real, m.Within)) {
		// nothing of what is elsewhere
		return runtime.Errorf(runtime.ErrInvalid, "mount %s: there is no such directory in %s", m.Source, m.Within)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "mount %s: %w", m.Source, plain(err))
	}
	switch {
	case m.Toolchain && real != m.Source:
		return runtime.Errorf(runtime.ErrConflict, "toolchain %s: a symbolic link was put into this path: try again, or use --toolchains none", m.Source)
	case m.Within == "" && real != m.Source:
		places, err := written()
		if err != nil {
			return err
		}
		var place string
		if real, place, err = hostpath.ResolveLinks(m.Source, places); err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "mount %s: %w", m.Source, plain(err))
		}
		if place != "" {
			return runtime.Errorf(runtime.ErrDenied, "mount %s: a symbolic link in %s, where sandboxes can write, leads to %s: name that path itself if it is what you want to show", m.Source, place, real)
		}
	}
	m.Source = real
	if err := s.apart("mount", real); err != nil || m.Unfiltered || c.CodebasePath == "" {
		return err
	}
	in, err := hostpath.Holder(real, []string{c.CodebasePath})
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	holds, err := hostpath.Holder(c.CodebasePath, []string{real})
	switch {
	case err != nil:
		return runtime.WithClass(runtime.ErrUnavailable, err)
	case in != "":
		return runtime.Errorf(runtime.ErrDenied, "mount %s: it is in the codebase %s, and would be shown without the codebase's rules: use --reveal to show more, or add :unfiltered to the mount", real, in)
	case holds != "":
		return runtime.Errorf(runtime.ErrDenied, "mount %s: it holds the codebase %s, which would be shown without its rules: mount a directory beside the codebase, or add :unfiltered to the mount", real, c.CodebasePath)
	}
	return nil
}

// resolveSockets replaces the paths of sockets by those without symbolic links, and refuses
// those by which the host can be controlled, and those that a sandbox could replace.
func (s *completer) resolveSockets(c *statedir.Config, written func() ([]string, error)) error {
	for i := range c.Sockets {
		socket := &c.Sockets[i]
		socket.Target = socket.InsidePath()
		real, err := hostsocket.Resolve(socket.Source, socket.Force)
		if err != nil {
			return err
		}
		if err := s.apart("socket", real); err != nil {
			return err
		}
		if err := unchanged("socket", socket.Source, written); err != nil {
			return err
		}
		socket.Source = real
	}
	return nil
}

// checkHeaders refuses a file of a header that a sandbox could read or replace.
func checkHeaders(egress *network.Policy, written func() ([]string, error)) error {
	if egress == nil {
		return nil
	}
	for _, h := range egress.Headers {
		if err := unchanged("header file", h.File, written); err != nil {
			return err
		}
	}
	return nil
}

// unchanged refuses a path of the host that a sandbox could change. what says what it names.
func unchanged(what, path string, written func() ([]string, error)) error {
	places, err := written()
	if err != nil {
		return err
	}
	_, place, err := hostpath.Resolve(path, places)
	if errors.Is(err, os.ErrNotExist) { // it may be made later
		_, place, err = hostpath.Resolve(filepath.Dir(path), places)
	}
	switch {
	case err != nil:
		return runtime.Errorf(runtime.ErrInvalid, "%s %s: %w", what, path, plain(err))
	case place != "":
		return runtime.Errorf(runtime.ErrDenied, "%s %s: it is in %s, where sandboxes can write, or a link there leads to it: keep it elsewhere, such as in ~/.config/wolffia", what, path, place)
	}
	return nil
}

// directory resolves the path of a directory that the caller may list, that passes check
// and that is apart from the state directory. An empty path stays empty.
func (s *completer) directory(what, path string, check func(fd int) error) (string, error) {
	if path == "" {
		return "", nil
	}
	real, err := filepath.Abs(path)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err == nil {
		err = open(real, check)
	}
	if err != nil {
		return "", runtime.Errorf(runtime.ErrInvalid, "%s %s: %w", what, path, plain(err))
	}
	return real, s.apart(what, real)
}

// open opens a directory for reading, and has it checked.
func open(path string, check func(fd int) error) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return check(fd)
}

// apart refuses a directory that would show a sandbox the state directory.
func (s *completer) apart(what, dir string) error {
	state, err := filepath.EvalSymlinks(s.dir.Path())
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if pathname.Within(state, dir) || pathname.Within(dir, state) {
		return runtime.Errorf(runtime.ErrInvalid, "%s %s and the state directory %s must not contain one another: choose another with --state-dir or WOLFFIA_STATE_DIR", what, dir, state)
	}
	return nil
}

// plain drops the operation and the path that a *PathError repeats.
func plain(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}
