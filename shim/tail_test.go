package shim

import (
	"io"
	"strings"
	"testing"
)

// What the backend has said is given in short: a panic by its first line, however it is divided and whatever follows.
func TestTail(t *testing.T) {
	stack := "\ngoroutine 1 [running]:\n" + strings.Repeat("main.main()\n", tailSize)
	long := strings.Repeat("x", 2*tailSize)
	for text, want := range map[string]string{
		"":                                "",
		"no way\n":                        "no way",
		"a\npanic: b\n" + stack:           "panic: b",
		"fatal error: b\n" + stack:        "fatal error: b",
		"SIGSYS: b\n" + stack:             "SIGSYS: b",
		"panic: b\npanic: c\n" + stack:    "panic: b",
		"no panic: b\n":                   "no panic: b",
		"panic: b":                        "panic: b",
		long:                              long[:tailSize],
		long + "\npanic: " + long + "\nc": "panic: " + long[:lineSize-len("panic: ")],
	} {
		for _, size := range []int{1, 7, len(text) + 1} {
			tail := newTail(io.Discard)
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if m, err := io.WriteString(tail, rest[:n]); m != n || err != nil {
					t.Fatal(m, err)
				}
				rest = rest[n:]
			}
			if got := tail.String(); got != want {
				t.Errorf("%.20q by %d bytes: %.100q, want %.100q", text, size, got, want)
			}
		}
	}
}
