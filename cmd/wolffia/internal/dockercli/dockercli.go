// Package dockercli is wolffia docker: docker's command line over containers that are sandboxes,
// without a daemon.
package dockercli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/image/store"
	"wolffia/local"
	"wolffia/local/defaults"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/container"
)

// Copy copies one place to another, either of them CONTAINER:PATH of the sandbox with that id.
type Copy func(ctx context.Context, h *host.Host, rt *local.Runtime, from, to string) error

// A client is one execution of wolffia docker.
type client struct {
	*host.Host
	ctx    context.Context
	copy   Copy
	rt     *local.Runtime
	engine *container.Engine
	base   *runtime.SandboxConfig // of new containers; nil: not needed yet
	flags  sandboxflags.Sandbox
	group  string // container or image: what the command is about; empty: either
}

// A command is one of docker's. set adds its flags and returns what it does with the arguments.
type command struct {
	use   string // what follows its name
	least int    // arguments
	code  int    // of its failures
	set   func(c *client, fl *pflag.FlagSet) func(args []string) error
}

// takes returns why a command does not take n arguments. use has a word for each, but the options.
func (c *command) takes(name string, n int) error {
	words, _, _ := strings.Cut(strings.TrimPrefix(c.use, "[OPTIONS]"), ",")
	most := len(strings.Fields(words))
	if n >= c.least && (n <= most || strings.Contains(c.use, "...")) {
		return nil
	}
	return fmt.Errorf("%q does not take %d argument(s).\nUsage:  docker %s %s", "docker "+name, n, name, c.use)
}

// commands are the commands by their names.
var commands = map[string]command{}

func init() { // they name each other
	maps.Copy(commands, map[string]command{
		"run":     {"[OPTIONS] IMAGE [COMMAND] [ARG...]", 1, 125, runCommand},
		"create":  {"[OPTIONS] IMAGE [COMMAND] [ARG...]", 1, 1, createCommand},
		"exec":    {"[OPTIONS] CONTAINER COMMAND [ARG...]", 2, 1, execCommand},
		"start":   {"CONTAINER [CONTAINER...]", 1, 1, startCommand},
		"stop":    {"[OPTIONS] CONTAINER [CONTAINER...]", 1, 1, stopCommand},
		"kill":    {"[OPTIONS] CONTAINER [CONTAINER...]", 1, 1, killCommand},
		"pause":   {"CONTAINER [CONTAINER...]", 1, 1, eachCommand((*container.Container).Pause)},
		"unpause": {"CONTAINER [CONTAINER...]", 1, 1, eachCommand((*container.Container).Unpause)},
		"rm":      {"[OPTIONS] CONTAINER [CONTAINER...]", 1, 1, removeCommand},
		"wait":    {"CONTAINER [CONTAINER...]", 1, 1, waitCommand},
		"logs":    {"[OPTIONS] CONTAINER", 1, 1, logsCommand},
		"cp":      {"[OPTIONS] SRC DEST, one of them CONTAINER:PATH", 2, 1, copyCommand},
		"port":    {"CONTAINER [PORT]", 1, 1, portCommand}, "ps": {"[OPTIONS]", 0, 1, psCommand},
		"inspect": {"[OPTIONS] NAME|ID [NAME|ID...]", 1, 1, inspectCommand},
		"images":  {"[OPTIONS] [NAME]", 0, 1, imagesCommand}, "pull": {"[OPTIONS] NAME[:TAG]", 1, 1, pullCommand},
		"build": {"[OPTIONS] DIR", 1, 1, buildCommand},
		"rmi":   {"IMAGE [IMAGE...]", 1, 1, removeImageCommand}, "tag": {"IMAGE NAME", 2, 1, tagCommand},
		"version": {"[OPTIONS]", 0, 1, versionCommand}, "info": {"[OPTIONS]", 0, 1, infoCommand},
	})
}

// grouped are the names of commands in docker's groups, where they differ.
var grouped = map[string]string{
	"container ls": "ps", "container list": "ps", "container ps": "ps",
	"image ls": "images", "image list": "images", "image rm": "rmi", "image remove": "rmi",
}

// Command returns the command docker.
func Command(h *host.Host, copy Copy) *cobra.Command {
	return &cobra.Command{
		Use:   "docker COMMAND [ARG...]",
		Short: "Do what docker does, with sandboxes and without a daemon",
		Long: `Do what docker does, with sandboxes and without a daemon: a container is a sandbox on an
image of wolffia's store, with a main process. alias docker='wolffia docker' works for:

  ` + strings.Join(slices.Sorted(maps.Keys(commands)), " ") + `

Flags, what is printed and exit codes are docker's. A flag that does not exist here is an
error. Containers have no network but what allow-host and network in wolffia's own
configuration give them. wolffia serve --docker-socket has docker's API.`,
		Example: `  wolffia docker run --rm debian:12 cat /etc/os-release
  id=$(wolffia docker run -d -w /src debian:12 sleep 2h)
  wolffia docker exec "$id" make test`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := &client{Host: h, ctx: cmd.Context(), copy: copy}
			return c.run(cmd, args)
		},
	}
}

