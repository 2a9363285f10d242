package dockercli

import (
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	units "github.com/docker/go-units"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/attach"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/image/puller"
	"wolffia/runtime"
	"wolffia/service/container"
)

// createFlags are the flags of run and create.
type createFlags struct {
	detach, interactive, tty, remove, publishAll, init, quiet              bool
	name, entrypoint, network, memory, pull, platform, stopSignal, cidfile string
	workdir, user                                                          string
	env, envFiles, volumes, mounts, publish, labels, expose                []string
	cpus                                                                   float64
	pids                                                                   int64
	stopTimeout                                                            int
	fl                                                                     *pflag.FlagSet
}

func (f *createFlags) add(fl *pflag.FlagSet) {
	f.fl = fl
	fl.BoolVarP(&f.interactive, "interactive", "i", false, "Keep STDIN open even if not attached")
	fl.BoolVarP(&f.tty, "tty", "t", false, "Allocate a pseudo-TTY")
	fl.BoolVar(&f.remove, "rm", false, "Automatically remove the container when it exits")
	fl.BoolVarP(&f.publishAll, "publish-all", "P", false, "Publish all exposed ports to free ports")
	fl.BoolVar(&f.init, "init", false, "Run an init inside the container (there is one always)")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "Suppress the pull output")
	fl.StringVar(&f.name, "name", "", "Assign a name to the container")
	fl.StringVar(&f.entrypoint, "entrypoint", "", "Overwrite the default ENTRYPOINT of the image")
	fl.StringVar(&f.network, "network", "", "none, or what wolffia's configuration gives")
	fl.StringVar(&f.network, "net", "", "as --network")
	fl.StringVarP(&f.memory, "memory", "m", "", "Memory limit")
	fl.StringVar(&f.pull, "pull", "missing", "Pull image before running (always|missing|never)")
	fl.StringVar(&f.platform, "platform", "", "linux, for this architecture")
	fl.StringVar(&f.stopSignal, "stop-signal", "", "Signal to stop the container")
	fl.StringVar(&f.cidfile, "cidfile", "", "Write the container ID to the file")
	fl.StringVarP(&f.workdir, "workdir", "w", "", "Working directory inside the container")
	fl.StringVarP(&f.user, "user", "u", "", "Username or UID (format: <name|uid>[:<group|gid>])")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "Set environment variables")
	fl.StringArrayVar(&f.envFiles, "env-file", nil, "Read in a file of environment variables")
	fl.StringArrayVarP(&f.volumes, "volume", "v", nil, "Bind mount a volume")
	fl.StringArrayVar(&f.mounts, "mount", nil,
		"Attach a filesystem mount to the container: type=bind|volume,source=,target=[,readonly]")
	fl.StringArrayVarP(&f.publish, "publish", "p", nil,
		"Publish a container's port(s) to the host, at 127.0.0.1 unless it names an address")
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "Set meta data on a container")
	fl.StringArrayVar(&f.expose, "expose", nil, "Expose a port")
	fl.Float64Var(&f.cpus, "cpus", 0, "Number of CPUs")
	fl.Int64Var(&f.pids, "pids-limit", 0, "Tune container pids limit")
	fl.IntVar(&f.stopTimeout, "stop-timeout", 0, "Timeout (in seconds) to stop a container")
}

func invalid(format string, args ...any) error {
	return runtime.Errorf(runtime.ErrInvalid, format, args...)
}

