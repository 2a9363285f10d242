package main

import (
	"context"
	"errors"
	"fmt"

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

// codeFor is the exit code for the way in which a command has ended.
func codeFor(exit runtime.Exit) int {
	if exit.TimedOut {
		return exitTimedOut
	}
	return exit.Code
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

// exitCode ends the execution: it prints an error, if there is one to print,
// and closes what was opened. If a signal has ended ctx, that is why.
func (a *app) exitCode(ctx context.Context, err error) int {
	err = errors.Join(err, a.close())
	code := exitFailed
	var status exitStatus
	var start *runtime.StartError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return status.code
	case errors.As(err, &start):
		code = start.Code
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
		if c, is := codeOf(ctx); is {
			code = c
		}
	}
	fmt.Fprintln(a.err, "wolffia:", printable(err.Error()))
	return code
}
