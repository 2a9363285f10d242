package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wolffia/internal/config"
	"wolffia/local"
	"wolffia/runtime"
)

// parseLifetime reads a flag that has a lifetime, or 0 for none.
func parseLifetime(flag, s string) (time.Duration, error) {
	d, err := parseDuration(flag, s)
	if err != nil {
		return 0, err
	}
	if err := runtime.CheckLifetime(d); err != nil {
		return 0, runtime.Errorf(runtime.ErrInvalid, "--%s %q: %w", flag, s, err)
	}
	return d, nil
}

// parseDuration reads a flag that has a duration: a plain number is seconds, d is days.
func parseDuration(flag, s string) (time.Duration, error) {
	d, err := config.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	text := err.Error()
	if flag == idleFlag { // which has no zero
		text = strings.TrimSuffix(text, config.OrNone)
	}
	return 0, runtime.Errorf(runtime.ErrInvalid, "--%s %q: %s", flag, s, text)
}

func (a *app) touchCommand() *cobra.Command {
	var ttl string
	cmd := &cobra.Command{
		Use:   "touch [--ttl D] SANDBOX...",
		Short: "Renew sandboxes that have a lifetime",
		Long: `Renew sandboxes that have a lifetime: their idle time begins anew. With --ttl also
their time to live, whatever it was, is this much from now on; 0: they have none
any more. With --ttl they need not run.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("ttl") {
				return a.each(cmd, args, func(ctx context.Context, rt *local.Runtime, ref string) error {
					return rt.Touch(ctx, ref)
				})
			}
			d, err := parseLifetime("ttl", ttl)
			if err != nil {
				return err
			}
			return a.each(cmd, args, func(ctx context.Context, rt *local.Runtime, ref string) error {
				_, err := rt.Renew(ctx, ref, d)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&ttl, "ttl", "", "the time to live from now on (90s, 5m, 7d); 0: none")
	return cmd
}

func (a *app) pruneCommand() *cobra.Command {
	var stopped, asJSON bool
	cmd := &cobra.Command{
		Use:   "prune [--stopped]",
		Short: "Destroy sandboxes that are dead, or whose lifetime is over",
		Long: `Destroy sandboxes that are dead, whose lifetime is over, or that were left half
made or half destroyed; with --stopped also those that were stopped. None that runs,
that somebody is just starting, or that has changes which were not applied (--cow) or snapshots. Prints the ids of what was destroyed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			pruned, err := rt.Prune(cmd.Context(), stopped)
			if asJSON {
				if perr := a.printJSON(append([]runtime.Pruned{}, pruned...)); perr != nil {
					return perr
				}
				return err
			}
			for _, p := range pruned {
				fmt.Fprintln(a.out, p.ID)
			}
			if stopped {
				err = errors.Join(err, a.tellCopied(cmd.Context(), rt))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&stopped, "stopped", false, "also those that were stopped")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	return cmd
}

// tellCopied says which sandboxes that do not run stay, since they have changes or snapshots.
func (a *app) tellCopied(ctx context.Context, rt *local.Runtime) error {
	all, err := rt.List(ctx)
	for _, s := range all {
		if s.CopyOnWrite && (s.State == runtime.StateStopped || s.State == runtime.StateDead) {
			a.warn("sandbox %[1]s stays, since it may have changes that were not applied, or snapshots: wolffia diff %[1]s; snapshot ls %[1]s; rm -f %[1]s", s.ContainerName())
		}
	}
	return err
}

// until is how long it is until a time, in ms since 1970, for a person; - if that
// is never.
func until(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return span(max(0, time.Until(time.UnixMilli(ms))))
}
