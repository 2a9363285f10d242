package dockercli

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/attach"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/runtime"
	"wolffia/service/container"
)

func createCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	f := new(creation)
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
	f := new(creation)
	f.add(fl)
	fl.BoolVarP(&f.detach, "detach", "d", false, "Run container in background and print container ID")
	return func(args []string) error {
		if err := c.needsTerminal(f.Tty && !f.detach); err != nil {
			return err
		}
		made, err := c.create(f, args)
		if err != nil {
			return err
		}
		if !f.detach {
			return c.foreground(made)
		}
		if err := made.Start(c.ctx, nil); err != nil {
			if made.HostConfig.AutoRemove {
				_ = made.Remove(c.ctx, true) // it may be gone
			}
			return err
		}
		return c.print(made.ID() + "\n")
	}
}

// needsTerminal returns an error if a command needs a terminal, and has none.
func (c *client) needsTerminal(needs bool) error {
	if !needs || c.IsTerminal() {
		return nil
	}
	c.say("the input device is not a TTY")
	return console.ExitStatus(1)
}

// foreground runs a container's main process with our standard streams.
func (c *client) foreground(made *container.Container) error {
	return made.Start(c.ctx, func(cmd *runtime.Command) (code int, err error) {
		err = c.exec(made, cmd)
		if status, is := errors.AsType[console.ExitStatus](err); is || err == nil {
			return int(status), err
		}
		return container.StartCode(err), err
	})
}

// exec runs a command in a container with our standard streams.
func (c *client) exec(in *container.Container, cmd *runtime.Command) error {
	cmd.OpenStdin = cmd.OpenStdin && c.Readable()
	return attach.New(c.Host, c.rt).Exec(c.ctx, in.Sandbox.ID, false, cmd)
}

// of returns what does something with the container that the first argument names.
func (c *client) of(do func(one *container.Container, args []string) error) func([]string) error {
	return func(args []string) error {
		one, err := c.engine.Get(c.ctx, args[0])
		if err != nil {
			return err
		}
		return do(one, args[1:])
	}
}

// saying returns what does something with each container that is named, and prints what that says.
func (c *client) saying(do func(one *container.Container, ref string) (string, error)) func([]string) error {
	return func(refs []string) (failed error) {
		for _, ref := range refs {
			text := ""
			one, err := c.engine.Get(c.ctx, ref)
			if err == nil {
				text, err = do(one, ref)
			}
			if err != nil {
				if c.ctx.Err() != nil {
					return err
				}
				failed = c.ended("", err, 1)
			} else if err := c.print(text + "\n"); err != nil {
				return err
			}
		}
		return failed
	}
}

// each is saying for what says the container's name.
func (c *client) each(do func(*container.Container) error) func([]string) error {
	return c.saying(func(one *container.Container, ref string) (string, error) { return ref, do(one) })
}

func startCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	attached := fl.BoolP("attach", "a", false, "Attach STDOUT/STDERR and forward signals")
	interactive := fl.BoolP("interactive", "i", false, "Attach container's STDIN")
	return func(args []string) error {
		switch {
		case !*attached && !*interactive:
			return c.each(func(one *container.Container) error {
				if err := one.Start(c.ctx, nil); !errors.Is(err, runtime.ErrExists) {
					return err
				}
				return nil
			})(args)
		case len(args) > 1:
			return invalid("you cannot start and attach multiple containers at once")
		}
		return c.of(func(one *container.Container, _ []string) error { return c.foreground(one) })(args)
	}
}

func stopCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	var limit *time.Duration
	set := func(s string) error {
		n, err := strconv.Atoi(s)
		limit = new(time.Duration(n) * time.Second)
		return err
	}
	fl.FuncP("time", "t", "Seconds to wait for stop before killing it (default 10)", set)
	fl.Func("timeout", "as --time", set)
	return c.each(func(one *container.Container) error { return one.Stop(c.ctx, limit) })
}

func killCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	name := fl.StringP("signal", "s", "KILL", "Signal to send to the container")
	return c.each(func(one *container.Container) error { return one.Kill(c.ctx, *name) })
}

// eachCommand is a command without options that does something with each container.
func eachCommand(do func(*container.Container, context.Context) error) func(*client, *pflag.FlagSet) func([]string) error {
	return func(c *client, _ *pflag.FlagSet) func([]string) error {
		return c.each(func(one *container.Container) error { return do(one, c.ctx) })
	}
}

func removeCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	force := fl.BoolP("force", "f", false, "Force the removal of a running container")
	fl.BoolP("volumes", "v", false, "Remove anonymous volumes (they go with the container always)")
	return c.each(func(one *container.Container) error { return one.Remove(c.ctx, *force) })
}

func waitCommand(c *client, _ *pflag.FlagSet) func([]string) error {
	return c.saying(func(one *container.Container, _ string) (string, error) {
		code, err := one.Wait(c.ctx)
		return strconv.Itoa(code), err
	})
}

func execCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	x, env := new(container.Exec), new(variables)
	env.add(fl)
	fl.BoolVarP(&x.Detach, "detach", "d", false, "Run command in the background")
	fl.BoolVarP(&x.AttachStdin, "interactive", "i", false, "Keep STDIN open even if not attached")
	fl.BoolVarP(&x.Tty, "tty", "t", false, "Allocate a pseudo-TTY")
	fl.StringVarP(&x.User, "user", "u", "", "Username or UID (format: <name|uid>[:<group|gid>])")
	fl.StringVarP(&x.WorkingDir, "workdir", "w", "", "Working directory inside the container")
	return c.of(func(one *container.Container, args []string) (err error) {
		if err := c.needsTerminal(x.Tty && !x.Detach); err != nil {
			return err
		}
		x.Cmd = args
		if x.Env, err = env.list(); err != nil {
			return err
		}
		in, err := one.Running(c.ctx)
		switch {
		case err != nil:
			return err
		case x.Detach:
			return x.Background(c.ctx, in)
		}
		return c.exec(one, x.Command())
	})
}

func logsCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	s := &container.Sight{Stdout: c.Out, Stderr: c.Err, Past: true, Tail: -1}
	fl.BoolVarP(&s.Follow, "follow", "f", false, "Follow log output")
	fl.FuncP("tail", "n", "Number of lines to show from the end of the logs (default all)", func(n string) (err error) {
		if n != "all" {
			s.Tail, err = strconv.Atoi(n)
		}
		return err
	})
	return c.of(func(one *container.Container, _ []string) error { return one.Logs(c.ctx, s) })
}