// run runs one command line.
func (c *client) run(cmd *cobra.Command, args []string) error {
	global := pflag.NewFlagSet("docker", pflag.ContinueOnError)
	global.SetInterspersed(false)
	global.StringVar(&c.StateDir, "state-dir", c.StateDir, "")
	help := global.BoolP("help", "h", false, "")
	short := global.BoolP("version", "v", false, "")
	if err := global.Parse(args); err != nil {
		return c.misused("docker", "docker", err, 125)
	}
	args = global.Args()
	switch {
	case *short:
		return c.print("Docker version " + c.Version + ", wolffia\n")
	case *help || len(args) == 0 || args[0] == "help":
		return cmd.Help()
	}
	name, args := args[0], args[1:]
	if (name == "container" || name == "image") && len(args) > 0 {
		c.group = name
		name, args = cmp.Or(grouped[name+" "+args[0]], args[0]), args[1:]
	}
	one, is := commands[name]
	if !is {
		c.say(fmt.Sprintf("docker: '%s' is not a docker command.\nSee 'wolffia docker --help'", name))
		return console.ExitStatus(1)
	}
	fl := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fl.SetInterspersed(!slices.Contains([]string{"run", "create", "exec"}, name))
	do := one.set(c, fl)
	fl.Usage = func() {
		_ = c.print("\nUsage:  docker " + name + " " + one.use + "\n\nOptions:\n" + fl.FlagUsages())
	}
	switch err := fl.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return c.misused(name, "docker "+name, err, 125)
	}
	if err := one.takes(name, fl.NArg()); err != nil {
		return c.misused(name, "docker "+name, err, 1)
	}
	if name != "version" {
		if err := c.open(); err != nil {
			return c.ended(name, err, one.code)
		}
	}
	return c.ended(name, do(fl.Args()), one.code)
}

// print writes to standard output.
func (c *client) print(text string) error {
	_, err := c.Out.WriteString(text)
	return err
}

// printed writes a text to standard output, unless there is an error.
func (c *client) printed(err error, text *bytes.Buffer) error {
	if err != nil {
		return err
	}
	return c.print(text.String())
}

// say writes a line to standard error.
func (c *client) say(text string) { _, _ = c.Err.WriteString(text + "\n") }

// misused reports a command line that cannot be read.
func (c *client) misused(name, see string, err error, code int) error {
	prefix := ""
	if name == "run" {
		prefix = "docker: "
	}
	c.say(prefix + console.Printable(err.Error()) + "\nSee '" + see + " --help'.")
	return console.ExitStatus(code)
}

// ended reports an error as docker does, and has its exit code.
func (c *client) ended(name string, err error, code int) error {
	var status console.ExitStatus
	switch {
	case err == nil || errors.As(err, &status) || c.ctx.Err() != nil:
		return err
	}
	if failed, is := errors.AsType[*runtime.StartError](err); is {
		code = failed.Code
	}
	text := "Error response from daemon: " + console.Printable(container.StartError(err).Error())
	if name == "run" {
		text = "docker: " + text + "."
	}
	c.say(text)
	return console.ExitStatus(code)
}

// open opens the engine of containers.
func (c *client) open() (err error) {
	if c.rt, err = c.OpenAndPrime(""); err != nil {
		return err
	}
	s := service.New(c.rt, &service.Options{
		Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
			own := *c.base
			return &own, nil
		},
		Roots: []service.Root{{Path: "/", Real: "/", Writable: true}},
	})
	c.engine = container.New(s, &container.Options{
		Images: store.Open(c.rt.StateDir()), Root: defaults.RootInside() == nil, Own: true,
		Given: func() (runtime.Network, time.Duration) { return c.base.Network, c.base.TTL },
	})
	return nil
}

// configure reads what the user's configuration says of sandboxes.
func (c *client) configure() error {
	cmd := &cobra.Command{Use: "create", RunE: func(*cobra.Command, []string) error { return nil }}
	c.flags.Add(c.Host, cmd, fields.Create)
	for name, value := range map[string]string{"no-codebase": "true", "toolchains": "none"} {
		if f := cmd.Flags().Lookup(name); f != nil {
			if err := cmd.Flags().Set(name, value); err != nil {
				return err
			}
		}
	}
	if err := cmd.PreRunE(cmd, nil); err != nil {
		return err
	}
	base, err := c.flags.Config(c.ctx, c.Host)
	if err != nil {
		return err
	}
	base.Runtime = c.flags.Text("runtime") // the runtime was opened before this was read
	c.base = base
	return nil
}
