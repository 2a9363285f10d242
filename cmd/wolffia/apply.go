package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"wolffia/local"
	"wolffia/runtime"
)

func (a *app) applyCommand() *cobra.Command {
	var dry, force, asJSON bool
	var branch string
	cmd := &cobra.Command{
		Use:   "apply [flags] SANDBOX [PATH...]",
		Short: "Make on the host what a sandbox with --cow has changed",
		Long: `Make on the host what a sandbox with --cow has changed: all of it, or what is at and
below the paths, which begin at the top of the codebase. The sandbox may run, and goes on
from what was applied.

If the host has changed one of the files meanwhile, or the rules do not allow a change,
nothing is done: the exit code is 1 for such a conflict, 2 for the rules, 125 if something
failed. --force overwrites what the host has changed, and leaves out what the rules do not
allow, for which the exit code is 2 as well.

Git's own files are never applied. With --git the commits of the sandbox's branches become
branches here, wolffia/SANDBOX/BRANCH, in each repository that is here too; --git=BRANCH
takes what the sandbox is at as BRANCH.`,
		Example: `  wolffia apply --dry-run box
  wolffia apply box src/ README.md
  wolffia apply --git=fix-login box`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			git := cmd.Flags().Changed("git")
			if git && len(args) > 1 {
				return usageError(cmd, "--git takes all commits: leave PATH out")
			}
			rt, s, paths, err := a.copiedSandbox(cmd.Context(), args)
			if err != nil {
				return err
			}
			if git {
				return a.applyGit(cmd.Context(), rt, s, branch, dry)
			}
			res, err := rt.Apply(cmd.Context(), s.ID, runtime.ApplyOptions{Paths: paths, DryRun: dry, Force: force})
			if asJSON {
				return a.applyJSON(res, dry, err)
			}
			return a.applied(s, res, dry, err)
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&dry, "dry-run", "n", false, "print what would be done")
	fl.BoolVar(&force, "force", false, "overwrite what the host has changed meanwhile")
	fl.BoolVar(&asJSON, "json", false, "print a JSON object")
	fl.StringVar(&branch, "git", "", "take the commits of the sandbox in place of files; with a name, what it is at as that branch")
	fl.Lookup("git").NoOptDefVal = allBranches
	a.addQuiet(cmd)
	return cmd
}

// allBranches is the value of --git without a name. No branch is called so.
const allBranches = "*"

// applied prints what Apply has done and left, and returns the exit status.
func (a *app) applied(s *runtime.Sandbox, res *runtime.ApplyResult, dry bool, err error) error {
	if res == nil {
		return err
	}
	w := bufio.NewWriter(a.out)
	printNames(w, res.Applied)
	if ferr := w.Flush(); ferr != nil {
		return errors.Join(err, ferr)
	}
	left, git := withoutGit(res.Left)
	done := "applied"
	if dry {
		done = "would be applied"
	}
	switch {
	case len(res.Applied) > 0 && !a.quiet:
		fmt.Fprintf(a.err, "wolffia: %s: %s\n", done, countText(res.Applied))
	case len(left) == 0 && err == nil && !a.quiet:
		fmt.Fprintln(a.err, "wolffia: nothing to apply")
	}
	if len(left) > 0 && !a.quiet {
		fmt.Fprintf(a.err, "wolffia: left: %s\n", countText(left))
		e := bufio.NewWriter(a.err)
		printNames(e, left)
		_ = e.Flush()
	}
	if git && !a.quiet {
		fmt.Fprintf(a.err, "wolffia: git's own files are not applied; commits that the host lacks, if any: wolffia apply --git %s\n", s.ContainerName())
	}
	if err == nil {
		return nil
	}
	status := applyStatus(err)
	if errors.As(status, new(exitStatus)) {
		fmt.Fprintln(a.err, "wolffia:", printable(err.Error()))
	}
	return status
}

// An applyOutput is what apply --json prints.
type applyOutput struct {
	Applied []runtime.Change `json:"applied"`
	Left    []runtime.Change `json:"left"`
	DryRun  bool             `json:"dryRun,omitempty"`
	Error   string           `json:"error,omitempty"`
}

