package perm

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxAlternatives bounds what one pattern may expand to.
const maxAlternatives = 256

// braced are the bytes with a meaning of their own before braces are expanded.
var braced = bytesOf(`{}\[`)

// expand returns the patterns that a pattern with braces stands for. Escapes stay:
// the component parser reads them later.
func expand(s string) ([]string, error) { return new(expansion).of(s) }

// of is expand with memory that the next call uses again.
func (e *expansion) of(s string) ([]string, error) {
	if braced.index(s) < 0 {
		return []string{s}, nil
	}
	if e.text == nil {
		e.text, e.ends, e.head = make([]byte, 0, 1<<10), make([]int, 0, 32), make([]byte, 0, 128)
	}
	e.text, e.ends, e.head = e.text[:0], e.ends[:0], e.head[:0]
	if err := e.add(s, nil); err != nil {
		return nil, err
	}
	text, start := string(e.text), 0
	out := make([]string, len(e.ends))
	for i, end := range e.ends {
		out[i], start = text[start:end], end
	}
	return out, nil
}

// An expansion is the patterns that one with braces stands for, as far as they are known.
type expansion struct {
	text []byte // all patterns, one after the other
	ends []int  // in text
	head []byte // the beginning of the next pattern
}

// A tail is what follows a part of a pattern.
type tail struct {
	s    string
	next *tail
}

// add adds the patterns that head, s and what follows stand for.
func (e *expansion) add(s string, next *tail) error {
	for i := braced.index(s); i >= 0 && i < len(s); {
		switch s[i] {
		case '}':
			return invalid("unmatched }: write \\} for the byte itself")
		case '{':
			parts, n, err := splitBraces(s[i:])
			if err != nil {
				return err
			}
			e.head = append(e.head, s[:i]...)
			head, rest := len(e.head), &tail{s[i+n:], next}
			for _, part := range parts {
				e.head = e.head[:head]
				if err := e.add(part, rest); err != nil {
					return err
				}
			}
			return nil
		}
		n, err := tokenLen(s[i:])
		if err != nil {
			return err
		}
		i += n
	}
	e.head = append(e.head, s...)
	if next != nil {
		return e.add(next.s, next.next)
	}
	if len(e.ends) == maxAlternatives {
		return invalid("more than %d alternatives in braces", maxAlternatives)
	}
	e.text = append(e.text, e.head...)
	e.ends = append(e.ends, len(e.text))
	return nil
}

// splitBraces splits the brace expression at the front of s at its own commas. n is
// the length of the expression with its braces.
func splitBraces(s string) (parts []string, n int, err error) {
	depth, start := 1, 1
	parts = make([]string, 0, min(1+strings.Count(s, ","), 16)) // most have fewer; it is called for each level
	for i := 1; i < len(s); {
		switch s[i] {
		case '{':
			depth++
			i++
		case ',':
			if depth == 1 {
				parts = append(parts, s[start:i])
				start = i + 1
			}
			i++
		case '}':
			depth--
			i++
			if depth > 0 {
				continue
			}
			if len(parts) == 0 {
				return nil, 0, invalid("braces without a comma: write \\{ and \\} for the bytes themselves")
			}
			return append(parts, s[start:i-1]), i, nil
		default:
			t, err := tokenLen(s[i:])
			if err != nil {
				return nil, 0, err
			}
			i += t
		}
	}
	return nil, 0, invalid("unclosed {: write \\{ for the byte itself")
}

// tokenLen returns the length of the escape, set or single byte that s, which
// is not empty, starts with.
func tokenLen(s string) (int, error) {
	if s[0] != '\\' && s[0] != '[' {
		return 1, nil // most; the rest is apart so that the compiler can inline this
	}
	return longTokenLen(s)
}

// longTokenLen is tokenLen for an escape or a set.
func longTokenLen(s string) (int, error) {
	if s[0] == '[' {
		return setLen(s)
	}
	_, n, err := unescape(s)
	return n, err
}

// unescape returns the byte that the escape at the front of s stands for, and
// the length of the escape.
func unescape(s string) (c byte, n int, err error) {
	if len(s) == 1 {
		return 0, 0, invalid("backslash at the end")
	}
	c, n = s[1], 2
	if c == 'x' {
		if len(s) < 4 {
			return 0, 0, invalid("\\x without two hexadecimal digits")
		}
		v, err := strconv.ParseUint(s[2:4], 16, 8)
		if err != nil {
			return 0, 0, invalid("\\x without two hexadecimal digits")
		}
		c, n = byte(v), 4
	}
	if c == '/' || c == 0 {
		return 0, 0, invalid("%q stands for a byte that no name can have", s[:n])
	}
	return c, n, nil
}

// setLen returns the length of the set that s starts with. A closing bracket
// that comes first is a member.
func setLen(s string) (int, error) {
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		i++
	}
	for first := i; i < len(s) && s[i] != '/'; i++ {
		switch {
		case s[i] == ']' && i > first:
			return i + 1, nil
		case s[i] == '\\':
			i++
		case s[i] == '[' && i+1 < len(s) && strings.IndexByte(":.=", s[i+1]) >= 0:
			return 0, invalid("named sets such as [:alpha:] are not supported")
		}
	}
	return 0, invalid("unclosed [: write \\[ for the byte itself")
}

// Quote returns a pattern that matches exactly the bytes of name; its slashes stay separators. The
// result is printable text for any bytes. It is not anchored: put a slash before it for a path
// relative to the root.
func Quote(name string) string {
	var b strings.Builder
	for first := true; len(name) > 0; first = false {
		r, n := utf8.DecodeRuneInString(name)
		switch {
		case r == utf8.RuneError && n == 1, !unicode.IsPrint(r), r == ' ' && (first || len(name) == 1):
			for _, c := range []byte(name[:n]) {
				fmt.Fprintf(&b, "\\x%02x", c)
			}
		case strings.ContainsRune(`\*?[]{}`, r):
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteString(name[:n])
		}
		name = name[n:]
	}
	return b.String()
}
