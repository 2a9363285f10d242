package main

import (
	"io"
	"slices"
	"strings"
	"sync"
)

// modes follows what is printed on a terminal, as far as that changes how the
// terminal behaves: so that it can be put right when the program that wanted it
// so is left running elsewhere. The zero value is a terminal as it begins.
type modes struct {
	private map[string]bool // by number, those that were set or reset (DECSET, DECRST)
	region  bool            // lines at an edge do not scroll (DECSTBM)
	keypad  bool            // it sends sequences (DECKPAM)
	rest    []byte          // the start of a sequence
}

// A sequence that is longer is none that matters here.
const maxSequence = 4 << 10 // bytes

// Write implements io.Writer; it never fails.
func (m *modes) Write(p []byte) (int, error) {
	b := append(m.rest, p...)
	m.rest = nil
	for len(b) > 0 {
		if b[0] != '\x1b' {
			b = b[1:]
			continue
		}
		n := sequence(b)
		if n == len(b) && n < maxSequence && !complete(b) {
			m.rest = slices.Clone(b)
			break
		}
		m.note(string(b[:n]))
		b = b[n:]
	}
	return len(p), nil
}

// complete reports whether the control sequence b, all there is, is whole.
func complete(b []byte) bool {
	last := b[len(b)-1]
	switch {
	case len(b) < 2:
		return false
	case b[1] == '[':
		return len(b) > 2 && last >= 0x40
	case strings.IndexByte("]P_^X", b[1]) >= 0:
		return last == '\a' || last == '\\'
	}
	return true
}

func (m *modes) note(seq string) {
	body, isCSI := strings.CutPrefix(seq, "\x1b[")
	final := seq[len(seq)-1]
	switch {
	case seq == "\x1b=" || seq == "\x1b>":
		m.keypad = final == '='
	case seq == "\x1bc": // RIS
		*m = modes{}
	case !isCSI || body == "":
	case final == 'r' && body[0] != '?':
		m.region = body != "r"
	case (final == 'h' || final == 'l') && body[0] == '?':
		if m.private == nil {
			m.private = map[string]bool{}
		}
		for _, number := range strings.Split(body[1:len(body)-1], ";") {
			if len(m.private) < 100 { // there are not so many
				m.private[number] = final == 'h'
			}
		}
	}
}

// wholeScroll has all lines scroll again, as the size may be another one; the
// cursor stays.
const wholeScroll = "\x1b7\x1b[r\x1b8"

// A screen is the user's terminal. It is safe for concurrent use.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	modes modes
	left  bool
}

// Write prints, until the screen is left.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return 0, io.ErrClosedPipe
	}
	_, _ = s.modes.Write(b)
	return s.out.Write(b)
}

// leave puts the terminal right; nothing is printed afterwards.
func (s *screen) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	_, _ = io.WriteString(s.out, s.modes.undo())
}

// undo is what gives the terminal back as it was.
func (m *modes) undo() string {
	var b strings.Builder
	if m.region {
		b.WriteString(wholeScroll)
	}
	if m.keypad {
		b.WriteString("\x1b>")
	}
	numbers := make([]string, 0, len(m.private))
	for n := range m.private {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		usual := n == "25" || n == "7" // the cursor shows, lines wrap
		if on := m.private[n]; on != usual {
			b.WriteString("\x1b[?" + n)
			if usual {
				b.WriteByte('h')
			} else {
				b.WriteByte('l')
			}
		}
	}
	b.WriteString("\x1b[0m\x1b(B") // colours, letters
	return b.String()
}
