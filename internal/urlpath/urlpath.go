// Package urlpath keeps the path of a request as its client sent it.
package urlpath

import (
	"fmt"
	"net/url"
	"strings"
)

// Keep has u.EscapedPath return the path that u was parsed from, with those bytes escaped that a path cannot have. Without it one
// such byte has the whole path be encoded anew, so that %2F becomes a slash.
func Keep(u *url.URL) {
	if u.RawPath == "" { // the default encoding of Path is the path
		return
	}
	var b strings.Builder
	for _, c := range []byte(u.RawPath) {
		if isPath(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	u.RawPath = b.String()
}

// isPath reports whether a path can have a byte (RFC 3986, 3.3, and the brackets, which browsers send).
func isPath(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@/%[]", c) >= 0
}
