package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/attach"
	"wolffia/cmd/wolffia/internal/hint"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/internal/shellword"
	"wolffia/runtime"
)

func execCommand(h *host.Host) *cobra.Command {
	var cwd, timeout, session, user string
	var env []string
	var stdin, tty, asJSON, noWait bool
	cmd := &cobra.Command{
		Use:   "exec [flags] SANDBOX -- CMD [ARG...]",
		Short: "Run a command in a running sandbox",
		Example: `  wolffia exec web -- make test
  echo hello | wolffia exec -i web -- cat
  wolffia exec -it web -- bash
  wolffia exec --session dev web -- 'cd src; export A=1'
  wolffia exec --session dev web -- git commit -m 'hello world'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1 && args[1] == "--":
				args = append(args[:1], args[2:]...)
			case len(args) > 1 && strings.HasPrefix(args[1], "-"):
				return misplaced(args)
			}
			if len(args) < 2 {
				return usage.Errorf(cmd, "needs SANDBOX and CMD")
			}
			limit, err := sandboxflags.ParseTimeout(timeout)
			if err != nil {
				return err
			}
			vars, err := sandboxflags.Variables(env)
			if err != nil {
				return err
			}
			if err := checkTTY(h, tty, asJSON); err != nil {
				return err
			}
			command := args[1:]
			if noWait && session == "" {
				return runtime.Errorf(runtime.ErrInvalid, "--no-wait needs --session: other commands do not wait for one another")
			}
			if session != "" {
				command = []string{textOf(command)}
			}
			rt, err := h.OpenAndPrime("")
			if err != nil {
				return err
			}
			spec := &runtime.Command{
				Command: command, Session: session, NoWait: noWait, Create: true, Env: vars, Cwd: cwd, User: user, OpenStdin: stdin || tty, TTY: tty, Timeout: limit,
			}
			hint.WarnKeys(h.Console, spec, "use exec -t at a terminal")
			if !asJSON {
				client := attach.New(h, rt)
				client.TellServers = true
				return client.Exec(cmd.Context(), args[0], false, spec)
			}
			return attach.New(h, rt).ExecJSON(cmd.Context(), args[0], false, spec)
		},
	}
	h.AddQuiet(cmd)
	fl := cmd.Flags()
	h.AddResume(cmd)
	fl.SetInterspersed(false)
	fl.StringVar(&cwd, "cwd", "", "working directory inside; with --session absolute (default: the sandbox's own, or the session's)")
	fl.StringArrayVarP(&env, "env", "e", nil, "set a variable: K=V, or K to pass the caller's")
	fl.StringVarP(&user, "user", "u", "", "with root inside (--root): run as this user of the sandbox: NAME or UID, also with :GROUP (default: that of run --user, or the image's)")
	fl.StringVar(&session, "session", "", "run the command in this shell session, which is made on first use; a CMD without ARG is text that the shell evaluates")
	fl.BoolVar(&noWait, "no-wait", false, "with --session: fail at once if the session is busy")
	fl.StringVar(&timeout, "timeout", "", "end the command after this time (90s, 5m): exit code 124")
	fl.BoolVarP(&stdin, "interactive", "i", false, "pass standard input")
	fl.BoolVarP(&tty, "tty", "t", false, "give the command our terminal")
	fl.BoolVar(&asJSON, "json", false, "print the whole result as JSON")
	return cmd
}

// textOf returns what a session evaluates for a command: its only word as it is, several
// words as they are, each as one word for the shell.
func textOf(command []string) string {
	if len(command) == 1 {
		return command[0]
	}
	return shellword.Join(command)
}

// checkTTY returns why the flag -t, if it is given, cannot be followed.
func checkTTY(h *host.Host, tty, asJSON bool) error {
	switch {
	case tty && asJSON:
		return runtime.Errorf(runtime.ErrInvalid, "-t and --json exclude each other: a terminal shows the output itself, without a result; leave one of them out")
	case tty && !h.IsTerminal():
		return runtime.Errorf(runtime.ErrInvalid, "-t: standard input and output are not a terminal")
	}
	return nil
}

// misplaced is the error for a command line whose sandbox, args[0], is followed by what
// looks like a flag: it must not become a part of the command without a word.
func misplaced(args []string) error {
	flags := args[1:2]
	if i := slices.Index(args, "--"); i > 0 {
		flags = args[1:i]
	}
	return runtime.Errorf(runtime.ErrInvalid, "%q follows the sandbox, where the command begins: write flags before it, as in wolffia exec ... %s %s -- CMD; a command that begins with a dash needs -- in front",
		args[1], strings.Join(flags, " "), args[0])
}
