package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"wolffia/fields"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// destroyLimit is how long run takes at most to clean up when it is done.
const destroyLimit = 30 * time.Second

// runFlags are the flags of run.
type runFlags struct {
	box boxFlags
	log auditFlags
}

func (f *runFlags) add(a *app, cmd *cobra.Command, is fields.Command) {
	cmd.Flags().SetInterspersed(false)
	f.box.add(a, cmd, is)
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [--] CMD [ARG...]",
		Short: "Create a sandbox, run a command in it, destroy it",
		Long: `Create a sandbox, run a command in it, destroy it.

It shows the current directory, filtered, at its own path; not the home directory,
/tmp or a directory of the system, but for --codebase DIR. --no-codebase shows none.

The command gets wolffia's standard output and error, and its standard input if that
is a terminal, or with -i; else its input is empty. wolffia exits with the command's
exit code. Signals are passed on; a second SIGTERM or SIGHUP ends wolffia, and the
sandbox with it. If wolffia is killed, the sandbox ends too. With --image the command
may be left out: then the image's own runs, without the current directory.`,
		Example: `  wolffia run -- sh -c 'ls -la; git status'
  wolffia run --preset read-only --timeout 5m -- make test
  echo hello | wolffia run -i -- cat
  wolffia run -- bash`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd, &f, args, func(context.Context, *local.Runtime, string) error { return nil })
		},
	}
	f.add(a, cmd, fields.Run)
	return cmd
}

// run creates a sandbox, runs a command in it, and destroys it. It calls ended when the command
// has ended, while the sandbox still exists.
func (a *app) run(cmd *cobra.Command, f *runFlags, args []string, ended func(ctx context.Context, rt *local.Runtime, id string) error) error {
	box := &f.box
	if len(args) == 0 && box.Text("image") == "" {
		return usageError(cmd, "needs CMD")
	}
	asJSON := box.Truth("json")
	if err := a.checkTTY(box.Truth("tty"), asJSON); err != nil {
		return err
	}
	limit, err := parseTimeout(box.Text("timeout"))
	if err != nil {
		return err
	}
	rt, err := a.openEarly(box.Text("runtime"))
	if err != nil {
		return err
	}
	if len(args) == 0 && box.Text("codebase") == "" {
		box.Values = box.With("no-codebase", true) // the image's own command works in a directory of the image
	}
	defer box.undo(cmd.Context(), a)
	config, err := box.config(cmd.Context(), a)
	if err != nil {
		return err
	}
	config.BoundToCaller = true
	review := reviewFlags{apply: box.Text("apply")}
	if err := review.check(config.CopyOnWrite); err != nil {
		return err
	}
	if len(args) == 0 {
		args = box.command
	}
	if len(args) == 0 && lacks(box.Text("runtime"), launch.StoreImages) {
		if args, err = rt.ImageCommand(cmd.Context(), config); err != nil {
			return err
		}
	}
	if len(args) == 0 {
		return usageError(cmd, "needs CMD, since image %s has no command of its own", box.Text("image"))
	}
	if err := f.log.open(config, box.Text("audit")); err != nil {
		return err
	}
	id, err := box.launch(cmd.Context(), a, rt, config)
	if err != nil {
		return err
	}
	typed := term.IsTerminal(int(a.in.Fd()))
	spec := &runtime.Command{Command: args, OpenStdin: (typed || box.Truth("interactive")) && a.readable(), TTY: a.isTerminal(), Timeout: limit}
	var end error
	if asJSON {
		spec.OpenStdin, spec.TTY = spec.OpenStdin && !typed, false // a terminal has no end that the user did not type
	}
	a.warnKeys(spec, "call run at a terminal, without --json")
	if asJSON {
		end = a.execJSON(cmd.Context(), rt, id, true, spec)
	} else {
		end = a.exec(cmd.Context(), rt, id, true, spec)
		a.warnNoCodebase(config, end)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), destroyLimit)
	defer cancel()
	written := errors.Join(ended(ctx, rt, id), f.log.write(ctx, a, rt, id))
	return a.alongside(end, errors.Join(written, a.end(cmd.Context(), rt, id, config.CopyOnWrite, &review, end != nil)))
}

// end destroys a sandbox whose command has ended, as failed or not. It is stopped instead if it is copied and has changes that
// are neither applied nor discarded, or if something of git's stays inside.
func (a *app) end(ctx context.Context, rt *local.Runtime, id string, copied bool, f *reviewFlags, failed bool) error {
	decide := a.endGit
	if copied {
		decide = func(ctx context.Context, rt *local.Runtime, id string) (bool, func() error, error) {
			return a.review(ctx, rt, id, f, failed)
		}
	}
	keep, tell, err := decide(ctx, rt, id)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyLimit) // from now on: the user has thought
	defer cancel()
	if keep {
		stopped := rt.Stop(ctx, id)
		return errors.Join(err, stopped, tell())
	}
	gone := a.destroy(ctx, rt, id)
	if errors.Is(gone, runtime.ErrNotFound) { // it has ended by itself, and was swept up
		gone = nil
	}
	return errors.Join(err, gone, tell())
}

// A creation is what --json prints of a new sandbox.
type creation struct {
	SandboxID string               `json:"sandboxId"`
	Name      string               `json:"name"`
	Codebase  string               `json:"codebase,omitempty"`
	Limits    *runtime.LimitsState `json:"limits,omitempty"`
}

func (a *app) createCommand() *cobra.Command {
	var box boxFlags
	cmd := &cobra.Command{
		Use:   "create [flags]",
		Short: "Create and start a sandbox; print its id",
		Example: `  id=$(wolffia create --label team=a)
  wolffia exec "$id" -- make test
  wolffia rm -f "$id"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := a.openEarly(box.Text("runtime"))
			if err != nil {
				return err
			}
			box.links = true
			defer box.undo(cmd.Context(), a)
			config, err := box.config(cmd.Context(), a)
			if err != nil {
				return err
			}
			id, err := box.launch(cmd.Context(), a, rt, config)
			if err != nil {
				return err
			}
			if box.Truth("json") {
				return a.printJSON(&creation{id, config.Name, config.CodebasePath, rt.Limits(id)})
			}
			_, err = a.out.WriteString(id + "\n")
			return err
		},
	}
	box.add(a, cmd, fields.Create)
	return cmd
}

// createAndStart creates and starts a sandbox, or leaves nothing. It warns of what
// the user may not expect.
func (a *app) createAndStart(ctx context.Context, rt *local.Runtime, config *runtime.SandboxConfig) (id string, err error) {
	a.heeding.Wait()
	box, err := runtime.Launch(ctx, rt, config)
	if err != nil {
		return "", err
	}
	if config.Resources.Limited() {
		a.warnLimits(rt.Limits(box.ID()))
	}
	if config.Filter == runtime.FilterStatic {
		a.warnStatic(ctx, rt, box.ID())
	}
	return box.ID(), nil
}
