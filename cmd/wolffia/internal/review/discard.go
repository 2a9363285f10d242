package review

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/history"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/runtime"
)

// DiscardCommand returns the command discard.
func DiscardCommand(h *host.Host) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "discard [--yes] SANDBOX [PATH...]",
		Short: "Take back what a sandbox with --cow has changed",
		Long: `Take back what a sandbox with --cow has changed: all of it, or what is at and below the
paths, which begin at the top of the codebase. Inside is then what the host has. At a
terminal it asks first if no path is given. Commits made inside go with all of it, with
.git, or with the directory of a repository: if the host does not have them it asks, and
fails where it cannot ask. --yes does it without a question.`,
		Example: `  wolffia discard box build/
  wolffia discard --yes box`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, s, paths, err := copiedSandbox(cmd.Context(), h, args)
			if err != nil {
				return err
			}
			return New(h, rt).discard(cmd.Context(), s, paths, yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	h.AddQuiet(cmd)
	return cmd
}

// discard discards the changes at and below paths, or all without paths. It asks before, or
// refuses, unless yes is set.
func (rv *Reviewer) discard(ctx context.Context, s *runtime.Sandbox, paths []string, yes bool) error {
	all, err := rv.rt.Changes(ctx, s.ID, runtime.ChangesOptions{Paths: paths})
	if err != nil {
		return err
	}
	d := discarded{changes: all}
	d.shown, d.git = WithoutGit(all)
	if !yes && d.git {
		n, below, err := rv.commitsIn(ctx, s, all)
		if err != nil {
			rv.Warn("%s", console.Printable(err.Error()))
		}
		if d.commits = n; err != nil || below > 0 {
			d.commits = -1
		}
	}
	switch {
	case yes || len(all) == 0:
	case rv.Asks() && (len(paths) == 0 || d.commits != 0):
		if ok, err := rv.Agrees(ctx, "Discard "+d.question()+"? [y/N] "); err != nil || !ok {
			return err
		}
	case d.commits != 0:
		return runtime.Errorf(runtime.ErrConflict, "discard would take commits of sandbox %[1]s along, %[2]s: take them first with wolffia apply --git %[1]s, or wolffia cp for a repository that was made inside, or discard with --yes", s.ContainerName(), d.commitsText())
	}
	end := rv.During("discard the changes")
	n, err := rv.rt.Discard(ctx, s.ID, paths)
	end()
	if n > 0 {
		rv.Note("discarded: %s", d.result(n))
		rv.record(history.KindDiscard, s, n, paths)
	}
	return err
}

// A discarded is what discard takes back.
type discarded struct {
	changes []runtime.Change
	shown   []runtime.Change // but git's own files
	git     bool             // there are such
	commits int              // that the host does not have; -1: not known
}

func (d *discarded) commitsText() string {
	switch d.commits {
	case -1:
		return "which the host may not have"
	case 1:
		return "1 that the host does not have"
	}
	return fmt.Sprintf("%d that the host does not have", d.commits)
}

// question says what is to be discarded.
func (d *discarded) question() string {
	var parts []string
	if len(d.shown) > 0 {
		parts = append(parts, countText(d.shown))
	}
	if d.commits != 0 {
		parts = append(parts, "commits, "+d.commitsText())
	}
	if len(parts) == 0 {
		parts = append(parts, GitsFiles)
	}
	return strings.Join(parts, "; and ")
}

// GitsFiles are what git writes without a commit, such as its index.
const GitsFiles = "what git has noted, no commits"

// result says what was discarded: n changes, with those of git's own files.
func (d *discarded) result(n int) string {
	var parts []string
	if n -= len(d.changes) - len(d.shown); n > 0 {
		parts = append(parts, changesText(n))
	}
	switch {
	case d.commits > 0:
		parts = append(parts, console.Counted(d.commits, "commit"))
	case d.git:
		parts = append(parts, "git's own files")
	}
	return strings.Join(parts, "; ")
}
