package console

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// A Color is a control sequence that a terminal shows text with.
type Color string

// The colors of wolffia. They are few: what matters most is plain.
const (
	Plain  Color = ""
	Bold   Color = "\x1b[1m"
	Red    Color = "\x1b[31m"
	Green  Color = "\x1b[32m"
	Yellow Color = "\x1b[33m"
	Cyan   Color = "\x1b[36m"
)

// Paint returns text in a color of which the terminal's own follows.
func (c Color) Paint(text string) string {
	if c == Plain || text == "" {
		return text
	}
	return string(c) + text + "\x1b[m"
}

// FlagColor is the name of the flag that [Console.AddColor] adds.
const FlagColor = "color"

// A colorChoice is the value of the flag --color; empty: auto.
type colorChoice string

func (v *colorChoice) String() string { return string(*v) }
func (v *colorChoice) Type() string   { return "string" }

// Set implements pflag.Value.
func (v *colorChoice) Set(s string) error {
	if !slices.Contains([]string{"auto", "always", "never"}, s) {
		return fmt.Errorf("%q: it must be auto, always or never", s)
	}
	*v = colorChoice(s)
	return nil
}

// AddColor gives a command, and those below it, the flag --color.
func (c *Console) AddColor(cmd *cobra.Command) {
	cmd.PersistentFlags().Var(&c.color, FlagColor,
		"colors: auto (default: at a terminal, without NO_COLOR), always or never")
}

// Colors reports whether what is printed on o has colors.
func (c *Console) Colors(o *Output) bool {
	return c.color.wanted(os.Getenv, func() bool { return o != nil && o.IsTerminal() })
}

// wanted reports whether there are colors, with an environment.
func (v colorChoice) wanted(getenv func(string) string, terminal func() bool) bool {
	if v == "always" || v == "never" {
		return v == "always"
	}
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && terminal()
}

// Paint returns text for standard output in a color, if it has colors.
func (c *Console) Paint(color Color, text string) string {
	if !c.Colors(c.Out) {
		return text
	}
	return color.Paint(text)
}

