package mcp

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// fill writes a stream in pieces.
func fill(random *rand.Rand, all []byte) *capture {
	c := newCapture()
	for rest := all; len(rest) > 0; {
		n := min(len(rest), 1+random.IntN(1<<20))
		_, _ = c.Write(rest[:n])
		rest = rest[n:]
	}
	return c
}

// What is read by offsets is the stream, but for what was dropped in its middle.
func TestCapture(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 1000, keptHead, keptHead + 5, keptHead + keptTail, keptHead + keptTail + 1, 3 * keptHead} {
		all := make([]byte, size)
		for i := range all {
			all[i] = byte(random.Uint32())
		}
		c := fill(random, all)
		if c.size() != int64(size) || c.held() > keptHead+2*keptTail {
			t.Fatalf("of %d bytes, %d, and %d are held", size, c.size(), c.held())
		}
		var got []byte
		dropped := int64(0)
		for at := int64(0); at < int64(size); {
			from, b := c.read(at, 1+random.IntN(1<<20))
			if len(b) == 0 || from < at {
				t.Fatalf("of %d bytes, at %d: %d from %d on", size, at, len(b), from)
			}
			dropped += from - at
			got, at = append(got, b...), from+int64(len(b))
		}
		want := all
		if size > keptHead+keptTail {
			want = append(bytes.Clone(all[:keptHead]), all[size-keptTail:]...)
		}
		if !bytes.Equal(got, want) || int(dropped) != size-len(want) {
			t.Fatalf("of %d bytes, %d were read and %d dropped", size, len(got), dropped)
		}
		for _, at := range []int64{-5, int64(size), int64(size) + 5} {
			if _, b := c.read(at, 10); at > 0 && len(b) > 0 {
				t.Errorf("%d bytes after the end", len(b))
			}
		}
	}
}

// An extract has the bytes that were asked for at most, is valid UTF-8, and its gap fits.
func TestExtract(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		var text strings.Builder
		for range random.IntN(60) {
			text.WriteString([]string{"a", "ä", "€", "🙂", "\n", "line\n", "\xff"}[random.IntN(7)])
		}
		all := text.String()
		most := 1 + random.IntN(100)
		c := fill(random, []byte(all))
		x := c.extract(most)
		if !utf8.ValidString(x.head) || !utf8.ValidString(x.tail) {
			t.Fatalf("%q: got x.head %q, x.tail %q; want utf8.ValidString(x.head) and utf8.ValidString(x.tail)", all, x.head, x.tail)
		}
		if x.to == 0 {
			if x.head != strings.ToValidUTF8(all, "\ufffd") || len(all) > most {
				t.Fatalf("%q, at most %d: %q", all, most, x.head)
			}
			continue
		}
		if x.from+x.total-x.to > int64(most) || x.from > x.to || x.total != int64(len(all)) {
			t.Fatalf("%q, at most %d: from %d to %d of %d", all, most, x.from, x.to, x.total)
		}
		if x.head != valid([]byte(all[:x.from])) || x.tail != valid([]byte(all[x.to:])) {
			t.Fatalf("extract: got all %q, x.head %q, x.tail %q; want x.head == valid([]byte(all[:x.from])) and x.tail == valid([]byte(all[x.to:]))",
				all, x.head, x.tail)
		}
	}
}

func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "a\nb\n\n": "b", "10%\r20%\r": "20%", strings.Repeat("x", 1000): strings.Repeat("x", lastSize),
	} {
		c := newCapture()
		_, _ = c.Write([]byte(text))
		if got := c.lastLine(); got != want {
			t.Errorf("%.20q: %q, want %q", text, got, want)
		}
	}
}

// The oldest outputs are dropped, the last one never.
func TestOutputs(t *testing.T) {
	o := newOutputs()
	big := newCapture()
	_, _ = big.Write(make([]byte, keptHead))
	var ids []string
	for range maxOutputs + 10 {
		ids = append(ids, o.add(nil, newCapture(), newCapture()))
	}
	if o.get(nil, ids[9]) != nil || o.get(nil, ids[10]) == nil || o.get(nil, "o0") != nil || o.get(new(Server), ids[10]) != nil {
		t.Error("not the last outputs are kept")
	}
	for range 3 * maxOutputBytes / keptHead {
		ids = append(ids, o.add(nil, big, newCapture()))
	}
	if n := len(o.list); n != maxOutputBytes/keptHead || o.get(nil, ids[len(ids)-1]) == nil {
		t.Errorf("%d outputs are kept", n)
	}
}
