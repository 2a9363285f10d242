package shim

import (
	"os"
	"strings"
	"testing"
)

func TestCommandLinesArePrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"cat\x00a b\x00":      "cat a b",
		"x\x00\x1b[31m\n\xff": `x \x1b[31m\n\xff`,
	} {
		if got := printableCommand([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, long := range []string{strings.Repeat("a", maxCommand+1), strings.Repeat("\x1b", maxCommand)} {
		if got := printableCommand([]byte(long)); len(got) > maxCommand || !strings.HasSuffix(got, "...") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
	if got := commandLine(os.Getpid()); got == "" || commandLine(0) != "" {
		t.Errorf("%q", got)
	}
}
