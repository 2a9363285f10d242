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

// An exitStatus is the end of a command that could be run: its code becomes
// ours, and nothing is printed.
type exitStatus struct{ code int }

func (e exitStatus) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// statusOf is the exit code for the way in which a command has ended.
func statusOf(exit runtime.Exit) error {
	switch {
	case exit.TimedOut:
		return exitStatus{exitTimedOut}
	case exit.Code != 0:
		return exitStatus{exit.Code}
	}
	return nil
}

// close closes what was opened.
func (a *app) close() (err error) {
	for _, c := range a.closers {
		err = errors.Join(err, c())
	}
	return err
}

// exitCode ends the execution: it prints an error, if there is one to print,
// and closes what was opened.
func (a *app) exitCode(err error) int {
	err = errors.Join(err, a.close())
	var status exitStatus
	var start *runtime.StartError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return status.code
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	fmt.Fprintln(a.err, "wolffia:", printable(err.Error()))
	if errors.As(err, &start) {
		return start.Code
	}
	return exitFailed
}
