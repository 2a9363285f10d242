package console

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// What a program prints after the user has left does not reach the terminal, whose
// modes are the usual ones by then.
func TestScreenLeave(t *testing.T) {
	var out strings.Builder
	s := &Screen{out: &out}
	if _, err := s.Write([]byte("\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[31")); err != nil {
		t.Fatal(err)
	}
	s.Leave()
	if _, err := s.Write([]byte("late")); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	reset, found := strings.CutPrefix(out.String(), "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[31")
	if !found || strings.Contains(reset, "late") {
		t.Fatalf("printed %q", out.String())
	}
	if !strings.HasPrefix(reset, "\x18") {
		t.Errorf("the reset %q does not end a sequence that was cut", reset)
	}
	for what, sequence := range map[string]string{
		"main screen": "\x1b[?1047l", "cursor": "\x1b[?25h", "wrapping": "\x1b[?7h", "mouse": "\x1b[?1000l",
		"bracketed paste": "\x1b[?2004l", "soft reset": "\x1b[!p", "colours": "\x1b[0m", "scrolling": "\x1b[r",
	} {
		if !strings.Contains(reset, sequence) {
			t.Errorf("%s: %q lacks %q", what, reset, sequence)
		}
	}
	if strings.Contains(reset, "1049") {
		t.Error("1049l moves the cursor where no program has used the alternate screen")
	}
}
