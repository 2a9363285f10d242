package dockercli

import (
	"bytes"
	"path/filepath"

	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/build"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/image/store"
	"wolffia/runtime"
	"wolffia/service/container"
)

func pullCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	quiet := fl.BoolP("quiet", "q", false, "Suppress verbose output")
	return func(args []string) error {
		if err := c.pull(args[0], *quiet); err != nil {
			return err
		}
		canonical, err := store.Canonical(args[0])
		return c.printed(err, bytes.NewBufferString(canonical+"\n"))
	}
}

func removeImageCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	fl.BoolP("force", "f", false, "Force removal of the image (not of one that a container uses)")
	return func(args []string) error {
		for _, ref := range args {
			if err := c.engine.RemoveImage(c.ctx, ref); err != nil {
				return err
			}
			if err := c.print("Untagged: " + ref + "\n"); err != nil {
				return err
			}
		}
		return nil
	}
}

func tagCommand(c *client, _ *pflag.FlagSet) func([]string) error {
	return func(args []string) error { return c.engine.TagImage(c.ctx, args[0], args[1]) }
}

func buildCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	o, args := &build.Options{Pull: host.PullMissing}, new(variables)
	var tags []string
	var pull, quiet bool
	fl.StringArrayVarP(&tags, "tag", "t", nil, "Name and optionally a tag in the 'name:tag' format")
	fl.StringArrayVar(&args.env, "build-arg", nil, "Set build-time variables")
	fl.StringVarP(&o.File, "file", "f", "", "Name of the Dockerfile (Default is 'PATH/Dockerfile')")
	fl.StringVar(&o.Target, "target", "", "Set the target build stage to build")
	fl.BoolVar(&o.NoCache, "no-cache", false, "Do not use cache when building the image")
	fl.BoolVar(&pull, "pull", false, "Always attempt to pull a newer version of the image")
	fl.BoolVarP(&quiet, "quiet", "q", false, "Suppress the build output and print image ID on success")
	return func(dirs []string) error {
		if err := c.configure(); err != nil {
			return err
		}
		c.Signals.Wait()
		o.Config = &runtime.SandboxConfig{Network: c.base.Network, Egress: c.base.Egress, Resources: c.base.Resources}
		if pull {
			o.Pull = host.PullAlways
		}
		vars, err := args.list()
		if err != nil {
			return err
		}
		o.Args = container.Variables(vars)
		if o.File == "" {
			o.File = filepath.Join(dirs[0], "Dockerfile")
		}
		for _, p := range []struct {
			to   *string
			from string
		}{{&o.Dir, dirs[0]}, {&o.File, o.File}} {
			if *p.to, err = filepath.Abs(p.from); err != nil {
				return err
			}
		}
		o.Shown = o.File
		if o.Names, err = container.ImageNames(tags); err != nil {
			return err
		}
		c.Quiet = c.Quiet || quiet
		id, err := build.Image(c.ctx, c.Host, c.rt, o)
		if err != nil {
			return err
		}
		return c.print(container.Built(id, tags, quiet))
	}
}
