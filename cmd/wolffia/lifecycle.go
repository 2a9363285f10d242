package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"wolffia/local"
)

// each calls do for every named sandbox, also after an error.
func (a *app) each(cmd *cobra.Command, refs []string, do func(ctx context.Context, rt *local.Runtime, ref string) error) error {
	rt, err := a.open("")
	if err != nil {
		return err
	}
	var errs []error
	for _, ref := range refs {
		if err := do(cmd.Context(), rt, ref); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (a *app) startCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "start SANDBOX...",
		Short: "Start sandboxes that are stopped or dead",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd, args, func(ctx context.Context, rt *local.Runtime, ref string) error {
				return rt.Start(ctx, ref)
			})
		},
	}
}

func (a *app) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop SANDBOX...",
		Short: "End the processes of sandboxes; keep the sandboxes",
		Long: `End the processes of sandboxes, with SIGTERM and two seconds later by force.
What they wrote to the codebase stays, what they wrote to temporary file systems
such as /tmp goes. wolffia start starts them again.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd, args, func(ctx context.Context, rt *local.Runtime, ref string) error {
				if r, err := rt.SyncGit(ctx, ref); err == nil {
					a.noteGit(r.Lines)
				} // else Stop says what is wrong
				return rt.Stop(ctx, ref)
			})
		},
	}
}

func (a *app) logsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logs SANDBOX",
		Short: "Print the log of a sandbox's own processes",
		Long: `Print what the shim, the tree server, the backend and PID 1 of a sandbox have
written. The output of commands is not in it: the caller of the command gets that.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
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
			_, err = fmt.Fprint(a.out, printable(string(text)))
			return err
		},
	}
}