// config makes docker's configuration of a container of the flags.
func (f *createFlags) config(args []string) (*container.Config, error) {
	c := &container.Config{
		Image: args[0], Cmd: args[1:], User: f.user, WorkingDir: f.workdir, Tty: f.tty,
		OpenStdin: f.interactive, StopSignal: f.stopSignal,
		AttachStdin: f.interactive && !f.detach, AttachStdout: !f.detach, AttachStderr: !f.detach,
		Labels: map[string]string{}, ExposedPorts: map[string]struct{}{},
	}
	if !slices.Contains([]string{"always", "missing", "never"}, f.pull) {
		return nil, invalid("invalid pull option: '%s': must be one of 'always', 'missing' or 'never'", f.pull)
	}
	h := &c.HostConfig
	h.NetworkMode, h.PublishAllPorts, h.AutoRemove, h.NanoCpus = f.network, f.publishAll, f.remove, int64(f.cpus*1e9)
	if f.fl.Changed("entrypoint") {
		c.Entrypoint = container.Words{f.entrypoint}
	}
	if f.fl.Changed("pids-limit") {
		h.PidsLimit = &f.pids
	}
	if f.fl.Changed("stop-timeout") {
		c.StopTimeout = &f.stopTimeout
	}
	if p := f.platform; p != "" && p != "linux" && p != "linux/"+goruntime.GOARCH {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "--platform %s: only linux/%s runs here", p,
			goruntime.GOARCH)
	}
	var err error
	if c.Env, err = f.variables(); err != nil {
		return nil, err
	}
	for _, l := range f.labels {
		k, v, _ := strings.Cut(l, "=")
		c.Labels[k] = v
	}
	if f.memory != "" {
		if h.Memory, err = units.RAMInBytes(f.memory); err != nil {
			return nil, invalid("invalid argument %q for --memory: %w", f.memory, err)
		}
	}
	for _, p := range f.expose {
		c.ExposedPorts[withProto(p)] = struct{}{}
	}
	for _, p := range f.publish {
		port, binding, err := parsePublish(p)
		if err != nil {
			return nil, err
		}
		if h.PortBindings == nil {
			h.PortBindings = map[string][]container.PortBinding{}
		}
		h.PortBindings[port] = append(h.PortBindings[port], binding)
		c.ExposedPorts[port] = struct{}{}
	}
	for _, v := range f.volumes {
		source, rest, is := strings.Cut(v, ":")
		if !is { // a volume without a name: the container's own files
			if !strings.HasPrefix(v, "/") {
				return nil, invalid("volume %q: the path inside must be absolute", v)
			}
			continue
		}
		if strings.HasPrefix(source, ".") || source == "~" || strings.HasPrefix(source, "~/") {
			if source, err = filepath.Abs(source); err != nil {
				return nil, err
			}
		}
		if strings.HasPrefix(source, "/") { // docker makes what is not there
			if err := os.MkdirAll(source, 0o755); err != nil && !errors.Is(err, syscall.ENOTDIR) &&
				!errors.Is(err, os.ErrExist) {
				return nil, invalid("volume %s: %w", v, err)
			}
		}
		h.Binds = append(h.Binds, source+":"+rest)
	}
	for _, m := range f.mounts {
		mount, err := parseMount(m)
		if err != nil {
			return nil, err
		}
		h.Mounts = append(h.Mounts, mount)
	}
	return c, nil
}

// variables returns the variables of the flags, as K=V.
func (f *createFlags) variables() (all []string, err error) {
	var texts []string
	for _, file := range f.envFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, invalid("--env-file: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				texts = append(texts, line)
			}
		}
	}
	return variables(append(texts, f.env...))
}

// variables returns K=V for each text; a K alone has the value that it has here, and is left out
// without one.
func variables(texts []string) (all []string, err error) {
	for _, e := range texts {
		k, _, is := strings.Cut(e, "=")
		if k == "" {
			return nil, invalid("invalid environment variable: %s", e)
		}
		if !is {
			v, has := os.LookupEnv(k)
			if !has {
				continue
			}
			e = k + "=" + v
		}
		all = append(all, e)
	}
	return all, nil
}

func withProto(port string) string {
	if !strings.Contains(port, "/") {
		port += "/tcp"
	}
	return port
}

