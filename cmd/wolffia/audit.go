package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/history"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/cmd/wolffia/internal/why"
	"wolffia/fusefs/audit"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/hostpath"
	"wolffia/local"
	"wolffia/runtime"
)

func auditCommand(h *host.Host) *cobra.Command {
	var follow, asJSON, last bool
	var since string
	cmd := &cobra.Command{
		Use:   "audit [-f] [--json] SANDBOX | --last | --since WHEN",
		Short: "Print what was denied in the codebase and the network",
		Long: `Print what a sandbox was denied in its codebase and, with --network filtered, in its
network: the time, the operation, the path or host, what decided, and the command that
would allow it. The sandbox need not run.

A denial that is repeated within a few seconds has one more line, with a count. A
refusal by the kernel because of a file's mode, such as a write to a file that may be
read, is recorded if the caller's system call shows what it wanted. A hidden file is
recorded when it is asked for by name, not when it is left out of a listing.

--last and --since print what commands of run, exec, shell and mcp were denied, also in
sandboxes that are gone. They read the history in the state directory, 16 MB at most;
WOLFFIA_HISTORY=off writes none. wolffia audit verify checks it.`,
		Example: `  wolffia audit box
  wolffia audit --since yesterday
  wolffia audit -f --json box | jq -r .remedy`,
		Args: func(cmd *cobra.Command, args []string) error {
			if last || since != "" {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			if last || since != "" {
				return why.Print(h, rt.StateDir(), since, asJSON)
			}
			s, err := rt.Get(ctx, args[0])
			if err != nil {
				return err
			}
			if s.Filter == runtime.FilterStatic || s.Filter == runtime.FilterNone {
				h.Warn("sandbox %s has filter %s, which logs nothing: its denials are the kernel's", s.ContainerName(), s.Filter)
			}
			log, alive, err := rt.Audit(ctx, s.ID)
			if err != nil {
				return err
			}
			defer log.Close()
			out := bufio.NewWriter(h.Out)
			each := func(r audit.Record) error {
				add := h.AddTo(s.ContainerName())
				if r.Host != nil {
					add = h.AllowTo(s.ContainerName())
				}
				if err := printRecord(out, &r, asJSON, add); err != nil || !follow {
					return err
				}
				return out.Flush()
			}
			if follow {
				err = log.Follow(ctx, alive, each)
				if errors.Is(err, context.Canceled) {
					err = nil // that is how it ends
				}
			} else {
				err = byTime(log.Each, each)
			}
			err = errors.Join(err, out.Flush())
			if n := log.Skipped(); n > 0 {
				h.Warn("%d lines of the audit log are damaged and left out", n)
			}
			return err
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the sandbox is removed")
	cmd.Flags().BoolVar(&last, "last", false, "print what the last command was denied that was denied something")
	cmd.Flags().StringVar(&since, "since", "", "print what commands were denied since then: 2h, 3d, today, yesterday, 2026-11-29")
	cmd.MarkFlagsMutuallyExclusive("last", "since", "follow")
	cmd.AddCommand(auditVerifyCommand(h))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object on each line")
	return cmd
}

// byTime calls each with the records of a log in the order of their times: the line of a repeated
// denial is written when the log has later ones.
func byTime(read func(func(audit.Record) error) error, each func(audit.Record) error) error {
	var all []audit.Record
	err := read(func(r audit.Record) error {
		all = append(all, r)
		return nil
	})
	slices.SortStableFunc(all, func(a, b audit.Record) int { return a.Time.Compare(b.Time) })
	for _, r := range all {
		if err := each(r); err != nil {
			return err
		}
	}
	return err
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

// auditFlags are the flags of run about the log of denials.
type auditFlags struct {
	audit string
	file  *os.File
}

// open opens the file, so that it fails before the command runs. The sandbox must not be able
// to have put a link there, nor to change the log.
func (f *auditFlags) open(c *runtime.SandboxConfig, name string) error {
	if f.audit = name; name == "" {
		return nil
	}
	dir, err := filepath.Abs(filepath.Dir(f.audit))
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "--audit: %w", err)
	}
	places, err := hostpath.Places()
	if err != nil {
		return err
	}
	for _, place := range statedir.Changes(&statedir.Config{SandboxConfig: *c}) {
		if real, err := hostdir.RealPath(place); err == nil {
			places = append(places, real)
		}
	}
	_, place, err := hostpath.Resolve(dir, places)
	switch {
	case err != nil:
		return runtime.Errorf(runtime.ErrInvalid, "--audit: %w", err)
	case place != "":
		return runtime.Errorf(runtime.ErrInvalid, "--audit %s: the sandbox could change a file in %s: name a file outside of it", f.audit, place)
	}
	if f.file, err = os.OpenFile(f.audit, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o600); err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "--audit: %w", err)
	}
	if st, err := f.file.Stat(); err == nil && st.Mode().IsRegular() {
		err = f.file.Truncate(0)
		if err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "--audit: %w", err)
		}
	}
	return nil
}

