package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/review"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/cmd/wolffia/internal/worktree"
	"wolffia/local"
	"wolffia/runtime"
)

func rmCommand(h *host.Host) *cobra.Command {
	var force, all, yes bool
	cmd := &cobra.Command{
		Use:   "rm [-f] SANDBOX...",
		Short: "Destroy sandboxes; return when nothing of them is left",
		Long: `Destroy sandboxes; return when nothing of them is left. One that runs, or that has changes
which were not applied (--cow), snapshots or kept memory, is destroyed only with -f. --all destroys all sandboxes and
prints the id of each; at a terminal it asks first, unless --yes is given. It ends the pools too.`,
		Example: `  wolffia rm web
  wolffia rm -f --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			if all {
				return nil
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case yes && !all:
				return usage.Errorf(cmd, "--yes needs --all: without it rm does not ask")
			case all && len(args) > 0:
				return usage.Errorf(cmd, "--all and SANDBOX exclude each other: leave one of them out")
			case all:
				return removeAll(cmd.Context(), h, force, yes)
			}
			return h.Each(func(ctx context.Context, rt *local.Runtime, ref string) error {
				return review.New(h, rt).Remove(ctx, ref, force)
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "also destroy sandboxes that run, have changes or snapshots, and ignore missing ones")
	cmd.Flags().BoolVar(&all, "all", false, "destroy all sandboxes")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "with --all: do not ask")
	return cmd
}

// removeAll destroys all sandboxes, running ones only with force, and prints their ids. It
// asks before at a terminal, unless yes is set.
func removeAll(ctx context.Context, h *host.Host, force, yes bool) error {
	rt, err := h.Open("")
	if err != nil {
		return err
	}
	all, err := rt.List(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return rt.StopPool(ctx)
	}
	var names, running []string
	if !force {
		for _, s := range all {
			if err := review.New(h, rt).Unapplied(ctx, s); err != nil {
				return err
			}
		}
	}
	for _, s := range all {
		names = append(names, s.ContainerName())
		if s.State.Runs() {
			running = append(running, s.ContainerName())
		}
	}
	if len(running) > 0 && !force {
		return runtime.Errorf(runtime.ErrConflict, "%d of %d sandboxes are running (%s): wolffia rm -f --all destroys them too, wolffia prune --stopped only the others",
			len(running), len(all), strings.Join(running, ", "))
	}
	if !yes && h.Asks() {
		if ok, err := h.Agrees(ctx, fmt.Sprintf("Destroy %d sandboxes: %s? [y/N] ", len(all), strings.Join(names, ", "))); err != nil || !ok {
			return err
		}
	}
	errs := []error{rt.StopPool(ctx)}
	for _, s := range all {
		if err := worktree.Destroy(ctx, h, rt, s.ID); err != nil && !errors.Is(err, runtime.ErrNotFound) {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintln(h.Out, s.ID)
	}
	return errors.Join(errs...)
}
