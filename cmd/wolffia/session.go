package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"wolffia/fields"
	"wolffia/local"
	"wolffia/runtime"
)

// defaultSession is the session that shell and attach use if none is named.
const defaultSession = "main"

func (a *app) sessionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List, end and attach to shell sessions, and their background jobs",
		Long: `List, end and attach to shell sessions.

A session is a shell that stays in a sandbox: what one command changes (working
directory, variables, functions, options) is there for the next. wolffia exec
--session NAME makes it on first use. It ends with the sandbox.`,
	}
	cmd.AddCommand(a.sessionListCommand(), a.sessionRemoveCommand(), a.sessionAttachCommand(), a.sessionJobsCommand(), a.sessionJobCommand())
	return cmd
}

func (a *app) sessionListCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "ls SANDBOX",
		Short: "List the sessions of a sandbox",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			all, err := rt.ListSessions(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			t := table[*runtime.Session]{
				head: "NAME\tSTATE\tSHELL\tCWD\tCOMMANDS\tJOBS\tUSED",
				row: func(s *runtime.Session) []any {
					return []any{printable(s.Name), printable(string(s.State)), printable(s.Shell), printable(s.Cwd), s.Commands, s.Jobs, since(s.UsedAt)}
				},
			}
			return t.print(a, f, all)
		},
	}
	f.flags(cmd)
	return cmd
}

func since(t time.Time) string { return time.Since(t).Truncate(time.Second).String() + " ago" }

func (a *app) sessionRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm SANDBOX NAME...",
		Short: "End sessions and all that they have started",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			for _, name := range args[1:] {
				if err := rt.DestroySession(cmd.Context(), runtime.SessionIn(args[0], name)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (a *app) sessionJobsCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "jobs SANDBOX NAME",
		Short: "List the background jobs of a session",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			jobs, err := rt.SessionJobs(cmd.Context(), runtime.SessionIn(args[0], args[1]))
			if err != nil {
				return err
			}
			t := table[*runtime.Job]{
				head: "ID\tNAME\tSTATE\tPIDS\tSTARTED\tOUTPUT\tCOMMAND",
				row: func(j *runtime.Job) []any {
					return []any{
						printable(j.ID), dash(printable(j.Name)), printable(j.State), j.PIDs, since(j.StartedAt),
						fmt.Sprintf("%d+%d", j.Stdout.End, j.Stderr.End), printable(j.Command),
					}
				},
			}
			return t.print(a, f, jobs)
		},
	}
	f.flags(cmd)
	return cmd
}

func (a *app) sessionAttachCommand() *cobra.Command {
	var takeover bool
	cmd := &cobra.Command{
		Use:   "attach SANDBOX [NAME]",
		Short: "Use a session's terminal; ctrl-p ctrl-q leaves it running",
		Long: `Use a session's terminal: an interactive shell that begins with the session's
state and has its own from then on. Several may watch and type. ctrl-p ctrl-q
detaches and leaves it running; to attach again shows what was printed last.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			name := defaultSession
			if len(args) > 1 {
				name = args[1]
			}
			_, err = a.terminal(cmd.Context(), rt, args[0], name, takeover)
			return err
		},
	}
	cmd.Flags().BoolVar(&takeover, "takeover", false, "detach all other clients")
	return cmd
}

func (a *app) shellCommand() *cobra.Command {
	var box boxFlags
	cmd := &cobra.Command{
		Use:   "shell [flags] [SANDBOX]",
		Short: "Work in a sandbox at the terminal; ctrl-p ctrl-q leaves it running",
		Long: `Work in a sandbox at the terminal. Without SANDBOX it creates a new one over the current
directory, as run does. ctrl-p ctrl-q detaches and keeps the sandbox: wolffia shell
SANDBOX comes back, and starts one that is stopped. A sandbox that shell has created is destroyed when its shell ends
in wolffia shell, also after a detach; any other sandbox stays. With --cow it first asks
what becomes of the changes, as run does; what is neither applied nor discarded is kept.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f := boxFlag(cmd); f != "" && len(args) > 0 {
				return usageError(cmd, "--%s describes a new sandbox, and SANDBOX is one that exists: leave one of them out", f)
			}
			rt, err := a.open(box.Text("runtime"))
			if err != nil {
				return err
			}
			if !a.isTerminal() {
				return errNoTerminal
			}
			var id string
			ours, copied := true, false
			if len(args) == 1 {
				s, err := rt.Get(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				id, ours, copied = s.ID, s.Labels[labelShell] != "", s.CopyOnWrite
				if s.State == runtime.StateStopped {
					if err := rt.Start(cmd.Context(), id); err != nil {
						return err
					}
				}
			} else {
				defer box.undo(cmd.Context(), a)
				config, err := box.config(cmd.Context(), a)
				if err != nil {
					return err
				}
				config.Labels[labelShell] = "true"
				copied = config.CopyOnWrite
				if id, err = box.launch(cmd.Context(), a, rt, config); err != nil {
					return err
				}
			}
			left, err := a.terminal(cmd.Context(), rt, id, defaultSession, false)
			if left == detached {
				fmt.Fprintln(a.err, "wolffia:", detachNote(id, ours, copied))
			}
			if left == detached || !ours || left == unattached && len(args) == 1 {
				return err
			}
			return a.alongside(err, a.end(cmd.Context(), rt, id, copied, &reviewFlags{apply: applyAsk}, err != nil))
		},
	}
	box.add(a, cmd, fields.Shell)
	return cmd
}

