package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"wolffia/runtime"
	"wolffia/shim"
)

func (a *app) execCommand() *cobra.Command {
	var cwd, timeout, session string
	var env []string
	var stdin, tty, asJSON bool
	cmd := &cobra.Command{
		Use:   "exec [flags] SANDBOX -- CMD [ARG...]",
		Short: "Run a command in a running sandbox",
		Example: `  wolffia exec web -- make test
  echo hello | wolffia exec -i web -- cat
  wolffia exec -it web -- bash
  wolffia exec --session dev web -- 'cd src; export A=1'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && args[1] == "--" {
				args = append(args[:1], args[2:]...)
			}
			if len(args) < 2 {
				return runtime.Errorf(runtime.ErrInvalid, "wolffia exec [flags] SANDBOX -- CMD [ARG...]")
			}
			limit, err := parseTimeout(timeout)
			if err != nil {
				return err
			}
			vars, err := variables(env)
			if err != nil {
				return err
			}
			if tty && !a.isTerminal() {
				return runtime.Errorf(runtime.ErrInvalid, "-t: standard input and output are not a terminal")
			}
			command := args[1:]
			if session != "" {
				command = []string{strings.Join(command, " ")} // as ssh does
			}
			rt, err := a.open("")
			if err != nil {
				return err
			}
			spec := &runtime.ProcessSpec{
				Command: command, Session: session, Env: vars, Cwd: cwd, Stdin: stdin || tty, TTY: tty, Timeout: limit,
			}
			if asJSON {
				return a.execJSON(args[0], nil, func() (*runtime.ExecResult, error) { return a.whole(cmd.Context(), rt, args[0], spec) })
			}
			exit, err := a.attach(cmd.Context(), rt, args[0], spec)
			if err != nil {
				return err
			}
			return statusOf(exit)
		},
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false)
	fl.StringVar(&cwd, "cwd", "", "working directory inside (default: the sandbox's own)")
	fl.StringArrayVarP(&env, "env", "e", nil, "set a variable: K=V, or K to pass the caller's")
	fl.StringVar(&session, "session", "", "evaluate the command, joined by spaces, in this shell session, which is made on first use")
	fl.StringVar(&timeout, "timeout", "", "end the command after this time (90s, 5m): exit code 124")
	fl.BoolVarP(&stdin, "interactive", "i", false, "pass standard input")
	fl.BoolVarP(&tty, "tty", "t", false, "give the command our terminal")
	fl.BoolVar(&asJSON, "json", false, "print the whole result as JSON")
	return cmd
}

// whole runs a command to its end, without our terminal.
func (a *app) whole(ctx context.Context, rt *shim.Runtime, id string, spec *runtime.ProcessSpec) (*runtime.ExecResult, error) {
	var stdin io.Reader
	if spec.Stdin {
		stdin = a.in
	}
	if spec.Session == "" {
		return rt.Exec(ctx, id, &runtime.ExecRequest{
			Command: spec.Command, Env: spec.Env, Cwd: spec.Cwd, Timeout: spec.Timeout, Stdin: stdin,
		})
	}
	if _, err := rt.CreateSession(ctx, id, &runtime.SessionConfig{Name: spec.Session}); err != nil && !errors.Is(err, runtime.ErrExists) {
		return nil, err
	}
	return rt.SessionExec(ctx, id+"/"+spec.Session, &runtime.SessionExecRequest{
		Command: spec.Command[0], Env: spec.Env, Cwd: spec.Cwd, Timeout: spec.Timeout, Stdin: stdin,
	})
}

// stdinIfAny is our standard input, unless that is a terminal, which would
// have to be closed by hand.
func (a *app) stdinIfAny() io.Reader {
	if term.IsTerminal(int(a.in.Fd())) {
		return nil
	}
	return a.in
}

func asStartError(err error) (*runtime.StartError, bool) {
	var failed *runtime.StartError
	ok := errors.As(err, &failed)
	return failed, ok
}
