package runtime

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"time"
)

// DefaultMaxOutput is how many bytes of each stream an [ExecResult] keeps unless the request
// says otherwise.
const DefaultMaxOutput = 16 << 20

// An ExecRequest asks for one command.
type ExecRequest struct {
	// Command is the program and its arguments, as they are: no shell.
	Command []string
	// Env is added to the sandbox's environment; a variable given here wins. See [CheckEnv].
	Env map[string]string
	// Cwd is the working directory inside the sandbox; a relative one, or empty, is taken
	// from SandboxConfig.Cwd.
	Cwd string
	// Stdin is the command's standard input; nil means none. If reading it fails
	// the command is killed, and the error wraps the reader's.
	Stdin io.Reader
	// Timeout ends the command and all that it started; 0 means never.
	Timeout time.Duration
	// MaxOutput is how many bytes of each stream the result keeps; 0 means
	// [DefaultMaxOutput]. The rest is counted and dropped.
	MaxOutput int
	// TailOutput is how many of these bytes are from the end of the stream. What is dropped
	// is then in the middle, after MaxOutput-TailOutput bytes. 0 keeps the beginning only.
	// More than MaxOutput is ErrInvalid.
	TailOutput int
}

// OutputLimits returns the number of bytes to keep of each stream, and how many of them are
// from its end, for a MaxOutput and a TailOutput. The error is of class [ErrInvalid].
func OutputLimits(maxOutput, tailOutput int) (keep, tail int, err error) {
	if maxOutput <= 0 {
		maxOutput = DefaultMaxOutput
	}
	if tailOutput < 0 || tailOutput > maxOutput {
		return 0, 0, Errorf(ErrInvalid, "tail of %d bytes of output: it must be from 0 to the %d bytes that are kept", tailOutput, maxOutput)
	}
	return maxOutput, tailOutput, nil
}

// An ExecResult is the output of a command and how it ended.
type ExecResult struct {
	Stdout, Stderr []byte
	// ExitCode is the command's exit code, or 128+n if signal n killed it.
	ExitCode int
	// Signal is the signal that killed it, or 0.
	Signal syscall.Signal
	// Duration is the time from the request to the end of the output.
	Duration time.Duration
	// TimedOut says that the request's Timeout ended it. Output before that is kept.
	TimedOut bool
	// OutOfMemory says that it failed, and that while it ran the kernel killed a process of
	// the sandbox because of Resources.Memory. It is never set in an engine.
	OutOfMemory bool
	// StdoutDropped and StderrDropped count the bytes beyond MaxOutput.
	StdoutDropped, StderrDropped int64
	// Session is the state of the session after it; nil if it did not run in one.
	Session *SessionStatus
	// Denied is what the rules have denied while it ran; nil: nothing. With an Operation that
	// began before, it is what they have denied since this request.
	Denied *Denials
	// Refused is what the network has refused, as Denied.
	Refused *Refusals
	// Git is what crossed between the sandbox's repositories and the host's while it ran, and
	// what did not; nil: git inside has changed nothing.
	Git *GitReport
}

// Truncated reports whether output was dropped.
func (r *ExecResult) Truncated() bool { return r.StdoutDropped > 0 || r.StderrDropped > 0 }

// A ProcessSpec asks for a process with streams.
type ProcessSpec struct {
	Command []string
	// Session is the name of a session of the sandbox whose shell evaluates Command, which
	// must be one text. NoWait and Create are as in [SessionExecRequest]. With TTY the
	// command has the session's own terminal.
	Session string
	NoWait  bool
	Create  bool
	// Operation is as in [SessionExecRequest]. Close then leaves the command running.
	Operation string
	Env       map[string]string
	Cwd       string
	// Stdin says that the process's standard input will be written.
	Stdin bool
	// Merge sends standard error to where standard output goes.
	Merge bool
	// TTY gives the process a terminal of Rows x Cols; its output comes on
	// Stdout. Zero Rows or Cols leave the size unset.
	TTY        bool
	Rows, Cols uint16
	// Timeout counts from when the command begins, in a session when it has its turn.
	Timeout time.Duration
	// Queued, if not nil, may be called, with true when a command in a session waits for
	// others, and then with false when it has its turn. Without Session it is called with
	// false when the program runs. It must not block.
	Queued func(waits bool)
}

// An Exit says how a process ended.
type Exit struct {
	Code        int            // the exit code, or 128+Signal
	Signal      syscall.Signal // what killed it, or 0
	TimedOut    bool           // by the spec's Timeout; if the sandbox does not answer it may still run
	OutOfMemory bool           // see ExecResult
	Session     *SessionStatus // nil if it did not run in a session
	Denied      *Denials       // what the rules have denied while it ran; nil: nothing
	Refused     *Refusals      // what the network has refused while it ran; nil: nothing
	Git         *GitReport     // see ExecResult
	// StdoutEnd and StderrEnd are, of a JobOutput, the offsets behind the last bytes that it has sent.
	StdoutEnd, StderrEnd uint64
}

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
	// the process continues.
	Wait(ctx context.Context) (Exit, error)
	// Close kills the process and all that it started, if it still runs, and releases it.
	// Closing twice is no error.
	Close() error
}

// An ExitError is the error of a command that ended with another code than 0.
type ExitError struct{ Exit }

func (e *ExitError) Error() string {
	switch {
	case e.TimedOut:
		return "the command has timed out"
	case e.Signal != 0:
		return fmt.Sprintf("the command was killed by signal %d (%v)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("the command ended with exit code %d", e.Code)
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
