package excerpt

import (
	"math"
	"strings"
	"testing"
)

func TestRing(t *testing.T) {
	r := NewRing(10)
	for _, s := range []string{"abc", "", "defgh", "ijklmnop", strings.Repeat("x", 25) + "0123456789", "!"} {
		r.Write([]byte(s))
		if len(r.buf) > 20 || r.end-r.Start() > 10 {
			t.Errorf("%d bytes are kept, %d to %d", len(r.buf), r.Start(), r.end)
		}
	}
	buf := make([]byte, 4)
	if from, n := r.Read(buf, 0); from != r.end-10 || string(buf[:n]) != "1234" {
		t.Errorf(`Read: got %d, %q; want r.end-10, "1234"`, from, buf[:n])
	}
	if from, n := r.Read(buf, r.end-1); n != 1 || buf[0] != '!' || from != r.end-1 {
		t.Errorf("Read: got from %d, %q; want n == 1 and buf[0] == '!' and from == r.end-1", from, buf[:n])
	}
	if _, n := r.Read(buf, r.end+100); n != 0 {
		t.Errorf("%d bytes behind the end", n)
	}
}

// All that can be asked for is no more than what there is.
func TestRingOfAll(t *testing.T) {
	r := NewRing(math.MaxInt)
	r.Write([]byte("abc"))
	r.Write([]byte("def"))
	buf := make([]byte, 7)
	if from, n := r.Read(buf, 0); from != 0 || string(buf[:n]) != "abcdef" {
		t.Errorf(`Read: got %d, %q; want 0, "abcdef"`, from, buf[:n])
	}
}
