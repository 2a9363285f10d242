package console

import "testing"

// What a terminal would answer is not printed once more; all else is.
func TestWithoutQueries(t *testing.T) {
	for in, want := range map[string]string{
		"plain\r\n\x1b[31mred\x1b[0m":          "plain\r\n\x1b[31mred\x1b[0m",
		"a\x1b[6nb\x1b[5nc\x1b[?6nd":           "abcd",
		"\x1b[c\x1b[>c\x1b[=c\x1b[0cx\x1bZ":    "x",
		"\x1b[18t\x1b[>q\x1b[?u\x1b[?25$p\x05": "",
		"\x1b]10;?\a\x1b]11;?\x1b\\x":          "x",
		"\x1b]0;title\a$ ":                     "\x1b]0;title\a$ ",
		"\x1bP$qm\x1b\\x\x1bP+q544e\x1b\\":     "x",
		"\x1b[?1049h\x1b[2J\x1b[1;1H\x1b[2 q":  "\x1b[?1049h\x1b[2J\x1b[1;1H\x1b[2 q",
		"\x1b[?2004h\x1b=\x1b(B":               "\x1b[?2004h\x1b=\x1b(B",
		"cut \x1b[38;5":                        "cut \x1b[38;5",
		"\x1b":                                 "\x1b",
		"":                                     "",
	} {
		if got := string(WithoutQueries([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
