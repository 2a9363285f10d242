// Package feed gives a process its standard input.
package feed

import (
	"fmt"
	"io"
	"sync/atomic"
)

// Start copies r to stdin, which it closes at r's end. If reading r fails it calls
// giveUp instead, which must end the process: half of an input is not to be taken for
// all of it. failed returns that failure, wrapped, or nil; it is to be asked once the
// process has ended. Start does not wait; a process that takes no more input ends the
// copying at the next byte.
func Start(stdin io.WriteCloser, r io.Reader, giveUp func()) (failed func() error) {
	var failure atomic.Pointer[error]
	go func() { // ends with the input, or when the process does not want it any more
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

// A sink tells an error in writing from one in reading.
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
