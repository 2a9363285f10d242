package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"wolffia/runtime"
)

// The exit codes that are wolffia's own. Scripts rely on them.
const (
	exitTimedOut = 124
	exitFailed   = 125
)

// An exitStatus is the exit code of a command that ran. It becomes the exit code of
// wolffia, and nothing is printed.
type exitStatus struct{ code int }

func (e exitStatus) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// alongside joins how a command has ended with an error of what follows, which it prints if the command's exit status would hide it.
func (a *app) alongside(end, then error) error {
	if then != nil && errors.As(end, new(exitStatus)) && !errors.As(then, new(exitStatus)) {
		fmt.Fprintln(a.err, "wolffia:", printable(then.Error()))
		return end
	}
	return errors.Join(end, then)
}

// codeFor is the exit code for the way in which a command has ended.
func codeFor(exit runtime.Result) int {
	if exit.TimedOut {
		return exitTimedOut
	}
	return exit.ExitCode
}

// exitWith ends us with a command's code.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return exitStatus{code}
}

// close closes what was opened.
func (a *app) close() (err error) {
	for _, c := range a.closers {
		err = errors.Join(err, c())
	}
	return err
}

// exitCode ends the execution: it prints an error, if there is one to print, asJSON on
// standard output too, and closes what was opened. If a signal has ended ctx, that is why. The
// exit code of a command does not hold if standard output was lost.
func (a *app) exitCode(ctx context.Context, err error, asJSON bool) int {
	err = errors.Join(err, a.close())
	var status exitStatus
	switch lost := a.out.failure(); {
	case lost == nil:
	case errors.Is(lost, errBroken) || errors.As(err, &status):
		err = lost
	case !errors.Is(err, lost):
		err = errors.Join(err, lost)
	}
	code := exitFailed
	var start *runtime.StartError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return status.code
	case errors.As(err, &start):
		code = start.Code
	default:
		c, is := codeOf(ctx)
		switch {
		case errors.Is(err, context.Canceled):
			err = errInterrupted
		case is: // such as what a program says that was interrupted, too
			err = fmt.Errorf("%w: %w", errInterrupted, err)
		}
		if is {
			code = c
		}
	}
	fmt.Fprintln(a.err, "wolffia:", printable(err.Error()))
	if asJSON && !a.printed {
		_ = a.printJSON(failureOf(err)) // standard error has it too
	}
	return code
}

// A failure is what --json prints if wolffia itself fails.
type failure struct {
	Error struct {
		Class   string `json:"class"` // of classNames, or "interrupted" or "other"
		Message string `json:"message"`
	} `json:"error"`
}

func failureOf(err error) (f failure) {
	f.Error.Class, f.Error.Message = "other", err.Error()
	if errors.Is(err, errInterrupted) {
		f.Error.Class = errInterrupted.Error()
	} else if class := runtime.Class(err); class != nil {
		f.Error.Class = classNames[class]
	}
	return f
}

// classNames are the classes of error as programs read them: as the codes of the service.
var classNames = map[error]string{
	runtime.ErrInvalid: "invalid", runtime.ErrNotFound: "notFound", runtime.ErrExists: "exists", runtime.ErrDenied: "denied",
	runtime.ErrConflict: "conflict", runtime.ErrUnavailable: "unavailable", runtime.ErrUnsupported: "unsupported",
}

var errInterrupted = errors.New("interrupted")

// wantsJSON reports whether a command was asked for JSON. args is the command line, of which
// the flags may not have been read.
func (a *app) wantsJSON(cmd *cobra.Command, args []string) bool {
	f := cmd.Flags().Lookup("json")
	if f == nil || f.Value.String() == "true" {
		return f != nil
	}
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return a.misread && slices.Contains(args, "--json")
}
