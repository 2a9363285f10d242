package swerex

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// sequence is a control sequence of a terminal (ECMA-48), as SWE-ReX removes it.
var sequence = regexp.MustCompile(`\x1b[@-_][0-?]*[ -/]*[@-~]`)

// clean returns output as SWE-ReX has it.
func clean(out []byte) string {
	return strings.ReplaceAll(sequence.ReplaceAllLiteralString(escape(out), ""), "\r\n", "\n")
}

// escape returns text in which bytes that are not UTF-8 are \xNN, as Python's backslashreplace has it.
func escape(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var text strings.Builder
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		if c == utf8.RuneError && n == 1 {
			fmt.Fprintf(&text, `\x%02x`, b[0])
		} else {
			text.Write(b[:n])
		}
		b = b[n:]
	}
	return text.String()
}

// lost says how many bytes of output are not there any more, once.
func (r *running) lost() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped == 0 {
		return ""
	}
	text := fmt.Sprintf("[%d bytes before this are dropped]\n", r.dropped)
	r.dropped = 0
	return text
}

// seconds returns a time-out. One that is not above 0 is over at once.
func seconds(s float64) time.Duration {
	return time.Duration(max(1, min(s*float64(time.Second), math.MaxInt64/2)))
}
