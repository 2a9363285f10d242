package cow

import (
	"fmt"
	"strings"
)

// Quote returns a path as git quotes it (core.quotePath): as it is, or in double quotes with
// escapes as in C if it has control characters, quotes, backslashes or bytes that are not ASCII.
func Quote(p string) string {
	plain := func(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }
	i := 0
	for i < len(p) && plain(p[i]) {
		i++
	}
	if i == len(p) {
		return p
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(p) {
		switch c := p[i]; {
		case plain(c):
			b.WriteByte(c)
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			if j := strings.IndexByte("\a\b\t\n\v\f\r", c); j >= 0 {
				b.WriteByte('\\')
				b.WriteByte("abtnvfr"[j])
			} else {
				fmt.Fprintf(&b, "\\%03o", c)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