// parsePublish reads [[IP:][HOSTPORT]:]PORT[/PROTO].
func parsePublish(s string) (port string, b container.PortBinding, err error) {
	inside := s
	if at := strings.LastIndex(s, ":"); at >= 0 {
		b.HostPort, inside = s[:at], s[at+1:]
		if at := strings.LastIndex(b.HostPort, ":"); at >= 0 {
			b.HostIP, b.HostPort = strings.Trim(b.HostPort[:at], "[]"), b.HostPort[at+1:]
		}
	}
	if inside == "" || strings.Contains(s, "-") {
		return "", b,
			invalid("invalid publish %q: it must be [[IP:][HOSTPORT]:]PORT; ranges of ports do not exist here", s)
	}
	return withProto(inside), b, nil
}

// parseMount reads a --mount.
func parseMount(s string) (m container.Mount, err error) {
	m.Type = "volume"
	for field := range strings.SplitSeq(s, ",") {
		k, v, has := strings.Cut(field, "=")
		switch k {
		case "type":
			m.Type = v
		case "source", "src":
			m.Source = v
		case "target", "dst", "destination":
			m.Target = v
		case "readonly", "ro":
			if m.ReadOnly = !has; has {
				if m.ReadOnly, err = strconv.ParseBool(v); err != nil {
					return m, invalid("invalid argument %q for --mount: invalid value for %s: %s", s, k, v)
				}
			}
		default:
			return m, invalid("invalid argument %q for --mount: unexpected key %q", s, k)
		}
	}
	return m, nil
}

// create makes a container, and pulls its image if that is missing.
func (c *client) create(f *createFlags, args []string) (*container.Container, error) {
	config, err := f.config(args)
	if err != nil {
		return nil, err
	}
	e, err := c.open()
	if err != nil {
		return nil, err
	}
	if err := c.configure(); err != nil {
		return nil, err
	}
	if f.pull == "always" {
		if err := c.pull(config.Image, f.quiet); err != nil {
			return nil, err
		}
	}
	made, warnings, err := e.Create(c.ctx, all, f.name, config)
	if errors.Is(err, runtime.ErrNotFound) && f.pull == "missing" && strings.HasPrefix(err.Error(), "No such image") {
		if !f.quiet {
			c.say("Unable to find image '" + console.Printable(config.Image) + "' locally")
		}
		if err := c.pull(config.Image, f.quiet); err != nil {
			return nil, err
		}
		made, warnings, err = e.Create(c.ctx, all, f.name, config)
	}
	for _, w := range warnings {
		c.say("WARNING: " + w)
	}
	if err == nil && f.cidfile != "" {
		err = os.WriteFile(f.cidfile, []byte(made.ID()), 0o644) //nolint:gosec // as docker
	}
	return made, err
}

func (c *client) pull(image string, quiet bool) error {
	was := c.Quiet
	c.Quiet = c.Quiet || quiet
	_, err := c.Pull(c.ctx, &puller.Request{Name: image})
	c.Quiet = was
	return err
}

func createCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	f := new(createFlags)
	f.add(fl)
	return func(args []string) error {
		made, err := c.create(f, args)
		if err != nil {
			return err
		}
		return c.print(made.ID() + "\n")
	}
}

func runCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	f := new(createFlags)
	f.add(fl)
	fl.BoolVarP(&f.detach, "detach", "d", false, "Run container in background and print container ID")
	return func(args []string) error {
		if f.tty && !f.detach && !c.IsTerminal() {
			c.say("the input device is not a TTY")
			return console.ExitStatus(1)
		}
		made, err := c.create(f, args)
		if err != nil {
			return err
		}
		if f.detach {
			if err := c.engine.Start(c.ctx, all, made, nil); err != nil {
				return c.unstarted(made, err)
			}
			return c.print(made.ID() + "\n")
		}
		return c.foreground(made)
	}
}

// unstarted removes a container that could not be started, if it was to be removed anyway.
func (c *client) unstarted(made *container.Container, err error) error {
	if made.HostConfig.AutoRemove {
		_ = c.engine.Remove(c.ctx, all, made.ID(), true) // it may be gone
	}
	return err
}

