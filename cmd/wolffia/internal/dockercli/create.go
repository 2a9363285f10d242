package dockercli

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	units "github.com/docker/go-units"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/image/puller"
	"wolffia/runtime"
	"wolffia/service/container"
)

func invalid(format string, args ...any) error {
	return runtime.Errorf(runtime.ErrInvalid, format, args...)
}

// variables are the flags for variables.
type variables struct{ files, env []string }

func (v *variables) add(fl *pflag.FlagSet) {
	fl.StringArrayVarP(&v.env, "env", "e", nil, "Set environment variables")
	fl.StringArrayVar(&v.files, "env-file", nil, "Read in a file of environment variables")
}

// list returns the variables as K=V. A K alone has the value that it has here, and is left out
// without one.
func (v *variables) list() (all []string, err error) {
	var texts []string
	for _, file := range v.files {
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
	for _, e := range append(texts, v.env...) {
		k, _, is := strings.Cut(e, "=")
		if k == "" {
			return nil, invalid("invalid environment variable: %s", e)
		}
		if here, has := os.LookupEnv(k); !is && has {
			e, is = k+"="+here, true
		}
		if is {
			all = append(all, e)
		}
	}
	return all, nil
}

// A creation is what run and create ask for. Its flags set the fields that the API's JSON sets.
type creation struct {
	container.Config
	variables
	name, pull, platform, cidfile string
	quiet, detach                 bool
}

func (f *creation) add(fl *pflag.FlagSet) {
	h := &f.HostConfig
	f.ExposedPorts = map[string]struct{}{}
	f.variables.add(fl)
	fl.BoolVarP(&f.OpenStdin, "interactive", "i", false, "Keep STDIN open even if not attached")
	fl.BoolVarP(&f.Tty, "tty", "t", false, "Allocate a pseudo-TTY")
	fl.BoolVar(&h.AutoRemove, "rm", false, "Automatically remove the container when it exits")
	fl.BoolVarP(&h.PublishAllPorts, "publish-all", "P", false, "Publish all exposed ports to free ports")
	fl.Bool("init", false, "Run an init inside the container (there is one always)")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "Suppress the pull output")
	fl.StringVar(&f.name, "name", "", "Assign a name to the container")
	fl.StringVar(&h.NetworkMode, "network", "", "none, or what wolffia's configuration gives")
	fl.StringVar(&h.NetworkMode, "net", "", "as --network")
	fl.StringVar(&f.pull, "pull", "missing", "Pull image before running (always|missing|never)")
	fl.StringVar(&f.platform, "platform", "", "linux, for this architecture")
	fl.StringVar(&f.StopSignal, "stop-signal", "", "Signal to stop the container")
	fl.StringVar(&f.cidfile, "cidfile", "", "Write the container ID to the file")
	fl.StringVarP(&f.WorkingDir, "workdir", "w", "", "Working directory inside the container")
	fl.StringVarP(&f.User, "user", "u", "", "Username or UID (format: <name|uid>[:<group|gid>])")
	for _, o := range []struct {
		name, short, usage string
		set                func(string) error
	}{
		{"entrypoint", "", "Overwrite the default ENTRYPOINT of the image", func(s string) error {
			f.Entrypoint = container.Words{s}
			return nil
		}},
		{"memory", "m", "Memory limit", func(s string) (err error) {
			h.Memory, err = units.RAMInBytes(s)
			return err
		}},
		{"cpus", "", "Number of CPUs", func(s string) error {
			n, err := strconv.ParseFloat(s, 64)
			h.NanoCpus = int64(n * 1e9)
			return err
		}},
		{"pids-limit", "", "Tune container pids limit", func(s string) error {
			n, err := strconv.ParseInt(s, 10, 64)
			h.PidsLimit = &n
			return err
		}},
		{"stop-timeout", "", "Timeout (in seconds) to stop a container", func(s string) error {
			n, err := strconv.Atoi(s)
			f.StopTimeout = &n
			return err
		}},
		{"label", "l", "Set meta data on a container", func(s string) error {
			if f.Labels == nil {
				f.Labels = map[string]string{}
			}
			k, v, _ := strings.Cut(s, "=")
			f.Labels[k] = v
			return nil
		}},
		{"expose", "", "Expose a port", func(s string) error {
			f.ExposedPorts[withProto(s)] = struct{}{}
			return nil
		}},
		{"publish", "p", "Publish a port to the host, at 127.0.0.1 unless it names an address", f.publish},
		{"volume", "v", "Bind mount a volume", f.volume},
		{"mount", "", "Attach a filesystem mount: type=bind|volume,source=,target=[,readonly]", f.mount},
	} {
		fl.FuncP(o.name, o.short, o.usage, o.set)
	}
}

func withProto(port string) string {
	if !strings.Contains(port, "/") {
		port += "/tcp"
	}
	return port
}

