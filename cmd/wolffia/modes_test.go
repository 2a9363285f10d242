package main

import "testing"

// What a program has asked of the terminal is undone, and nothing else,
// wherever its output was cut.
func TestModesUndo(t *testing.T) {
	for name, tt := range map[string]struct{ printed, want string }{
		"nothing":        {"plain\r\n\x1b[31mred", ""},
		"vim":            {"\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?25l\x1b[1;24r", wholeScroll + "\x1b>\x1b[?1l\x1b[?1049l\x1b[?2004l\x1b[?25h"},
		"vim has ended":  {"\x1b[?1049h\x1b[1;24r\x1b[r\x1b[?1049l", ""},
		"several at one": {"\x1b[?1000;1006h\x1b[?7l", "\x1b[?1000l\x1b[?1006l\x1b[?7h"},
		"in a title":     {"\x1b]0;\x07\x1b[?25l", "\x1b[?25h"},
		"reset":          {"\x1b[?1049h\x1bc", ""},
		"report":         {"\x1b[?2004$p\x1b[?6n\x1b[h", ""},
	} {
		want := tt.want + "\x1b[0m\x1b(B"
		for size := 1; size <= len(tt.printed); size++ {
			var m modes
			for b := []byte(tt.printed); len(b) > 0; {
				n := min(size, len(b))
				_, _ = m.Write(b[:n])
				b = b[n:]
			}
			if got := m.undo(); got != want {
				t.Errorf("%s, in pieces of %d: %q, want %q", name, size, got, want)
			}
		}
	}
}

func FuzzModes(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b]0;x\x1b\\\x1b[?25l"), 3)
	f.Fuzz(func(t *testing.T, printed []byte, size int) {
		if size < 1 || len(printed) > maxSequence {
			return
		}
		var whole, pieces modes
		_, _ = whole.Write(printed)
		for b := printed; len(b) > 0; {
			n := min(size, len(b))
			_, _ = pieces.Write(b[:n])
			b = b[n:]
		}
		if whole.undo() != pieces.undo() {
			t.Errorf("%q in pieces of %d: %q, else %q", printed, size, pieces.undo(), whole.undo())
		}
	})
}
