package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/signals"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/internal/host/cause"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// exitCode ends the execution: it prints an error, if any, asJSON on
// standard output too, and closes what was opened. If a signal has ended ctx, that is why. The
// exit code of a command does not hold if standard output was lost.
func (a *app) exitCode(ctx context.Context, err error, asJSON bool) int {
	err = errors.Join(err, a.Close())
	var status console.ExitStatus
	switch lost := a.Out.Failure(); {
	case lost == nil:
	case errors.Is(lost, console.ErrBroken) || errors.As(err, &status):
		err = lost
	case !errors.Is(err, lost):
		err = errors.Join(err, lost)
	}
	code := console.ExitFailed
	var start *runtime.StartError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &start):
		code = start.Code
	default:
		c, is := signals.CodeOf(ctx)
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
	err = a.withNear(err)
	a.Fail(err)
	if asJSON && !a.Printed {
		_ = a.PrintJSON(failureOf(err)) // standard error has it too
	}
	return code
}

// withNear adds the names of sandboxes to an error that are like the one that does not exist.
func (a *app) withNear(err error) error {
	missing, is := errors.AsType[*statedir.NoSandboxError](err)
	dir := a.StateIfExists()
	if !is || dir == nil {
		return err
	}
	var names []string
	ids, _ := dir.IDs()
	for _, id := range ids {
		if c, err := dir.Record(id).LoadHeader(); err == nil && c.Name != "" {
			names = append(names, c.Name)
		}
	}
	if near := usage.Near(names, missing.Ref); len(near) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// A failure is what --json prints if wolffia itself fails.
type failure struct {
	Error struct {
		Class   string `json:"class"` // of classNames, or "interrupted" or "other"
		Message string `json:"message"`
		// of a cause that wolffia doctor knows
		Code string `json:"code,omitempty"`
		Fix  string `json:"fix,omitempty"`
	} `json:"error"`
}

func failureOf(err error) (f failure) {
	f.Error.Class, f.Error.Message = "other", err.Error()
	if errors.Is(err, errInterrupted) {
		f.Error.Class = errInterrupted.Error()
	} else if class := runtime.Class(err); class != nil {
		f.Error.Class = classNames[class]
	}
	if c, is := errors.AsType[*cause.Error](err); is {
		f.Error.Code, f.Error.Fix = c.Code, c.Fix
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
