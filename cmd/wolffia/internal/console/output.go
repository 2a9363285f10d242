package console

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// ErrBroken is the error of a write to a pipe that has no reader: wolffia ends with the exit code
// of a program that SIGPIPE has killed, and prints no error.
var ErrBroken = ExitStatus(SignalCode(unix.SIGPIPE))

// An Output is a standard stream that is written to. It keeps its first error, which exitCode
// reports of standard output. It is safe for concurrent use.
type Output struct {
	File *os.File

	mu  sync.Mutex
	err error // guarded by mu
}

// Standard returns an output to descriptor 1 or 2, by another descriptor: Go has SIGPIPE kill the
// program that writes to one of the two after its reader has ended, and wolffia may have a sandbox
// to keep or to remove. To be notified of SIGPIPE would do the same, but have Go's runtime change
// threads at each start.
func Standard(fd int, name string) (*Output, error) {
	other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("duplicate descriptor %d: %w", fd, err)
	}
	return &Output{File: os.NewFile(uintptr(other), name)}, nil
}

// Write writes to the stream. The error is the first one, ErrBroken if the stream is a pipe
// without a reader.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if errors.Is(err, unix.EPIPE) {
		err = ErrBroken
	}
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = cmp.Or(o.err, err)
		return n, o.err
	}
	return n, nil
}

// WriteString is Write for a string.
func (o *Output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

// Fd returns the stream's descriptor.
func (o *Output) Fd() uintptr { return o.File.Fd() }

// IsTerminal reports whether the stream is a terminal.
func (o *Output) IsTerminal() bool { return term.IsTerminal(int(o.Fd())) }

// Failure returns the first error of Write; nil if each has succeeded.
func (o *Output) Failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
