package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"wolffia/local"
	"wolffia/runtime"
)

func (a *app) rmCommand() *cobra.Command {
	var force, all, yes bool
	cmd := &cobra.Command{
		Use:   "rm [-f] SANDBOX...",
		Short: "Destroy sandboxes; return when all of it is gone",
		Long: `Destroy sandboxes; return when all of it is gone. One that runs, or that has changes
which were not applied (--cow) or snapshots, is destroyed only with -f. --all destroys all sandboxes and
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
				return usageError(cmd, "--yes needs --all: without it rm does not ask")
			case all && len(args) > 0:
				return usageError(cmd, "--all and SANDBOX exclude each other: leave one of them out")
			case all:
				return a.removeAll(cmd.Context(), force, yes)
			}
			return a.each(cmd, args, func(ctx context.Context, rt *local.Runtime, ref string) error {
				return a.remove(ctx, rt, ref, force)
			})
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "also destroy sandboxes that run, have changes or snapshots, and ignore missing ones")
	cmd.Flags().BoolVar(&all, "all", false, "destroy all sandboxes")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "with --all: do not ask")
	return cmd
}

// remove destroys the sandbox that ref names; one that runs, has changes or snapshots, or does not exist, only
// with force.
func (a *app) remove(ctx context.Context, rt *local.Runtime, ref string, force bool) error {
	s, err := rt.Get(ctx, ref)
	lost := errors.Is(err, runtime.ErrNotFound) // but an engine may have it
	switch {
	case force || lost:
	case err != nil:
		return err
	case s.State == runtime.StateRunning:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is running: wolffia stop it first, or wolffia rm -f", s.ContainerName())
	default:
		if err := unapplied(ctx, rt, s); err != nil {
			return err
		}
	}
	err = a.destroy(ctx, rt, ref)
	if lost && err == nil {
		a.warn("removed what was left of sandbox %s, whose state directory was lost", ref)
	}
	if force && errors.Is(err, runtime.ErrNotFound) {
		if runtime.IsID(ref) {
			return rt.EndSpare(ctx, ref) // ls --all shows spares
		}
		return nil
	}
	return err
}

// removeAll destroys all sandboxes, running ones only with force, and prints their ids. It
// asks before at a terminal, unless yes is set.
func (a *app) removeAll(ctx context.Context, force, yes bool) error {
	rt, err := a.open("")
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
			if err := unapplied(ctx, rt, s); err != nil {
				return err
			}
		}
	}
	for _, s := range all {
		names = append(names, s.ContainerName())
		if s.State == runtime.StateRunning {
			running = append(running, s.ContainerName())
		}
	}
	if len(running) > 0 && !force {
		return runtime.Errorf(runtime.ErrConflict, "%d of %d sandboxes are running (%s): wolffia rm -f --all destroys them too, wolffia prune --stopped only the others",
			len(running), len(all), strings.Join(running, ", "))
	}
	if !yes && term.IsTerminal(int(a.in.Fd())) && term.IsTerminal(int(a.err.Fd())) {
		fmt.Fprintf(a.err, "Destroy %d sandboxes: %s? [y/N] ", len(all), strings.Join(names, ", "))
		if ok, err := a.agrees(ctx); err != nil || !ok {
			return err
		}
	}
	errs := []error{rt.StopPool(ctx)}
	for _, s := range all {
		if err := a.destroy(ctx, rt, s.ID); err != nil && !errors.Is(err, runtime.ErrNotFound) {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintln(a.out, s.ID)
	}
	return errors.Join(errs...)
}

// agrees reads an answer from the terminal and reports whether it is yes.
func (a *app) agrees(ctx context.Context) (bool, error) {
	answer := make(chan string, 1)
	go func() { // ends with a line, or with the program
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case said := <-answer:
		return said == "y" || said == "yes", nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
