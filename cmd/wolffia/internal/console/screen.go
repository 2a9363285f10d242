package console

import (
	"bytes"
	"io"
	"sync"
)

// WholeScroll has all lines scroll again, as the size may be another one; the
// cursor stays.
const WholeScroll = "\x1b7\x1b[r\x1b8"

// softReset gives a terminal back in its usual modes when the program that has changed
// them runs on elsewhere. It begins with CAN, which ends a sequence that was cut, and
// DECSTR. The rest are modes that DECSTR leaves: alternate screen (without moving the
// cursor, as 1049 would), wrapping, mouse, focus, bracketed paste (xterm's ctlseqs).
const softReset = "\x18\x1b[?1047l" + WholeScroll + "\x1b[!p\x1b[?25h\x1b[?7h" +
	"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b>\x1b[0m\x1b(B"

// A Screen is the user's terminal. It is safe for concurrent use.
type Screen struct {
	mu   sync.Mutex
	out  io.Writer
	left bool
}

// NewScreen returns a Screen that prints on out.
func NewScreen(out io.Writer) *Screen { return &Screen{out: out} }

// Write prints. After Leave it returns [io.ErrClosedPipe].
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return 0, io.ErrClosedPipe
	}
	return s.out.Write(b)
}

// Leave resets the terminal; nothing is printed afterwards.
func (s *Screen) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	_, _ = io.WriteString(s.out, softReset)
}

// WithoutQueries takes from what is printed once more all that a terminal
// answers: it has answered before, and the answer would be taken for typed.
// Those are control sequences that report something (ECMA-48 and xterm's
// ctlseqs), settings that are asked for with a question mark, and ENQ.
func WithoutQueries(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		n := 1
		if b[0] == '\x1b' {
			n = sequence(b)
		}
		if !isQuery(b[:n]) {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out
}

// sequence returns the length of the control sequence at the start of b, which
// begins with ESC; all of b if it does not end there.
func sequence(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[': // parameters and intermediate bytes, then a final one
		for i := 2; i < len(b); i++ {
			if b[i] < 0x20 || b[i] > 0x3f {
				return i + 1
			}
		}
		return len(b)
	case ']', 'P', '_', '^', 'X': // a string, up to ST or BEL
		for i := 2; i < len(b); i++ {
			switch {
			case b[i] == '\a':
				return i + 1
			case b[i] == '\x1b' && i+1 < len(b) && b[i+1] == '\\':
				return i + 2
			case b[i] == '\x1b':
				return i
			}
		}
		return len(b)
	}
	return 2
}

// isQuery reports whether a terminal answers seq.
func isQuery(seq []byte) bool {
	if len(seq) == 1 {
		return seq[0] == 5 // ENQ
	}
	body, final := seq[2:], seq[len(seq)-1]
	switch seq[1] {
	case '[':
		switch final {
		case 'n', 'c', 't', 'x': // status, attributes, window, parameters
			return true
		case 'p', 'y': // modes
			return bytes.ContainsAny(body, "$*")
		case 'q': // version
			return bytes.HasPrefix(body, []byte(">"))
		case 'u', 'm', 'S': // keyboard, key modifiers, graphics
			return bytes.HasPrefix(body, []byte("?"))
		}
	case ']':
		return bytes.Contains(body, []byte("?"))
	case 'P', '_': // settings, capabilities, graphics
		return true
	case 'Z': // identify
		return true
	}
	return false
}
