package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"wolffia/runtime"
)

func (a *app) execCommand() *cobra.Command {
	var cwd, timeout string
	var env []string
	var stdin, tty, asJSON bool
	cmd := &cobra.Command{
		Use:   "exec [flags] SANDBOX -- CMD [ARG...]",
		Short: "Run a command in a running sandbox",
		Example: `  wolffia exec web -- make test
  echo hello | wolffia exec -i web -- cat
  wolffia exec -it web -- bash`,
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
			rt, err := a.open("")
			if err != nil {
				return err
			}
			if asJSON {
				req := &runtime.ExecRequest{Command: args[1:], Env: vars, Cwd: cwd, Timeout: limit}
				if stdin {
					req.Stdin = a.in
				}
				return a.execJSON(cmd.Context(), rt, args[0], req)
			}
			exit, err := a.attach(cmd.Context(), rt, args[0], &runtime.ProcessSpec{
				Command: args[1:], Env: vars, Cwd: cwd, Stdin: stdin || tty, TTY: tty, Timeout: limit,
			})
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
	fl.StringVar(&timeout, "timeout", "", "end the command after this time (90s, 5m): exit code 124")
	fl.BoolVarP(&stdin, "interactive", "i", false, "pass standard input")
	fl.BoolVarP(&tty, "tty", "t", false, "give the command our terminal")
	fl.BoolVar(&asJSON, "json", false, "print the whole result as JSON")
	return cmd
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
