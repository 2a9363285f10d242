package console

import (
	"slices"
	"strings"
	"testing"
)

func TestColorsWanted(t *testing.T) {
	for _, c := range []struct {
		choice, noColor, term string
		terminal, want        bool
	}{
		{"", "", "xterm", true, true},
		{"auto", "", "", true, true},
		{"", "", "xterm", false, false},
		{"", "1", "xterm", true, false},
		{"", "", "dumb", true, false},
		{"always", "1", "dumb", false, true},
		{"never", "", "xterm", true, false},
	} {
		env := map[string]string{"NO_COLOR": c.noColor, "TERM": c.term}
		v := colorChoice(c.choice)
		if got := v.wanted(func(k string) string { return env[k] }, func() bool { return c.terminal }); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"a bb ccc", 4, "a bb\n  ccc"},
		{"a bb ccc", 0, "a bb ccc"},
		{"aaaaaaaa b", 4, "aaaaaaaa\n  b"},
		{"\u00e4\u00e4 \u00e4\u00e4", 5, "\u00e4\u00e4 \u00e4\u00e4"},
		{"", 4, ""},
	} {
		if got := Wrap(c.text, c.width, "  "); got != c.want {
			t.Errorf("Wrap(%q, %d): %q", c.text, c.width, got)
		}
	}
	const text = "short\nlines\n\na longer\nline\n\n  indented is kept"
	if got, want := WrapText(text, 6), "short\nlines\n\na\nlonger\nline\n\n  indented is kept"; got != want {
		t.Errorf("WrapText: %q", got)
	}
}

// A table fits into a terminal, keeps its first column, and is whole elsewhere.
func TestLayOut(t *testing.T) {
	plain := func(_ int, cell string) string { return cell }
	rows := [][]string{
		{"ID", "CODEBASE", "LABELS"},
		{"0123456789ab", "/home/user/src/a/long/project", "a=" + strings.Repeat("x", 100)},
	}
	whole := layOut(rows, 1, false, 0, plain)
	if want := "0123456789ab   /home/user/src/a/long/project   " + rows[1][2]; whole[1] != want {
		t.Errorf("in a pipe: %q, want %q", whole[1], want)
	}
	for _, width := range []int{120, 80, 40} {
		for _, line := range layOut(rows, 1, false, width, plain)[1:] {
			if len(line) > width || !strings.HasPrefix(line, "0123456789ab  ") {
				t.Errorf("%d columns: %q has %d", width, line, len(line))
			}
		}
	}
	if got := layOut(rows, 1, false, 40, plain)[1]; !strings.Contains(got, "...") || !strings.Contains(got, "project") {
		t.Errorf("what is cut: %q", got)
	}
	if got := layOut(rows, 1, false, 20, plain); !slices.Equal(got, []string{"ID", "0123456789ab"}) {
		t.Errorf("20 columns: %q", got)
	}
	painted := layOut([][]string{{"A", "B"}, {"a", "b"}}, 1, false, 0, func(row int, cell string) string {
		return []Color{Bold, Plain}[row].Paint(cell)
	})
	if want := []string{"\x1b[1mA\x1b[m   \x1b[1mB\x1b[m", "a   b"}; !slices.Equal(painted, want) {
		t.Errorf("painted: %q", painted)
	}
}

// Names are not cut, and texts go on below.
func TestLayOutKeeps(t *testing.T) {
	plain := func(_ int, cell string) string { return cell }
	rows := [][]string{{"ID", "NAME", "CODEBASE"}, {"0123", strings.Repeat("n", 20), "/home/user/project"}}
	if got, want := layOut(rows, 2, false, 40, plain)[1], "0123  "+rows[1][1]+"  ...r/project"; got != want {
		t.Errorf("kept: got %q, want %q", got, want)
	}
	rows = [][]string{{"LIST", "HOSTS", "REASON"}, {"@go", "proxy.example:443 sum.example:443", "the go command"}}
	want := []string{"LIST  HOSTS              REASON", "@go   proxy.example:443  the go", "      sum.example:443    command"}
	if got := layOut(rows, 1, true, 34, plain); !slices.Equal(got, want) {
		t.Errorf("wrapped: got %q, want %q", got, want)
	}
	if got := layOut(rows, 1, true, 0, plain); len(got) != 2 {
		t.Errorf("in a pipe: %q", got)
	}
}

// What a user pastes stays on one line.
func TestWrapLine(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"short", 40, "short"},
		{"denied by the rules: lookup .env; to allow it: --reveal '/.env=read'", 0, "denied by the rules: lookup .env; to allow it: --reveal '/.env=read'"},
		{"denied by the rules: lookup .env; to allow it: --reveal '/.env=read'", 30, "denied by the rules:\n  lookup .env; to allow it:\n  --reveal '/.env=read'"},
		{"it stays: wolffia ls box, wolffia rm -f box; more", 22, "it stays:\n  wolffia ls box,\n  wolffia rm -f box;\n  more"},
		{"not found: to install it: npm install -g some-program", 30, "not found: to install\n  it:\n  npm install -g some-program"},
		{"over rule *.env=none (except {aaa,bbb,ccc,ddd,eee,fff}.env) of preset", 22, "over rule\n  *.env=none (except\n  {aaa,bbb,ccc,ddd,\n  eee,fff}.env) of\n  preset"},
		{"  files: one, two, three, four", 24, "  files: one,\n    two, three, four"},
	} {
		if got := WrapLine(c.text, c.width, min(c.width, 9)); got != c.want {
			t.Errorf("%d: got %q, want %q", c.width, got, c.want)
		}
	}
}