// publish reads [[IP:][HOSTPORT]:]PORT[/PROTO].
func (f *creation) publish(s string) error {
	var b container.PortBinding
	inside := s
	if at := strings.LastIndex(s, ":"); at >= 0 {
		b.HostPort, inside = s[:at], s[at+1:]
		if at := strings.LastIndex(b.HostPort, ":"); at >= 0 {
			b.HostIP, b.HostPort = strings.Trim(b.HostPort[:at], "[]"), b.HostPort[at+1:]
		}
	}
	if inside == "" || strings.Contains(s, "-") {
		return errors.New("it must be [[IP:][HOSTPORT]:]PORT; ranges of ports do not exist here")
	}
	h, port := &f.HostConfig, withProto(inside)
	if h.PortBindings == nil {
		h.PortBindings = map[string][]container.PortBinding{}
	}
	h.PortBindings[port] = append(h.PortBindings[port], b)
	f.ExposedPorts[port] = struct{}{}
	return nil
}

// volume reads [SOURCE:]TARGET[:OPTIONS]. One without a source is the container's own files.
func (f *creation) volume(s string) (err error) {
	source, rest, is := strings.Cut(s, ":")
	if !is && !strings.HasPrefix(s, "/") {
		return errors.New("the path inside must be absolute")
	}
	if strings.HasPrefix(source, ".") || source == "~" || strings.HasPrefix(source, "~/") {
		source, err = filepath.Abs(source)
	}
	if is && err == nil {
		f.HostConfig.Binds = append(f.HostConfig.Binds, source+":"+rest)
	}
	return err
}

// mount reads a --mount.
func (f *creation) mount(s string) (err error) {
	m := container.Mount{Type: "volume"}
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
			if m.ReadOnly = true; has {
				m.ReadOnly, err = strconv.ParseBool(v)
			}
		default:
			err = errors.New("unexpected key " + strconv.Quote(k))
		}
		if err != nil {
			return err
		}
	}
	f.HostConfig.Mounts = append(f.HostConfig.Mounts, m)
	return nil
}

// finish completes the configuration, by the arguments.
func (f *creation) finish(args []string) (err error) {
	f.Image, f.Cmd = args[0], args[1:]
	f.AttachStdin, f.AttachStdout, f.AttachStderr = f.OpenStdin && !f.detach, !f.detach, !f.detach
	if !slices.Contains([]string{"always", "missing", "never"}, f.pull) {
		return invalid("invalid pull option: '%s': must be one of 'always', 'missing' or 'never'", f.pull)
	}
	if err := container.CheckPlatform(f.platform); err != nil {
		return err
	}
	f.Config.Env, err = f.list()
	return err
}

// create makes a container, and pulls its image if that is missing.
func (c *client) create(f *creation, args []string) (made *container.Container, err error) {
	if err := f.finish(args); err != nil {
		return nil, err
	}
	if f.cidfile != "" { // before there is a container that its caller could not find
		file, failed := newCIDFile(f.cidfile)
		if failed != nil {
			return nil, failed
		}
		defer func() {
			if err == nil {
				_, err = file.WriteString(made.ID())
			}
			if err = cmp.Or(err, file.Close()); err != nil {
				_ = os.Remove(f.cidfile)
			}
		}()
	}
	for _, b := range f.HostConfig.Binds { // docker makes what does not exist
		if source, _, _ := strings.Cut(b, ":"); strings.HasPrefix(source, "/") {
			err := os.MkdirAll(source, 0o755)
			if err != nil && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, os.ErrExist) {
				return nil, invalid("volume %s: %w", b, err)
			}
		}
	}
	if err := c.configure(); err != nil {
		return nil, err
	}
	if f.pull == "always" {
		if err := c.pull(f.Image, f.quiet); err != nil {
			return nil, err
		}
	}
	made, warnings, err := c.engine.Create(c.ctx, f.name, &f.Config)
	if errors.Is(err, runtime.ErrNotFound) && f.pull == "missing" && strings.HasPrefix(err.Error(), "No such image") {
		if !f.quiet {
			c.say("Unable to find image '" + console.Printable(f.Image) + "' locally")
		}
		if err := c.pull(f.Image, f.quiet); err != nil {
			return nil, err
		}
		made, warnings, err = c.engine.Create(c.ctx, f.name, &f.Config)
	}
	for _, w := range warnings {
		c.say("WARNING: " + w)
	}
	return made, err
}

// newCIDFile makes the file of --cidfile, which must not exist.
func newCIDFile(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // as docker
	switch {
	case errors.Is(err, os.ErrExist):
		return nil, invalid("container ID file found, make sure the other container isn't running or delete %s", name)
	case err != nil:
		return nil, invalid("--cidfile: %w", err)
	}
	return file, nil
}

func (c *client) pull(image string, quiet bool) error {
	was := c.Quiet
	c.Quiet = c.Quiet || quiet
	_, err := c.Pull(c.ctx, &puller.Request{Name: image})
	c.Quiet = was
	return err
}
