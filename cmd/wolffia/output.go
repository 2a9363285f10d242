package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// errBroken is the error of a write to a pipe that has no reader: wolffia ends with the exit code of a program that SIGPIPE
// has killed, and prints no error.
var errBroken = exitStatus{signalCode(unix.SIGPIPE)}

// An output is a standard stream that is written to. It keeps its first error, which exitCode reports of standard output. It is
// safe for concurrent use.
type output struct {
	file *os.File

	mu  sync.Mutex
	err error // guarded by mu
}

// standard returns an output to descriptor 1 or 2, by another descriptor: Go has SIGPIPE kill the program that writes to one of
// the two after its reader has ended, and wolffia may have a sandbox to keep or to remove. To be notified of SIGPIPE would do the
// same, but have Go's runtime change threads at each start.
func standard(fd int, name string) (*output, error) {
	other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("duplicate descriptor %d: %w", fd, err)
	}
	return &output{file: os.NewFile(uintptr(other), name)}, nil
}

// Write writes to the stream. The error is the first one, errBroken if the stream is a pipe without a reader.
func (o *output) Write(b []byte) (int, error) {
	n, err := o.file.Write(b)
	if errors.Is(err, unix.EPIPE) {
		err = errBroken
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
func (o *output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

// Fd returns the stream's descriptor.
func (o *output) Fd() uintptr { return o.file.Fd() }

// failure returns the first error of Write; nil if each has succeeded.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
