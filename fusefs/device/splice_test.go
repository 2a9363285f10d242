package device

import (
	"os"
	"path/filepath"
	"testing"
)

// A server has few pipes, and none without use.
func TestPipesAreFew(t *testing.T) {
	var ps pipes
	take := func() pipe {
		p, ok := ps.get()
		if !ok {
			t.Fatal("no pipe")
		}
		return p
	}
	a, b := take(), take()
	if _, ok := ps.get(); ok {
		t.Errorf("more than %d pipes", maxPipes)
	}
	ps.drop(a)
	ps.put(b)
	if p := take(); p != b {
		t.Errorf("pipe %v, want %v, which is unused", p, b)
	}
	ps.put(b)
	ps.reap() // was used meanwhile
	if ps.open != 1 || len(ps.idle) != 1 {
		t.Errorf("%d pipes, %d idle; want the one that was used", ps.open, len(ps.idle))
	}
	ps.reap()
	if ps.open != 0 || len(ps.idle) != 0 {
		t.Errorf("%d pipes, %d idle after a time without use", ps.open, len(ps.idle))
	}
	c := take()
	ps.close()
	ps.put(c)
	if _, ok := ps.get(); ok || ps.open != 0 {
		t.Errorf("%d pipes after the end", ps.open)
	}
}

// A pipe is filled completely or not at all.
func TestPipeOfAShortFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, minSplice)); err != nil {
		t.Fatal(err)
	}
	var ps pipes
	defer ps.close()
	for _, test := range []struct {
		off  int64
		size int
		full bool
	}{{0, minSplice, true}, {1, minSplice, false}, {minSplice, minSplice, false}} {
		p, ok := ps.get()
		if !ok {
			t.Fatal("no pipe")
		}
		if full := p.fill(make([]byte, OutHeader), int(f.Fd()), test.off, test.size); full != test.full {
			t.Errorf("%d bytes at %d of %d: filled %v", test.size, test.off, minSplice, full)
		}
		ps.drop(p)
	}
}
