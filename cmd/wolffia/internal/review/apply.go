package review

import (
	"bufio"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/local"
	"wolffia/runtime"
)

// ApplyCommand returns the command apply.
func ApplyCommand(h *host.Host) *cobra.Command {
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
				return usage.Errorf(cmd, "--git takes all commits: leave PATH out")
			}
			rt, s, paths, err := copiedSandbox(cmd.Context(), h, args)
			if err != nil {
				return err
			}
			if git {
				return New(h, rt).applyGit(cmd.Context(), s, branch, dry)
			}
			rv := New(h, rt)
			res, err := rv.apply(cmd.Context(), s, runtime.ApplyOptions{Paths: paths, DryRun: dry, Force: force})
			if asJSON {
				return rv.applyJSON(res, dry, err)
			}
			return rv.applied(s, res, dry, err)
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&dry, "dry-run", "n", false, "print what would be done")
	fl.BoolVar(&force, "force", false, "overwrite what the host has changed meanwhile")
	fl.BoolVar(&asJSON, "json", false, "print a JSON object")
	fl.StringVar(&branch, "git", "", "take the commits of the sandbox in place of files; with a name, what it is at as that branch")
	fl.Lookup("git").NoOptDefVal = allBranches
	h.AddQuiet(cmd)
	return cmd
}

// allBranches is the value of --git without a name. No branch is called so.
const allBranches = "*"

// applied prints what Apply has done and left, and returns the exit status.
func (rv *Reviewer) applied(s *runtime.Sandbox, res *runtime.ApplyResult, dry bool, err error) error {
	if res == nil {
		return err
	}
	w := bufio.NewWriter(rv.Out)
	printNames(w, res.Applied)
	if ferr := w.Flush(); ferr != nil {
		return errors.Join(err, ferr)
	}
	left, git := WithoutGit(res.Left)
	done := "applied"
	if dry {
		done = "would be applied"
	}
	switch {
	case len(res.Applied) > 0:
		rv.Note("%s: %s", done, countText(res.Applied))
	case len(left) == 0 && err == nil:
		rv.Note("nothing to apply")
	}
	if len(left) > 0 && !rv.Quiet {
		rv.Say("left: " + countText(left))
		e := bufio.NewWriter(rv.Err)
		printNames(e, left)
		_ = e.Flush()
	}
	if git {
		rv.Note("git's own files are not applied; commits that the host lacks, if any: wolffia apply --git %s",
			s.ContainerName())
	}
	if err == nil {
		return nil
	}
	status := applyStatus(err)
	if errors.As(status, new(console.ExitStatus)) {
		rv.Fail(err)
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

func (rv *Reviewer) applyJSON(res *runtime.ApplyResult, dry bool, err error) error {
	if res == nil {
		return err
	}
	out := applyOutput{Applied: []runtime.Change{}, Left: []runtime.Change{}, DryRun: dry}
	out.Applied, out.Left = append(out.Applied, res.Applied...), append(out.Left, res.Left...)
	if err != nil {
		out.Error = err.Error()
	}
	return errors.Join(rv.PrintJSON(out), applyStatus(err))
}

// ForkCommand returns the command fork.
func ForkCommand(h *host.Host) *cobra.Command {
	var o runtime.ForkOptions
	var start bool
	cmd := &cobra.Command{
		Use:   "fork [--name NAME] SANDBOX",
		Short: "Make a sandbox with the changes of one with --cow; print its id",
		Long: `Make a sandbox with the configuration and the changes of one with --cow, as they are at
one moment, start it, and print its id. From then on neither sees the other's changes.
Processes and sessions are not copied.`,
		Example: `  try=$(wolffia fork --name try box)`,
		Args:    cobra.ExactArgs(1),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			end := h.During("copy the sandbox")
			all, err := rt.Fork(ctx, args[0], o)
			if err == nil && start {
				err = rt.StartForks(ctx, all)
			}
			if end(); err != nil {
				return err
			}
			for _, s := range all {
				_, err = h.Out.WriteString(s.ID + "\n")
			}
			if o.Memory {
				warnShared(ctx, h, rt, all[0].ID)
			}
			return err
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&o.Name, "name", "", "name the new sandbox; several are NAME-1, NAME-2")
	fl.BoolVar(&start, "start", true, "start it")
	fl.BoolVar(&o.Memory, "memory", false, "fork the processes too, with their memory (--runtime gvisor)")
	fl.IntVarP(&o.Count, "count", "n", 1, "make this many")
	return cmd
}

func snapshotRow(s runtime.Snapshot) []any {
	memory := "-"
	if s.Memory {
		memory = "yes"
	}
	return []any{console.Printable(s.Name), console.Age(s.CreatedAt), memory}
}

// warnShared says what a fork with memory shares with its parent.
func warnShared(ctx context.Context, h *host.Host, rt *local.Runtime, id string) {
	d, err := rt.Inspect(ctx, id)
	if err != nil {
		return // it was removed
	}
	if d.CodebasePath != "" && !d.CopyOnWrite {
		h.Warn("the forks share the codebase %s with the sandbox: a sandbox with --cow has forks with their own", d.CodebasePath)
	}
	if len(d.Config.Volumes)+len(d.Config.Mounts) > 0 {
		h.Warn("the forks share volumes, homes, caches and mounts with the sandbox")
	}
}

// SnapshotCommand returns the command snapshot.
func SnapshotCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot create|ls|restore|rm SANDBOX [NAME]",
		Short: "Keep, and restore, the changes of a sandbox with --cow",
	}
	var o runtime.SnapshotOptions
	create := &cobra.Command{
		Use: "create [--memory] SANDBOX NAME", Args: cobra.ExactArgs(2),
		Short: "Keep a copy of the changes as they are at one moment",
		Long: `Keep a copy of the changes as they are at one moment. The sandbox may run. The copy takes
the room of the changed files, or none on file systems that share blocks (btrfs, XFS).

With --memory also the memory of all processes: start after restore goes on where they stood. It
needs --runtime gvisor, not --cow. The copy holds each secret that the sandbox's memory does.`,
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			defer h.During("copy the changes")()
			_, err := rt.Snapshot(ctx, args[0], args[1], o)
			return err
		}),
	}
	create.Flags().BoolVar(&o.Memory, "memory", false, "keep the memory of all processes too (--runtime gvisor)")
	ls := &cobra.Command{Use: "ls SANDBOX", Short: "List the snapshots of a sandbox, oldest first", Args: cobra.ExactArgs(1)}
	cmd.AddCommand(
		create,
		host.List(h, ls, &console.Table[runtime.Snapshot]{Head: "NAME\tAGE\tMEMORY", Row: snapshotRow}, func(ctx context.Context, rt *local.Runtime, args []string) ([]runtime.Snapshot, error) {
			return rt.Snapshots(ctx, args[0])
		}),
		&cobra.Command{
			Use: "restore SANDBOX NAME", Short: "Replace the changes of a stopped sandbox by a snapshot, which is kept", Args: cobra.ExactArgs(2),
			RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
				defer h.During("copy the snapshot")()
				return rt.Restore(ctx, args[0], args[1])
			}),
		},
		&cobra.Command{
			Use: "rm SANDBOX NAME...", Short: "Delete snapshots", Args: cobra.MinimumNArgs(2),
			RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
				return errors.Join(host.Mapped(args[1:], func(name string) error { return rt.RemoveSnapshot(ctx, args[0], name) })...)
			}),
		},
	)
	return cmd
}
