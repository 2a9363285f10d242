package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/local"
	"wolffia/runtime"
)

func startCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "start SANDBOX...",
		Short: "Start sandboxes that are stopped or dead",
		Args:  cobra.MinimumNArgs(1),
		RunE: h.Each(func(ctx context.Context, rt *local.Runtime, ref string) error {
			defer h.During("start the sandbox")()
			return rt.Start(ctx, ref)
		}),
	}
}

func stopCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "stop SANDBOX...",
		Short: "End the processes of sandboxes; keep the sandboxes",
		Long: `End the processes of sandboxes, with SIGTERM and two seconds later by force.
What they wrote to the codebase stays, what they wrote to temporary file systems
such as /tmp goes. wolffia start starts them again.`,
		Args: cobra.MinimumNArgs(1),
		RunE: h.Each(func(ctx context.Context, rt *local.Runtime, ref string) error {
			if r, err := rt.SyncGit(ctx, ref); err == nil {
				h.Notes(r.Lines...)
			} // else Stop says what is wrong
			return rt.Stop(ctx, ref)
		}),
	}
}

func pauseCommand(h *host.Host) *cobra.Command {
	var hibernate bool
	cmd := &cobra.Command{
		Use:   "pause [--hibernate] SANDBOX...",
		Short: "Have the processes of sandboxes stand still",
		Long: `Have the processes of sandboxes stand still until wolffia resume. What they have
in memory stays, and so do open connections. Time-outs of commands and the idle
timeout do not count meanwhile, the time to live does. Commands, sessions, files
and ports are refused until then; diff and apply work, and stop and rm end it.

With bubblewrap the sandbox needs a control group of its own: one that has
limits, or was made with --idle-action pause, has it.

With --hibernate their memory goes to the disk, and the processes end. The next
command, resume or start brings them back. stop gives the memory up.`,
		Args: cobra.MinimumNArgs(1),
		RunE: h.Each(func(ctx context.Context, rt *local.Runtime, ref string) error {
			if hibernate {
				return rt.Hibernate(ctx, ref)
			}
			return rt.Pause(ctx, ref)
		}),
	}
	cmd.Flags().BoolVar(&hibernate, "hibernate", false, "keep their memory on the disk, and end the processes (--runtime gvisor)")
	return cmd
}

func resumeCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "resume SANDBOX...",
		Short: "Have the processes of paused or hibernated sandboxes run on",
		Args:  cobra.MinimumNArgs(1),
		RunE:  h.Each(func(ctx context.Context, rt *local.Runtime, ref string) error { return rt.Resume(ctx, ref) }),
	}
}

func logsCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "logs SANDBOX",
		Short: "Print the log of a sandbox's own processes",
		Long: `Print what the shim, the tree server, the backend and PID 1 of a sandbox have
written. The output of commands is not in it: the caller of the command gets that.`,
		Args: cobra.ExactArgs(1),
		RunE: h.Over(func(_ context.Context, rt *local.Runtime, args []string) error {
			log, err := rt.Log(args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			const most = 16 << 20 // bytes
			text, err := io.ReadAll(io.LimitReader(log, most))
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(h.Out, console.Printable(string(text)))
			return err
		}),
	}
}

func touchCommand(h *host.Host) *cobra.Command {
	var ttl string
	cmd := &cobra.Command{
		Use:   "touch [--ttl D] SANDBOX...",
		Short: "Renew sandboxes that have a lifetime",
		Long: `Renew sandboxes that have a lifetime: their idle time begins anew. With --ttl also
their time to live, whatever it was, is this much from now on; 0: they have none
any more. With --ttl they need not run.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var d time.Duration
			renew := cmd.Flags().Changed("ttl")
			if renew {
				var err error
				if d, err = sandboxflags.ParseLifetime("ttl", ttl); err != nil {
					return err
				}
			}
			return h.Each(func(ctx context.Context, rt *local.Runtime, ref string) (err error) {
				if !renew {
					return rt.Touch(ctx, ref)
				}
				_, err = rt.Renew(ctx, ref, d)
				return err
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&ttl, "ttl", "", "the time to live from now on (90s, 5m, 7d); 0: none")
	return cmd
}

func pruneCommand(h *host.Host) *cobra.Command {
	var stopped, asJSON bool
	cmd := &cobra.Command{
		Use:   "prune [--stopped]",
		Short: "Destroy sandboxes that are dead, or whose lifetime is over",
		Long: `Destroy sandboxes that are dead, whose lifetime is over, or that were left half
made or half destroyed; with --stopped also those that were stopped. None that runs,
that somebody is just starting, or that has changes which were not applied (--cow), snapshots or kept memory. Prints the ids of what was destroyed.`,
		Args: cobra.NoArgs,
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, _ []string) error {
			pruned, err := rt.Prune(ctx, stopped)
			if asJSON {
				return errors.Join(h.PrintJSON(append([]runtime.Pruned{}, pruned...)), err)
			}
			for _, p := range pruned {
				fmt.Fprintln(h.Out, p.ID)
			}
			if stopped {
				err = errors.Join(err, tellCopied(ctx, h, rt))
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&stopped, "stopped", false, "also those that were stopped")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	return cmd
}

// tellCopied says which sandboxes that do not run stay, since they have changes, snapshots or memory.
func tellCopied(ctx context.Context, h *host.Host, rt *local.Runtime) error {
	all, err := rt.List(ctx)
	for _, s := range all {
		if slices.Contains([]runtime.State{runtime.StateStopped, runtime.StateHibernated, runtime.StateDead}, s.State) {
			h.Warn("sandbox %[1]s stays, since it may have changes that were not applied, snapshots or kept memory: wolffia diff %[1]s, wolffia snapshot ls %[1]s or wolffia rm -f %[1]s", s.ContainerName())
		}
	}
	return err
}
