// Package feed gives a process its standard input.
package feed

import (
	"fmt"
	"io"
	"sync/atomic"
)

// Start copies r to stdin in the background, and closes stdin at the end of r. If
// reading r fails, it calls giveUp instead, which must end the process, so that the
// process cannot take a part of the input for all of it. failed returns that error, or
// nil; call it when the process has ended. Copying ends at the first byte that the
// process does not take.
func Start(stdin io.WriteCloser, r io.Reader, giveUp func()) (failed func() error) {
	var failure atomic.Pointer[error]
	go func() { // ends with the input, or when the process takes no more
		to := &sink{w: stdin}
		_, err := io.Copy(to, r)
		if err == nil || to.failed {
			_ = stdin.Close()
			return
		}
		err = fmt.Errorf("read the command's standard input: %w", err)
		failure.Store(&err)
		giveUp()
	}()
	return func() error {
		if err := failure.Load(); err != nil {
			return *err
		}
		return nil
	}
}

// A sink records whether a write failed, to distinguish that from a failed read.
type sink struct {
	w      io.Writer
	failed bool
}

func (s *sink) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	if err != nil {
		s.failed = true
	}
	return n, err
}