// foreground runs a container's main process with our standard streams.
func (c *client) foreground(made *container.Container) error {
	return c.engine.Start(c.ctx, all, made, func(cmd *runtime.Command) (code int, err error) {
		cmd.OpenStdin = cmd.OpenStdin && c.Readable()
		err = attach.New(c.Host, c.rt).Exec(c.ctx, made.Sandbox.ID, false, cmd)
		if status, is := errors.AsType[console.ExitStatus](err); is || err == nil {
			return int(status), err
		}
		return container.StartCode(err), err
	})
}

func startCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	attached := fl.BoolP("attach", "a", false, "Attach STDOUT/STDERR and forward signals")
	interactive := fl.BoolP("interactive", "i", false, "Attach container's STDIN")
	return func(args []string) error {
		if *attached || *interactive {
			if len(args) > 1 {
				return invalid("you cannot start and attach multiple containers at once")
			}
			one, err := c.get(args[0])
			if err != nil {
				return err
			}
			return c.foreground(one)
		}
		return c.each(args, func(one *container.Container) error {
			err := c.engine.Start(c.ctx, all, one, nil)
			if errors.Is(err, runtime.ErrExists) {
				err = nil
			}
			return err
		})
	}
}

func stopCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	seconds := fl.IntP("time", "t", 10, "Seconds to wait for stop before killing it")
	fl.IntVar(seconds, "timeout", 10, "as --time")
	return func(args []string) error {
		return c.each(args, func(one *container.Container) error {
			var limit *time.Duration
			if fl.Changed("time") || fl.Changed("timeout") {
				limit = new(time.Duration(*seconds) * time.Second)
			}
			return c.engine.Stop(c.ctx, all, one, limit)
		})
	}
}

func killCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	name := fl.StringP("signal", "s", "KILL", "Signal to send to the container")
	return func(args []string) error {
		return c.each(args, func(one *container.Container) error {
			return c.engine.Kill(c.ctx, all, one, *name)
		})
	}
}

func removeCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	force := fl.BoolP("force", "f", false, "Force the removal of a running container")
	fl.BoolP("volumes", "v", false, "Remove anonymous volumes (they go with the container always)")
	return func(args []string) error {
		return c.each(args, func(one *container.Container) error {
			return c.engine.Remove(c.ctx, all, one.ID(), *force)
		})
	}
}

func waitCommand(c *client, _ *pflag.FlagSet) func([]string) error {
	return func(args []string) error {
		for _, ref := range args {
			one, err := c.get(ref)
			if err != nil {
				return err
			}
			code, err := c.engine.Wait(c.ctx, all, one)
			if err == nil {
				err = c.print(strconv.Itoa(code) + "\n")
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func execCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	detach := fl.BoolP("detach", "d", false, "Run command in the background")
	interactive := fl.BoolP("interactive", "i", false, "Keep STDIN open even if not attached")
	tty := fl.BoolP("tty", "t", false, "Allocate a pseudo-TTY")
	env := fl.StringArrayP("env", "e", nil, "Set environment variables")
	files := fl.StringArray("env-file", nil, "Read in a file of environment variables")
	user := fl.StringP("user", "u", "", "Username or UID (format: <name|uid>[:<group|gid>])")
	workdir := fl.StringP("workdir", "w", "", "Working directory inside the container")
	return func(args []string) error {
		if *tty && !*detach && !c.IsTerminal() {
			c.say("the input device is not a TTY")
			return console.ExitStatus(1)
		}
		vars, err := (&createFlags{env: *env, envFiles: *files}).variables()
		if err != nil {
			return err
		}
		one, err := c.get(args[0])
		if err != nil {
			return err
		}
		in, err := c.engine.Running(c.ctx, all, one)
		if err != nil {
			return err
		}
		x := &container.Exec{
			AttachStdin: *interactive && c.Readable(), Tty: *tty, User: *user, WorkingDir: *workdir, Env: vars, Cmd: args[1:],
		}
		if *detach {
			return x.Background(c.ctx, in)
		}
		return attach.New(c.Host, c.rt).Exec(c.ctx, one.Sandbox.ID, false, x.Command())
	}
}
