package console

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Printable makes text from a sandbox, or about one, safe for a terminal: all
// but line ends, tabs and printable characters is escaped as in a Go string.
func Printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n', r == '\t', strconv.IsPrint(r):
			b.WriteString(s[:n])
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// OneLine makes a path printable on one line.
func OneLine(path string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(Printable(path))
}

// Cell returns at most so many characters of text for a column of a table, which a long one
// would make unreadable. --json has all of it.
func Cell(s string, most int) string {
	if r := []rune(Printable(s)); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return Printable(s)
}

// Counted returns a number and a noun.
func Counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Dash returns s, or - if it is empty.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// JoinLabels returns labels on one line.
func JoinLabels(labels map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, k+"="+labels[k])
	}
	return strings.Join(all, ",")
}

// SinceThen is the age of what began at ms since 1970, for a person; 0: it is not known.
func SinceThen(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return Age(time.UnixMilli(ms))
}

// Age is how long ago something was, for a person; 0 if it is in the future, as after the clock
// was set back.
func Age(since time.Time) string { return span(max(0, time.Since(since))) }

// span is a time span that a person can read.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// Until is how long it is until a time, in ms since 1970, for a person; - if that
// is never.
func Until(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return span(max(0, time.Until(time.UnixMilli(ms))))
}

// Since is how long ago something was, to the second.
func Since(t time.Time) string { return time.Since(t).Truncate(time.Second).String() + " ago" }