// write writes the log of a sandbox, which it stops first so that the log is complete.
func (f *auditFlags) write(ctx context.Context, h *host.Host, rt *local.Runtime, id string) (err error) {
	if f.file == nil {
		return nil
	}
	defer func() {
		if err = errors.Join(err, f.file.Close()); err != nil {
			err = fmt.Errorf("--audit %s: %w", f.audit, err)
		}
	}()
	if err := rt.Stop(ctx, id); err != nil {
		return err
	}
	log, _, err := rt.Audit(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the sandbox has ended by itself, and with it its log: %w", err)
	}
	if err != nil {
		return err
	}
	defer log.Close()
	out := bufio.NewWriter(f.file)
	err = log.Each(func(r audit.Record) error { return printRecord(out, &r, true, "") })
	if n := log.Skipped(); n > 0 {
		h.Warn("%d lines of the audit log are damaged and left out", n)
	}
	return errors.Join(err, out.Flush())
}

func auditVerifyCommand(h *host.Host) *cobra.Command {
	var head string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify [--head HASH]",
		Short: "Check that no line of the log of what was done was changed",
		Long: `Check the log of what was done: commands of run, exec, shell and mcp, answers to questions,
changes that were applied or discarded. Each line has the hash of the line before, so that one
that was changed, added or taken out shows; the exit code is 1 then.

What the check cannot show: ` + history.Note + `.`,
		Example: `  wolffia audit verify
  wolffia audit verify --head $(cat ~/backup/wolffia-head)`,
		Args: cobra.NoArgs,
		RunE: h.Over(func(_ context.Context, rt *local.Runtime, _ []string) error {
			r, err := history.Verify(rt.StateDir(), head)
			if err != nil {
				return err
			}
			if asJSON {
				err = h.PrintJSON(r)
			} else {
				printReport(h, r)
			}
			if err == nil && !r.OK {
				err = console.ExitStatus(1)
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&head, "head", "", "the log must still have the line with this hash, which an earlier check has printed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// printReport prints what a check of the log has found.
func printReport(h *host.Host, r *history.Report) {
	fmt.Fprintf(h.Out, "%d lines, entries %d to %d\nhead %s\n", r.Lines, r.First, r.Last, console.Dash(r.Head))
	if r.First > 1 {
		h.Warn("entries before %d are in files that were removed: the log keeps the newest 16 MB", r.First)
	}
	if r.Torn > 0 {
		h.Warn("lines that were cut off when their writers were killed: %d", r.Torn)
	}
	if r.Unchained > 0 {
		h.Warn("lines of an older wolffia, without hashes: %d", r.Unchained)
	}
	switch {
	case r.Broken == nil:
		h.Note("%s", history.Note)
	case r.Broken.File == "":
		h.Fail(errors.New(r.Broken.Problem))
	default:
		h.Fail(fmt.Errorf("history/%s, line %d: %s", r.Broken.File, r.Broken.Line, r.Broken.Problem))
	}
}
