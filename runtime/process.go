package runtime

import (
	"context"
	"fmt"
	"io"
	"syscall"
)

// A Process runs in a sandbox. It is safe for concurrent use, but each of its
// streams is for one goroutine.
type Process interface {
	// Stdin is the process's standard input. Close ends it.
	Stdin() io.WriteCloser
	// Stdout and Stderr end with io.EOF. Output that is not read blocks the process, once
	// bounded buffers are full.
	Stdout() io.Reader
	Stderr() io.Reader
	// Signal sends a signal to the process's group.
	Signal(sig syscall.Signal) error
	// Resize sets the size of the terminal.
	Resize(rows, cols uint16) error
	// Wait waits until the process has ended and its output is complete. If ctx ends first,
	// the process continues. The Result has no output and no Duration.
	Wait(ctx context.Context) (Result, error)
	// Close kills the process and all that it started, if it still runs, and releases it.
	// Closing twice is not an error.
	Close() error
}

// An ExitError is the error of a command that ended with another code than 0.
type ExitError struct{ Result }

func (e *ExitError) Error() string {
	switch {
	case e.TimedOut:
		return "the command has timed out"
	case e.Signal != 0:
		return fmt.Sprintf("the command was killed by signal %d (%v)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("the command ended with exit code %d", e.ExitCode)
}

// A StartError is the error of a program that could not be started. It is of class
// [ErrNotFound] if the program does not exist, [ErrDenied] if it may not be executed,
// [ErrInvalid] otherwise.
type StartError struct {
	// Code is what a shell would exit with: 127 not found, 126 not
	// executable, 125 anything else.
	Code    int
	Message string
}

func (e *StartError) Error() string { return e.Message }

// Unwrap returns the class.
func (e *StartError) Unwrap() error {
	switch e.Code {
	case 127:
		return ErrNotFound
	case 126:
		return ErrDenied
	}
	return ErrInvalid
}
