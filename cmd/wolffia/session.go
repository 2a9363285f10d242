package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/attach"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/review"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/fields"
	"wolffia/local"
	"wolffia/runtime"
)

// defaultSession is the session that shell and attach use if none is named.
const defaultSession = "main"

func sessionCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List, end and attach to shell sessions, and their background jobs",
		Long: `List, end and attach to shell sessions.

A session is a shell that stays in a sandbox: what one command changes (working
directory, variables, functions, options) is there for the next. wolffia exec
--session NAME makes it on first use. It ends with the sandbox.`,
	}
	h.AddResume(cmd)
	cmd.AddCommand(sessionListCommand(h), sessionRemoveCommand(h), sessionAttachCommand(h), sessionJobsCommand(h, "jobs SANDBOX NAME"), sessionJobCommand(h))
	return cmd
}

func sessionListCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{Use: "ls SANDBOX", Short: "List the sessions of a sandbox", Args: cobra.ExactArgs(1)}
	return host.List(h, cmd, &console.Table[*runtime.Session]{
		Head: "NAME\tSTATE\tSHELL\tCWD\tCOMMANDS\tJOBS\tUSED",
		Row: func(s *runtime.Session) []any {
			p := console.Printable
			return []any{p(s.Name), p(string(s.State)), p(s.Shell), p(s.Cwd), s.Commands, s.Jobs, console.Since(s.UsedAt)}
		},
	}, func(ctx context.Context, rt *local.Runtime, args []string) ([]*runtime.Session, error) {
		return rt.ListSessions(ctx, args[0])
	})
}

func sessionRemoveCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "rm SANDBOX NAME...",
		Short: "End sessions and all that they have started",
		Args:  cobra.MinimumNArgs(2),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			for _, name := range args[1:] {
				if err := rt.DestroySession(ctx, runtime.SessionIn(args[0], name)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func sessionJobsCommand(h *host.Host, use string) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: "List the background jobs of a session", Args: cobra.ExactArgs(2)}
	return host.List(h, cmd, &console.Table[*runtime.Job]{
		Head: "ID\tNAME\tSTATE\tPIDS\tSTARTED\tOUTPUT\tCOMMAND",
		Row: func(j *runtime.Job) []any {
			p := console.Printable
			return []any{
				p(j.ID), console.Dash(p(j.Name)), p(j.State), j.PIDs, console.Since(j.StartedAt),
				fmt.Sprintf("%d+%d", j.Stdout.End, j.Stderr.End), p(j.Command),
			}
		},
	}, func(ctx context.Context, rt *local.Runtime, args []string) ([]*runtime.Job, error) {
		return rt.SessionJobs(ctx, runtime.SessionIn(args[0], args[1]))
	})
}

func sessionAttachCommand(h *host.Host) *cobra.Command {
	var takeover bool
	cmd := &cobra.Command{
		Use:   "attach SANDBOX [NAME]",
		Short: "Use a session's terminal; ctrl-p ctrl-q leaves it running",
		Long: `Use a session's terminal: an interactive shell that begins with the session's
state and has its own from then on. Several may watch and type. ctrl-p ctrl-q
detaches and leaves it running; to attach again shows what was printed last.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			name := defaultSession
			if len(args) > 1 {
				name = args[1]
			}
			_, err := attach.New(h, rt).Terminal(ctx, args[0], name, takeover, false)
			return err
		}),
	}
	cmd.Flags().BoolVar(&takeover, "takeover", false, "detach all other clients")
	return cmd
}

func shellCommand(h *host.Host) *cobra.Command {
	var flags sandboxflags.Sandbox
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
				return usage.Errorf(cmd, "--%s describes a new sandbox, and SANDBOX is one that exists: leave one of them out", f)
			}
			rt, err := h.Open(flags.Text("runtime"))
			if err != nil {
				return err
			}
			if !h.IsTerminal() {
				return attach.ErrNoTerminal
			}
			var id string
			ours, copied := true, false
			if len(args) == 1 {
				s, err := rt.Get(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				id, ours, copied = s.ID, s.Labels[labelShell] != "", s.CopyOnWrite
				if s.State == runtime.StateStopped || s.State == runtime.StateHibernated {
					if err := rt.Start(cmd.Context(), id); err != nil {
						return err
					}
				}
			} else {
				defer flags.Undo(cmd.Context(), h)
				config, err := flags.Config(cmd.Context(), h)
				if err != nil {
					return err
				}
				config.Labels[labelShell] = "true"
				copied = config.CopyOnWrite
				if id, err = flags.Launch(cmd.Context(), h, rt, config); err != nil {
					return err
				}
			}
			client := attach.New(h, rt)
			client.TellServers, client.PublishServers = flags.Servers(true)
			left, err := client.Terminal(cmd.Context(), id, defaultSession, false, len(args) == 0)
			if left == attach.Detached {
				h.Say(detachNote(id, ours, copied))
			}
			if left == attach.Detached || !ours || left == attach.Unattached && len(args) == 1 {
				return err
			}
			return h.Alongside(err, review.New(h, rt).End(cmd.Context(), id, copied, &review.Flags{Apply: review.ApplyAsk}, err != nil))
		},
	}
	flags.Add(h, cmd, fields.Shell)
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
