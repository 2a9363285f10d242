package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"wolffia/fusefs/audit"
	"wolffia/runtime"
)

func (a *app) auditCommand() *cobra.Command {
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "audit [-f] [--json] SANDBOX",
		Short: "Print what was denied in the codebase and the network",
		Long: `Print what a sandbox was denied in its codebase and, with --network filtered, in its
network: the time, the operation, the path or host, what decided, and the command that
would allow it. The sandbox need not run.

A denial that is repeated within a few seconds has one more line, with a count. A
refusal by the kernel because of a file's mode, such as a write to a file that may be
read, is recorded if the caller's system call shows what it wanted. A hidden file is
recorded when it is asked for by name, not when it is left out of a listing.`,
		Example: `  wolffia audit box
  wolffia audit -f --json box | jq -r .remedy`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			s, err := rt.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if s.Filter == runtime.FilterStatic || s.Filter == runtime.FilterNone {
				a.warn("sandbox %s has filter %s, which logs nothing: its denials are the kernel's", s.ContainerName(), s.Filter)
			}
			log, alive, err := rt.Audit(cmd.Context(), s.ID)
			if err != nil {
				return err
			}
			defer log.Close()
			out := bufio.NewWriter(a.out)
			each := func(r audit.Record) error {
				add := a.addTo(s.ContainerName())
				if r.Host != nil {
					add = a.allowTo(s.ContainerName())
				}
				if err := printRecord(out, &r, asJSON, add); err != nil || !follow {
					return err
				}
				return out.Flush()
			}
			if follow {
				err = log.Follow(cmd.Context(), alive, each)
				if errors.Is(err, context.Canceled) {
					err = nil // that is how it ends
				}
			} else {
				err = printAll(log, each)
			}
			err = errors.Join(err, out.Flush())
			if n := log.Skipped(); n > 0 {
				a.warn("%d lines of the audit log are damaged and left out", n)
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the sandbox is removed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object on each line")
	return cmd
}

// printAll prints what there is.
func printAll(log *audit.Logs, each func(audit.Record) error) error {
	for {
		r, err := log.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(r)
		}
		if err != nil {
			return err
		}
	}
}

// printRecord prints one line. remedy is what precedes the flag that would allow it in text.
func printRecord(out *bufio.Writer, r *audit.Record, asJSON bool, remedy string) error {
	line := r.Append(nil)
	if !asJSON {
		line = []byte(r.Text(time.Local, remedy))
	}
	_, err := out.Write(append(line, '\n'))
	return err
}
