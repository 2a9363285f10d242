package guest

import (
	"fmt"

	"wolffia/internal/sys/tinyprogram"
)

// limitAddress returns where the code of limitProgram is, in limit_*.s.
func limitAddress() uintptr

// limitProgram returns a program that puts limits on itself and then becomes another. It is
// the code of limit_*.s, without a runtime: one more execution of a Go program costs each
// command two milliseconds, this one a tenth of that. Its arguments are
//
//	NAME FD PROCESSES DATA PATH ARG...
//
// with numbers as of limitNumber; 0 is no limit. A limit that is lower stays. It marks FD and
// the descriptor after it as close-on-exec. If it fails it writes the error's number, four
// bytes, to FD.
func limitProgram() []byte { return tinyprogram.Of(limitAddress()) }

// limitNumber returns a number as an argument of limitProgram: a letter from a to p for each
// four bits.
func limitNumber(n uint64) string {
	b := []byte(fmt.Sprintf("%016x", n))
	for i, c := range b {
		if c >= 'a' {
			b[i] = c - 'a' + 'k'
		} else {
			b[i] = c - '0' + 'a'
		}
	}
	return string(b)
}
