package cow

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// patched returns a with the edits applied.
func patched(a, b [][]byte, edits []edit) []byte {
	var out [][]byte
	at := 0
	for _, e := range edits {
		out = append(out, a[at:e.a]...)
		out = append(out, b[e.c:e.d]...)
		at = e.b
	}
	return bytes.Join(append(out, a[at:]...), nil)
}

func TestCompareLines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(n, of int) []byte {
		var b []byte
		for range n {
			b = fmt.Appendf(b, "%d\n", r.IntN(of))
		}
		if r.IntN(3) == 0 {
			b = append(b, "no end"...)
		}
		return b
	}
	for range 3000 {
		a := splitLines(text(r.IntN(12), 4))
		b := splitLines(text(r.IntN(12), 4))
		edits := compareLines(a, b)
		if got, want := patched(a, b, edits), bytes.Join(b, nil); !bytes.Equal(got, want) {
			t.Fatalf("%q to %q: %v gives %q", a, b, edits, got)
		}
		n := 0
		for _, e := range edits {
			n += e.b - e.a + e.d - e.c
		}
		if want := fewest(a, b); n != want {
			t.Fatalf("%q to %q: %d edits, want %d", a, b, n, want)
		}
	}
	for range 20 { // more than maxEdits
		a, b := splitLines(text(3000, 5000)), splitLines(text(3000, 5000))
		if got, want := patched(a, b, compareLines(a, b)), bytes.Join(b, nil); !bytes.Equal(got, want) {
			t.Fatal("long texts")
		}
	}
}

// fewest returns the number of lines that differ, by the longest common subsequence.
func fewest(a, b [][]byte) int {
	l := make([][]int, len(a)+1)
	for i := range l {
		l[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if bytes.Equal(a[i], b[j]) {
				l[i][j] = l[i+1][j+1] + 1
			} else {
				l[i][j] = max(l[i+1][j], l[i][j+1])
			}
		}
	}
	return len(a) + len(b) - 2*l[0][0]
}