func (a *app) applyJSON(res *runtime.ApplyResult, dry bool, err error) error {
	if res == nil {
		return err
	}
	out := applyOutput{Applied: []runtime.Change{}, Left: []runtime.Change{}, DryRun: dry}
	out.Applied, out.Left = append(out.Applied, res.Applied...), append(out.Left, res.Left...)
	if err != nil {
		out.Error = err.Error()
	}
	return errors.Join(a.printJSON(out), applyStatus(err))
}

func (a *app) forkCommand() *cobra.Command {
	var name string
	var start bool
	cmd := &cobra.Command{
		Use:   "fork [--name NAME] SANDBOX",
		Short: "Make a sandbox with the changes of one with --cow; print its id",
		Long: `Make a sandbox with the configuration and the changes of one with --cow, as they are at
one moment, start it, and print its id. From then on neither sees the other's changes.
Processes and sessions are not copied.`,
		Example: `  try=$(wolffia fork --name try box)`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			s, err := rt.Fork(cmd.Context(), args[0], name)
			if err != nil {
				return err
			}
			if start {
				if err := rt.Start(cmd.Context(), s.ID); err != nil {
					return errors.Join(err, rt.Destroy(context.WithoutCancel(cmd.Context()), s.ID))
				}
			}
			_, err = a.out.WriteString(s.ID + "\n")
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name the new sandbox")
	cmd.Flags().BoolVar(&start, "start", true, "start it")
	return cmd
}

// reviewed calls do with a runtime and the sandbox that args begin with.
func (a *app) reviewed(cmd *cobra.Command, args []string, do func(ctx context.Context, rt *local.Runtime, id string) error) error {
	rt, s, _, err := a.copiedSandbox(cmd.Context(), args[:1])
	if err != nil {
		return err
	}
	return do(cmd.Context(), rt, s.ID)
}

func (a *app) snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot create|ls|restore|rm SANDBOX [NAME]",
		Short: "Keep, and restore, the changes of a sandbox with --cow",
	}
	var f format
	ls := &cobra.Command{
		Use: "ls SANDBOX", Short: "List the snapshots of a sandbox, oldest first", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reviewed(cmd, args, func(ctx context.Context, rt *local.Runtime, id string) error {
				all, err := rt.Snapshots(ctx, id)
				if err != nil {
					return err
				}
				if all == nil {
					all = []runtime.Snapshot{}
				}
				t := table[runtime.Snapshot]{head: "NAME\tAGE", row: func(s runtime.Snapshot) []any { return []any{printable(s.Name), age(s.CreatedAt)} }}
				return t.print(a, f, all)
			})
		},
	}
	f.flags(ls)
	cmd.AddCommand(
		&cobra.Command{
			Use: "create SANDBOX NAME", Short: "Keep a copy of the changes as they are at one moment", Args: cobra.ExactArgs(2),
			Long: `Keep a copy of the changes as they are at one moment. The sandbox may run. The copy takes
the room of the changed files, or none on file systems that share blocks (btrfs, XFS).`,
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.reviewed(cmd, args, func(ctx context.Context, rt *local.Runtime, id string) error {
					_, err := rt.Snapshot(ctx, id, args[1])
					return err
				})
			},
		},
		ls,
		&cobra.Command{
			Use: "restore SANDBOX NAME", Short: "Replace the changes of a stopped sandbox by a snapshot, which is kept", Args: cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.reviewed(cmd, args, func(ctx context.Context, rt *local.Runtime, id string) error { return rt.Restore(ctx, id, args[1]) })
			},
		},
		&cobra.Command{
			Use: "rm SANDBOX NAME...", Short: "Delete snapshots", Args: cobra.MinimumNArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.reviewed(cmd, args, func(ctx context.Context, rt *local.Runtime, id string) error {
					var errs []error
					for _, name := range args[1:] {
						errs = append(errs, rt.RemoveSnapshot(ctx, id, name))
					}
					return errors.Join(errs...)
				})
			},
		},
	)
	return cmd
}