// Width returns the columns of the terminal that the stream is; 0: it is none.
func (o *Output) Width() int {
	w, _, err := term.GetSize(int(o.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// Wrap breaks a text between words into lines of at most width columns, beside the indent of the
// second and later ones. A longer word is not broken. width 0 breaks nothing.
func Wrap(text string, width int, indent string) string {
	if width <= 0 {
		return text
	}
	return wrapWords(strings.Fields(text), 0, width, indent)
}

// wrapWords is Wrap for words that begin at a column.
func wrapWords(words []string, column, width int, indent string) string {
	var b strings.Builder
	for i, word := range words {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// WrapLine breaks a line of wolffia's between words for a terminal of width columns; 0: it is none.
// before is how many columns precede the line. The commands or flags at its end, which users paste,
// are not broken; a word before them that is too long is, after commas.
func WrapLine(text string, width, before int) string {
	if width <= 0 || before+utf8.RuneCountInString(text) <= width {
		return text
	}
	own := strings.TrimLeft(text, " ")
	lead := text[:len(text)-len(own)]
	indent := lead + "  "
	at := pasted(own)
	var words []string
	for word := range strings.FieldsSeq(own[:at]) {
		words = append(words, afterCommas(word, width-len(indent))...)
	}
	for unit := range strings.SplitAfterSeq(own[at:], "; ") {
		for part := range strings.SplitAfterSeq(unit, ", ") {
			if part = strings.TrimSpace(part); part != "" {
				words = append(words, part)
			}
		}
	}
	return lead + wrapWords(words, before-2, width-len(indent), indent)
}

// afterCommas breaks a word after commas into parts of at most width columns, if it has such. No two
// of them fit into one line.
func afterCommas(word string, width int) (parts []string) {
	for next := range strings.SplitAfterSeq(word, ",") {
		if n := len(parts) - 1; n >= 0 && utf8.RuneCountInString(parts[n]+next) <= width {
			parts[n] += next
		} else {
			parts = append(parts, next)
		}
	}
	return parts
}

// pasted returns where in a line the commands or flags for the user begin; its length if there are
// none.
func pasted(line string) int {
	at := len(line)
	for _, mark := range []string{": -", ": wolffia ", " it: "} {
		if i := strings.Index(line, mark); i >= 0 {
			at = min(at, i+strings.Index(mark, ":")+2)
		}
	}
	return at
}

// PrintLine prints a line about a sandbox on standard output, as WrapLine breaks it.
func (c *Console) PrintLine(text string) {
	fmt.Fprintln(c.Out, WrapLine(Printable(text), c.Out.Width(), 0))
}

// WrapText is Wrap for paragraphs. A paragraph stays as it is if it fits, or has an indented line.
func WrapText(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		wide := slices.ContainsFunc(strings.Split(p, "\n"), func(line string) bool {
			return utf8.RuneCountInString(line) > width
		})
		if wide && !strings.HasPrefix(p, " ") && !strings.Contains(p, "\n ") {
			paragraphs[i] = Wrap(p, width, "")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// narrowest is the width below which no column is cut. One at the end that has less is left out.
const narrowest = 8

// fit returns the widths of columns that fit into a terminal, and the gap between them. It makes the
// widest narrower, but never the first ones, which have what a user gives to other commands: so many
// as kept says. No column becomes narrower than its least. width 0 keeps all.
func fit(widths, least []int, kept, width int) (fitted []int, gap int) {
	fitted, gap = slices.Clone(widths), 3
	total := func() (n int) {
		for _, w := range fitted {
			n += w
		}
		return n + gap*(len(fitted)-1)
	}
	if width <= 0 || total() <= width {
		return fitted, gap
	}
	gap = 2
	for total() > width {
		widest := -1
		for i := kept; i < len(fitted); i++ {
			if fitted[i] > least[i] && (widest < 0 || fitted[i] >= fitted[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		fitted[widest]--
	}
	return fitted, gap
}

// cut returns at most so many characters of a cell: the end of a path, the start of all else.
func cut(cell string, most int) string {
	r := []rune(cell)
	switch {
	case len(r) <= most:
		return cell
	case strings.HasPrefix(cell, "/"):
		return "..." + string(r[len(r)-most+3:])
	}
	return string(r[:most-3]) + "..."
}

// longest is how many characters the longest word of a cell has.
func longest(cell string) (n int) {
	for _, word := range strings.Fields(cell) {
		n = max(n, utf8.RuneCountInString(word))
	}
	return n
}

// below returns the rows that a row becomes whose cells go on below themselves.
func below(cells []string, widths []int) (rows [][]string) {
	for i, cell := range cells {
		for n, line := range strings.Split(Wrap(cell, widths[i], ""), "\n") {
			if n == len(rows) {
				rows = append(rows, make([]string, len(cells)))
			}
			rows[n][i] = line
		}
	}
	return rows
}

// layOut returns the lines of a table with aligned columns, in a terminal of width columns; 0: it
// is none, and nothing is cut. The first columns, so many as kept says, are never cut; with wrap no
// cell is, and what does not fit goes on below. paint gives a cell its color.
func layOut(rows [][]string, kept int, wrap bool, width int, paint func(row int, cell string) string) (lines []string) {
	var widths, least []int
	for _, cells := range rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths, least = append(widths, 0), append(least, narrowest)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			if wrap {
				least[i] = max(least[i], longest(cell))
			}
		}
	}
	widths, gap := fit(widths, least, kept, width)
	if wrap && width > 0 {
		var more [][]string
		for _, cells := range rows {
			more = append(more, below(cells, widths)...)
		}
		rows = more
	}
	for row, cells := range rows {
		var b strings.Builder
		column := 0
		for i, cell := range cells {
			room := widths[i]
			if width > 0 && i > 0 {
				room = min(room, width-column)
			}
			if room < min(widths[i], narrowest) {
				break // it would go on in the next line
			}
			cell = cut(cell, room)
			b.WriteString(paint(row, cell))
			if i < len(cells)-1 {
				space := widths[i] - utf8.RuneCountInString(cell) + gap
				b.WriteString(strings.Repeat(" ", space))
			}
			column += widths[i] + gap
		}
		line := b.String()
		if width > 0 {
			line = strings.TrimRight(line, " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// ofWord are the colors of words that are states, where a table has them.
var ofWord = map[string]Color{
	"running": Green, "hibernated": Yellow, "stopped": Yellow, "dead": Red, "damaged": Red,
	"trusted": Green, "changed": Yellow, "missing": Red, "unreadable": Red,
}

// label is what begins a line of wolffia's on standard error.
func (c *Console) label(color Color) string {
	if !c.Colors(c.Err) {
		return "wolffia:"
	}
	return color.Paint("wolffia:")
}

// Say prints lines on standard error, also if the user wants no warnings.
func (c *Console) Say(lines ...string) {
	for _, text := range lines {
		c.line(Bold, text, "", "\n")
	}
}

// Sayf is Say with a format.
func (c *Console) Sayf(format string, args ...any) { c.Say(fmt.Sprintf(format, args...)) }

// SayRaw is Say where the terminal is raw, and the cursor may be anywhere.
func (c *Console) SayRaw(text string) { c.line(Bold, text, "\r\n", "\r\n") }

// Fail prints an error.
func (c *Console) Fail(err error) { c.line(Red, Printable(err.Error()), "", "\n") }

// line prints a line of wolffia's between before and after, in the place of that of the progress.
func (c *Console) line(color Color, text, before, after string) {
	c.progress.mu.Lock()
	defer c.progress.mu.Unlock()
	c.eraseProgress()
	if width := c.Err.Width(); width > 0 {
		text = strings.ReplaceAll(WrapLine(text, width, len("wolffia: ")), "\n", after)
	}
	fmt.Fprint(c.Err, before+c.label(color)+" "+text+after)
}
