package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/internal/jsontext"
	"wolffia/local"
	"wolffia/ops"
	"wolffia/runtime"
)

func sessionJobCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Start, list, read, await and signal background jobs of a session",
		Long: `Start, list, read, await and signal background jobs of a session.

A job is a command that a session runs in the background. It has the session's
variables and functions as of its start, and output of its own, of which the last
MiB of each stream is kept. It outlives its caller, and ends with the session. JOB
is an id, or the name that start gave it.`,
		Example: `  wolffia session job start --name web box dev -- 'make && ./server'
  wolffia session job output -f box dev web
  wolffia session job kill box dev web
  wolffia session job wait box dev web`,
	}
	cmd.AddCommand(jobStartCommand(h), sessionJobsCommand(h, "ls SANDBOX SESSION"), jobOutputCommand(h), jobWaitCommand(h), jobKillCommand(h))
	return cmd
}

func jobStartCommand(h *host.Host) *cobra.Command {
	var name, cwd string
	var env []string
	var noWait, asJSON bool
	cmd := &cobra.Command{
		Use:   "start [flags] SANDBOX SESSION -- CMD [ARG...]",
		Short: "Start a background job; print its id",
		Long: `Start a background job; print its id. A CMD without ARG is text that the shell
evaluates. The session is made on first use. Its shell starts the job, after the
commands that were asked for before.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 2 && args[2] == "--":
				args = append(args[:2], args[3:]...)
			case len(args) > 2 && strings.HasPrefix(args[2], "-"):
				return usage.Errorf(cmd, "%q follows SESSION, where the command begins: write flags before SANDBOX, and -- in front of a command that begins with a dash", args[2])
			}
			if len(args) < 3 {
				return usage.Errorf(cmd, "needs SANDBOX, SESSION and CMD")
			}
			vars, err := sandboxflags.Variables(env)
			if err != nil {
				return err
			}
			rt, err := h.Open("")
			if err != nil {
				return err
			}
			sb, err := runtime.Open(cmd.Context(), rt, args[0])
			if err != nil {
				return err
			}
			session, err := sb.Session(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			j, err := rt.StartJob(cmd.Context(), session.ID(), name, &runtime.Command{Command: []string{textOf(args[2:])}, Env: vars, Cwd: cwd, NoWait: noWait})
			switch {
			case err != nil:
				return err
			case asJSON:
				return h.PrintJSON(j)
			}
			_, err = h.Out.WriteString(console.Printable(j.ID) + "\n")
			return err
		},
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false)
	fl.StringVar(&name, "name", "", "name the job; the newest of a name is meant")
	fl.StringVar(&cwd, "cwd", "", "working directory inside, absolute (default: the session's)")
	fl.StringArrayVarP(&env, "env", "e", nil, "set a variable for the job: K=V, or K to pass the caller's")
	fl.BoolVar(&noWait, "no-wait", false, "fail at once if the session is busy")
	fl.BoolVar(&asJSON, "json", false, "print the job as a JSON object")
	return cmd
}

func jobOutputCommand(h *host.Host) *cobra.Command {
	var follow, asJSON bool
	var stdout, stderr uint64
	cmd := &cobra.Command{
		Use:   "output [flags] SANDBOX SESSION JOB",
		Short: "Print what a job has written",
		Long: `Print what a job has written, on standard output and standard error, as far as it is
kept. Offsets count the bytes of a stream since the job's start: with --json each
answer has the offset at which the next one begins.`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow && asJSON {
				return usage.Errorf(cmd, "--follow and --json exclude each other: leave one of them out")
			}
			rt, err := h.Open("")
			if err != nil {
				return err
			}
			id := runtime.SessionIn(args[0], args[1])
			if asJSON {
				out, err := readJob(cmd.Context(), rt, id, args[2], stdout, stderr)
				if err != nil {
					return err
				}
				return h.PrintJSON(out)
			}
			return copyJob(cmd.Context(), rt, id, args[2], stdout, stderr, follow, h.Out, h.Err)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the output ends")
	cmd.Flags().Uint64Var(&stdout, "stdout-from", 0, "offset in standard output to begin at")
	cmd.Flags().Uint64Var(&stderr, "stderr-from", 0, "offset in standard error to begin at")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// copyJob writes a job's output from the offsets on to out and complaints; with follow until
// the output ends.
func copyJob(ctx context.Context, rt runtime.SessionManager, id runtime.SessionID, job string, stdout, stderr uint64, follow bool, out, complaints io.Writer) error {
	p, err := rt.JobOutput(ctx, id, job, stdout, stderr, follow)
	if err != nil {
		return err
	}
	_, err = ops.Follow(ctx, p, ops.To(out), ops.To(complaints))
	return cmp.Or(ctx.Err(), err)
}

// A jobOutput is what output --json prints. Texts that are not UTF-8 are in the fields that
// end in Bytes too, as base64.
type jobOutput struct {
	ID       string    `json:"id"`
	State    string    `json:"state"`
	ExitCode *int      `json:"exitCode,omitempty"` // nil: unknown, or the job runs
	Stdout   jobStream `json:"stdout"`
	Stderr   jobStream `json:"stderr"`
}

// A jobStream is a part of a job's stream.
type jobStream struct {
	From  uint64 `json:"from"` // offset of the first byte of Text
	Next  uint64 `json:"next"` // offset at which the next part begins
	Text  string `json:"text"`
	Bytes []byte `json:"textBytes,omitempty"`
}

// readJob returns a job's output from the offsets on.
func readJob(ctx context.Context, rt runtime.RuntimeWithSession, id runtime.SessionID, job string, stdout, stderr uint64) (*jobOutput, error) {
	all := ops.Jobs{Runtime: rt, Session: id}
	j, err := all.Get(ctx, job)
	if err != nil {
		return nil, err
	}
	// A job keeps less than this of each stream; a hostile sandbox may send more.
	out, err := all.Output(ctx, j, &stdout, &stderr, runtime.DefaultMaxOutput)
	if err != nil {
		return nil, err
	}
	part := func(p *ops.Part) jobStream {
		text := string(p.Bytes)
		return jobStream{From: p.From, Next: p.Next(), Text: text, Bytes: jsontext.Exact(text)}
	}
	return &jobOutput{ID: j.ID, State: j.State, ExitCode: j.ExitCode, Stdout: part(&out.Stdout), Stderr: part(&out.Stderr)}, nil
}

func jobWaitCommand(h *host.Host) *cobra.Command {
	var timeout string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "wait [--timeout D] SANDBOX SESSION JOB",
		Short: "Wait until a job has ended; exit with its exit code",
		Long: `Wait until a job has ended; exit with its exit code, 125 if that is unknown. After
--timeout the exit code is 124, and the job continues.`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := sandboxflags.ParseTimeout(timeout)
			if err != nil {
				return err
			}
			rt, err := h.Open("")
			if err != nil {
				return err
			}
			ctx, cancel := cmd.Context(), func() {}
			if limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, limit)
			}
			defer cancel()
			exit, err := rt.WaitJob(ctx, runtime.SessionIn(args[0], args[1]), args[2])
			if err != nil && ctx.Err() != nil {
				err = ctx.Err()
			}
			switch {
			case errors.Is(err, context.DeadlineExceeded) && cmd.Context().Err() == nil:
				if asJSON {
					err = h.PrintJSON(&jobEnd{TimedOut: true, ExitCode: console.ExitTimedOut})
				} else {
					h.Sayf("job %s runs on after --timeout %v", console.Printable(args[2]), limit)
					err = nil
				}
				return errors.Join(err, console.ExitStatus(console.ExitTimedOut))
			case err != nil:
				return err
			}
			if asJSON {
				if err := h.PrintJSON(endOf(exit)); err != nil {
					return err
				}
			}
			return console.ExitWith(exit.ExitCode)
		},
	}
	cmd.Flags().StringVar(&timeout, "timeout", "", "wait no longer than this (90s, 5m): exit code 124")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// A jobEnd is what wait --json prints.
type jobEnd struct {
	ExitCode   int  `json:"exitCode"` // that of our own process
	Signal     int  `json:"signal"`
	TimedOut   bool `json:"timedOut"`             // the wait; the job continues
	StatusLost bool `json:"statusLost,omitempty"` // the exit code is unknown
}

// endOf returns what wait --json prints of a job that has ended.
func endOf(exit runtime.Result) *jobEnd {
	return &jobEnd{ExitCode: exit.ExitCode, Signal: int(exit.Signal), StatusLost: exit.Session != nil && exit.Session.StatusLost}
}

func jobKillCommand(h *host.Host) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "kill [--signal SIG] SANDBOX SESSION JOB...",
		Short: "Send a signal to all processes of jobs",
		Args:  cobra.MinimumNArgs(3),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			sig, err := parseSignal(name)
			if err != nil {
				return err
			}
			for _, job := range args[2:] {
				if err := rt.SignalJob(ctx, runtime.SessionIn(args[0], args[1]), job, sig); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringVarP(&name, "signal", "s", "TERM", "the signal, by name or number")
	return cmd
}

// parseSignal reads the flag --signal: TERM, SIGTERM or 15.
func parseSignal(s string) (syscall.Signal, error) {
	if n, err := strconv.ParseUint(s, 10, 8); err == nil && n >= 1 && n <= 64 {
		return syscall.Signal(n), nil
	}
	if sig := ops.Signal(s); sig != 0 {
		return sig, nil
	}
	return 0, runtime.Errorf(runtime.ErrInvalid, "--signal %q: it must be a name such as TERM, INT or KILL, or a number from 1 to 64", s)
}
