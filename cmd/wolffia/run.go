package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/attach"
	"wolffia/cmd/wolffia/internal/hint"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/review"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/fields"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// runFlags are the flags of run.
type runFlags struct {
	flags sandboxflags.Sandbox
	log   auditFlags
	json  bool // print the result as JSON; run has a flag of the table for it
	// report, if not nil, returns what --json has beside the result; the sandbox still exists.
	report func(ctx context.Context, rt *local.Runtime, id string) any
	// known when the command has ended
	config *runtime.SandboxConfig
	result *runtime.Result // nil: nothing ran, or --json
}

func (f *runFlags) add(h *host.Host, cmd *cobra.Command, is fields.Command) {
	cmd.Flags().SetInterspersed(false)
	f.flags.Add(h, cmd, is)
}

func runCommand(h *host.Host) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [--] CMD [ARG...]",
		Short: "Create a sandbox, run a command in it, destroy it",
		Long: `Create a sandbox, run a command in it, destroy it.

It shows the git repository around the current directory, filtered, at its own path;
without one the outermost workspace (go.work, package.json, ...), or the current
directory, which --codebase . shows alone. The home directory, /tmp and directories of
the system need --codebase DIR. --no-codebase shows none.

The command gets wolffia's standard output and error, and its standard input if that
is a terminal, or with -i; else its input is empty. wolffia exits with the command's
exit code. Signals are passed on; a second SIGTERM or SIGHUP ends wolffia, and the
sandbox with it. If wolffia is killed, the sandbox ends too. With --image the command
may be left out: then the image's own runs, without a codebase.`,
		Example: `  wolffia run -- sh -c 'ls -la; git status'
  wolffia run --preset read-only --timeout 5m -- make test
  echo hello | wolffia run -i -- cat
  wolffia run -- bash`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(h, cmd, args, func(context.Context, *local.Runtime, string) error { return nil })
		},
	}
	f.add(h, cmd, fields.Run)
	return cmd
}

// run creates a sandbox, runs a command in it, and destroys it. It calls ended when the command
// has ended, while the sandbox still exists.
func (f *runFlags) run(h *host.Host, cmd *cobra.Command, args []string, ended func(ctx context.Context, rt *local.Runtime, id string) error) error {
	flags := &f.flags
	if len(args) == 0 && flags.Text("image") == "" {
		return usage.Errorf(cmd, "needs CMD")
	}
	asJSON := f.json || flags.Truth("json")
	if err := checkTTY(h, flags.Truth("tty"), asJSON); err != nil {
		return err
	}
	limit, err := sandboxflags.ParseTimeout(flags.Text("timeout"))
	if err != nil {
		return err
	}
	rt, err := h.OpenAndPrime(flags.Text("runtime"))
	if err != nil {
		return err
	}
	if len(args) == 0 && flags.Text("codebase") == "" {
		// the image's own command works in a directory of the image
		flags.Values = flags.With("no-codebase", true)
	}
	defer flags.Undo(cmd.Context(), h)
	config, err := flags.Config(cmd.Context(), h)
	if err != nil {
		return err
	}
	config.BoundToCaller = true
	f.config = config
	ends := review.Flags{Apply: flags.Text("apply")}
	if err := ends.Check(config.CopyOnWrite); err != nil {
		return err
	}
	if len(args) == 0 {
		args = flags.Command
	}
	if len(args) == 0 && host.Lacks(flags.Text("runtime"), launch.StoreImages) {
		if args, err = rt.ImageCommand(cmd.Context(), config); err != nil {
			return err
		}
	}
	if len(args) == 0 {
		return usage.Errorf(cmd, "needs CMD, since image %s has no command of its own", flags.Text("image"))
	}
	if err := f.log.open(config, flags.Text("audit")); err != nil {
		return err
	}
	id, err := flags.Launch(cmd.Context(), h, rt, config)
	if err != nil {
		return err
	}
	typed := h.Typed()
	spec := &runtime.Command{Command: args, OpenStdin: (typed || flags.Truth("interactive")) && h.Readable(), TTY: h.IsTerminal(), Timeout: limit}
	var end error
	client := attach.New(h, rt)
	if asJSON {
		// a terminal has no end that the user did not type
		spec.OpenStdin, spec.TTY = spec.OpenStdin && !typed, false
	}
	hint.WarnKeys(h.Console, spec, "call run at a terminal, without --json")
	if asJSON {
		if f.report != nil {
			client.Report = func() any { return f.report(cmd.Context(), rt, id) }
		}
		end = client.ExecJSON(cmd.Context(), id, true, spec)
	} else {
		client.TellServers, client.PublishServers = flags.Servers(h.IsTerminal())
		end = client.Exec(cmd.Context(), id, true, spec)
		f.result = client.Result
		hint.WarnNoCodebase(h.Console, config, end)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), review.DestroyLimit)
	defer cancel()
	written := errors.Join(ended(ctx, rt, id), f.log.write(ctx, h, rt, id))
	return h.Alongside(end, errors.Join(written, review.New(h, rt).End(cmd.Context(), id, config.CopyOnWrite, &ends, end != nil)))
}

// A creation is what --json prints of a new sandbox.
type creation struct {
	SandboxID string               `json:"sandboxId"`
	Name      string               `json:"name"`
	Codebase  string               `json:"codebase,omitempty"`
	Limits    *runtime.LimitsState `json:"limits,omitempty"`
}

func createCommand(h *host.Host) *cobra.Command {
	var flags sandboxflags.Sandbox
	cmd := &cobra.Command{
		Use:   "create [flags]",
		Short: "Create and start a sandbox; print its id",
		Example: `  id=$(wolffia create --label team=h)
  wolffia exec "$id" -- make test
  wolffia rm -f "$id"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := h.OpenAndPrime(flags.Text("runtime"))
			if err != nil {
				return err
			}
			flags.Links = true
			defer flags.Undo(cmd.Context(), h)
			config, err := flags.Config(cmd.Context(), h)
			if err != nil {
				return err
			}
			id, err := flags.Launch(cmd.Context(), h, rt, config)
			if err != nil {
				return err
			}
			if flags.Truth("json") {
				return h.PrintJSON(&creation{id, config.Name, config.CodebasePath, rt.Limits(id)})
			}
			_, err = h.Out.WriteString(id + "\n")
			return err
		},
	}
	flags.Add(h, cmd, fields.Create)
	return cmd
}
