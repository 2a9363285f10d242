package main

import (
	"io"
	"sync"
)

// wholeScroll has all lines scroll again, as the size may be another one; the
// cursor stays.
const wholeScroll = "\x1b7\x1b[r\x1b8"

// softReset gives a terminal back in its usual modes when the program that has changed
// them runs on elsewhere. It begins with CAN, which ends a sequence that was cut, and
// DECSTR. The rest are modes that DECSTR leaves: alternate screen (without moving the
// cursor, as 1049 would), wrapping, mouse, focus, bracketed paste (xterm's ctlseqs).
const softReset = "\x18\x1b[?1047l" + wholeScroll + "\x1b[!p\x1b[?25h\x1b[?7h" +
	"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b>\x1b[0m\x1b(B"

// A screen is the user's terminal. It is safe for concurrent use.
type screen struct {
	mu   sync.Mutex
	out  io.Writer
	left bool
}

// Write prints. After leave it returns [io.ErrClosedPipe].
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return 0, io.ErrClosedPipe
	}
	return s.out.Write(b)
}

// leave resets the terminal; nothing is printed afterwards.
func (s *screen) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	_, _ = io.WriteString(s.out, softReset)
}
