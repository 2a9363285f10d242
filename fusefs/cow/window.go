package cow

import "bytes"

// A window is where two texts differ: the lines of both from the first difference to the last one,
// with up to context equal lines before and after.
type window struct {
	a, b  [][]byte
	first int // lines that both have before
}

// windowOf returns the window of two texts; an empty one if they are equal. Most changes are
// small, and lines cost more than bytes.
func windowOf(a, b []byte) window {
	start := commonStart(a, b)
	if start == len(a) && start == len(b) {
		return window{}
	}
	start = linesBack(a, start, 0)
	end := linesAhead(a[start:], b[start:])
	from := linesBack(a, start, context)
	return window{
		a: splitLines(upTo(a, len(a)-end)[from:]), b: splitLines(upTo(b, len(b)-end)[from:]),
		first: bytes.Count(a[:from], newline),
	}
}

var newline = []byte{'\n'}

// block is how many bytes are compared at once.
const block = 256

// commonStart returns how many bytes at their beginning a and b have in common.
func commonStart(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for i+block <= n && bytes.Equal(a[i:i+block], b[i:i+block]) {
		i += block
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// commonEnd is commonStart for their ends.
func commonEnd(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for i+block <= n && bytes.Equal(a[len(a)-i-block:len(a)-i], b[len(b)-i-block:len(b)-i]) {
		i += block
	}
	for i < n && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	return i
}

// linesBack returns where the line of text begins that is n lines before the one with the offset
// at.
func linesBack(text []byte, at, n int) int {
	for at = bytes.LastIndexByte(text[:at], '\n') + 1; n > 0 && at > 0; n-- {
		at = bytes.LastIndexByte(text[:at-1], '\n') + 1
	}
	return at
}

// linesAhead returns how many bytes the whole lines have that a and b have in common at their ends.
func linesAhead(a, b []byte) int {
	n := commonEnd(a, b)
	begins := func(text []byte) bool { return n == len(text) || text[len(text)-n-1] == '\n' }
	if n == 0 || begins(a) && begins(b) {
		return n
	}
	i := bytes.IndexByte(a[len(a)-n:], '\n')
	if i < 0 {
		return 0
	}
	return n - i - 1
}

// upTo returns text up to the offset at, where a line begins, and context lines more.
func upTo(text []byte, at int) []byte {
	for range context {
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			at += i + 1
		} else {
			at = len(text)
		}
	}
	return text[:at]
}