// boxFlag returns a flag that was given and describes a new sandbox; empty if none was.
func boxFlag(cmd *cobra.Command) (name string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "quiet" && cmd.InheritedFlags().Lookup(f.Name) == nil {
			name = f.Name
		}
	})
	return name
}

// labelShell is the label of a sandbox that is destroyed when its shell ends.
const labelShell = "wolffia.shell"

// detachNote returns what becomes of a sandbox after a detach from its shell. ours says
// that the sandbox ends with the shell, copied that it has changes of its own.
func detachNote(id string, ours, copied bool) string {
	ends := ""
	if ours {
		ends = ", or end its shell"
	}
	if ours && copied {
		ends += ", which asks what becomes of the changes"
	}
	return fmt.Sprintf("sandbox %s runs on; to come back: wolffia shell %s; to remove it: wolffia rm -f %s%s", id, id, id, ends)
}

var errNoTerminal = runtime.Errorf(runtime.ErrInvalid, "standard input and output are not a terminal; without one: wolffia exec --session NAME")

// A departure is how the user has left the terminal of a session.
type departure uint8

const (
	unattached departure = iota // it was not reached
	detached                    // it runs on
	ended                       // its shell has ended, or the connection to it
)

// terminal connects the user's terminal with a session's until that ends or the user
// detaches. It creates a missing session. An exit code other than 0 is an error.
func (a *app) terminal(ctx context.Context, rt *local.Runtime, sandbox, name string, takeover bool) (departure, error) {
	if !a.isTerminal() {
		return unattached, errNoTerminal
	}
	cols, rows, err := term.GetSize(int(a.out.Fd()))
	if err != nil {
		return unattached, err
	}
	// The signals that end us must not leave the terminal raw.
	ctx, stop := untilSignal(ctx, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	t, err := rt.AttachSession(ctx, runtime.SessionIn(sandbox, name), &runtime.AttachRequest{Rows: uint16(rows), Cols: uint16(cols), Takeover: takeover, Create: true})
	if err != nil {
		return unattached, err
	}
	defer t.Close()
	var end runtime.Result
	defer func() { a.noteGit(end.Git) }() // when the terminal is as it was
	restore, err := a.rawMode(t)
	if err != nil {
		return unattached, err
	}
	defer restore()
	leave, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	go func() { // ends with the input, or when it is over
		if typed(t.Stdin(), &typist{keys: a.keys(), over: over}) {
			close(leave)
		}
	}()
	screen := &screen{out: a.out}
	defer screen.leave()
	printed := make(chan struct{})
	go func() { // ends with the terminal
		defer close(printed)
		if t.End() > t.Start() {
			var again bytes.Buffer
			_, _ = io.CopyN(&again, t.Stdout(), int64(t.End()-t.Start()))
			_, _ = screen.Write(append(withoutQueries(again.Bytes()), wholeScroll...))
			_ = t.Signal(unix.SIGWINCH) // a program on the whole screen draws it anew
		}
		_, _ = io.Copy(screen, t.Stdout())
	}()
	select {
	case <-printed:
	case <-leave:
		_, _ = screen.Write([]byte("\r\n")) // what the host says next begins a line
		return detached, nil
	case <-ctx.Done():
		code, _ := codeOf(ctx)
		return detached, exitStatus{code}
	}
	end, err = t.Wait(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return ended, err
	case t.Detached():
		fmt.Fprint(a.err, "\r\nwolffia: another client took over the terminal\r\n")
		return detached, nil
	}
	return ended, exitWith(codeFor(end))
}

// typed passes on what the user types until ctrl-p ctrl-q, or until our terminal is
// closed, which it reports. A ctrl-p that something else follows is passed on
// with it.
func typed(to io.Writer, from io.Reader) (detach bool) {
	const ctrlP, ctrlQ = 0x10, 0x11
	buf := make([]byte, 4096)
	held := false // a ctrl-p waits for what comes next
	for {
		n, err := from.Read(buf)
		var out []byte
		for _, c := range buf[:n] {
			switch {
			case held && c == ctrlQ:
				_, _ = to.Write(out)
				return true
			case held:
				out, held = append(out, ctrlP), false
			}
			if c == ctrlP {
				held = true
				continue
			}
			out = append(out, c)
		}
		if _, werr := to.Write(out); werr != nil {
			return false
		}
		if err != nil { // our terminal is gone
			return true
		}
	}
}
