package cow

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	contract "wolffia/runtime"
)

// TestWindow: a window gives the edits that the whole texts give, and has the lines around them.
func TestWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	text := func() []byte {
		var b []byte
		for range r.IntN(14) {
			b = append(b, bytes.Repeat([]byte{byte('a' + r.IntN(2))}, r.IntN(3)*r.IntN(3)*block/3)...)
			b = append(b, '\n')
		}
		return append(b, []string{"", "", "end"}[r.IntN(3)]...)
	}
	for range 20000 {
		old := text()
		changed := slices.Clone(old)
		switch at := r.IntN(len(old) + 1); r.IntN(4) {
		case 0:
			changed = slices.Insert(changed, at, text()...)
		case 1:
			changed = slices.Delete(changed, at, at+r.IntN(len(old)-at+1))
		case 2:
			changed = text()
		}
		a, b := splitLines(old), splitLines(changed)
		want := compareLines(a, b)
		v := windowOf(old, changed)
		got := compareLines(v.a, v.b)
		for i := range got {
			e := &got[i]
			e.a, e.b, e.c, e.d = e.a+v.first, e.b+v.first, e.c+v.first, e.d+v.first
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q to %q: the window gives %v, the texts give %v", old, changed, got, want)
		}
		if len(want) == 0 {
			continue
		}
		first, last := want[0], want[len(want)-1]
		from, to := max(first.a-context, 0), min(last.b+context, len(a))
		if v.first > from || !slices.EqualFunc(v.a[from-v.first:to-v.first], a[from:to], bytes.Equal) {
			t.Fatalf("%q to %q: the window from line %d has not the lines around the changes", old, changed, v.first)
		}
	}
}

// TestWindowIsSmall: what is far from the changes has no part in the comparison of lines.
func TestWindowIsSmall(t *testing.T) {
	old := bytes.Repeat([]byte("line\n"), 10_000)
	changed := slices.Concat(old[:5*5000], []byte("new\n"), old[5*5000:])
	if v := windowOf(old, changed); len(v.a) != 2*context || len(v.b) != 2*context+1 || v.first != 5000-context {
		t.Errorf("%d and %d lines from line %d", len(v.a), len(v.b), v.first)
	}
}

// TestDiffMemory: what a diff allocates does not grow with the content of large files that have
// changed little.
func TestDiffMemory(t *testing.T) {
	const files, size = 40, 200_000
	m := newModel(t)
	text := bytes.Repeat([]byte("0123456789abcdef\n"), size/17)
	for i := range files {
		name := string(rune('a'+i%26)) + string(rune('a'+i/26))
		m.must(os.WriteFile(m.host(name), text, 0o644))
		m.write(name, string(text)+"changed\n", 0)
	}
	l := m.layers()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m.must(l.Diff(contract.DiffOptions{}, io.Discard))
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > files*size/2 {
		t.Errorf("a diff of %d files of %d bytes allocates %d bytes", files, size, got)
	}
}

// A batch of an apply leaves most of a low limit of open files to the tree that the process serves.
func TestBatchWithin(t *testing.T) {
	for openFiles, want := range map[uint64]int{0: 1, 16: 1, 200: 12, 1024: maxBatch, 1 << 20: maxBatch, ^uint64(0): maxBatch} {
		if got := batchWithin(openFiles); got != want {
			t.Errorf("batchWithin(%d): got %d files, want %d", openFiles, got, want)
		}
	}
}
