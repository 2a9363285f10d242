package fusefs

import (
	"sync/atomic"
	"testing"
)

// TestWalking: a program that asks for many names and reads little goes through the tree. The tree reports it once, and once more after
// the kernel has forgotten the names.
func TestWalking(t *testing.T) {
	type use struct {
		names int
		name  string
		reads uint64
	}
	for what, c := range map[string]struct {
		uses []use
		want int
	}{
		"few names":              {[]use{{walkNames - 1, "a", 0}}, 0},
		"names":                  {[]use{{walkNames, "a", 3}}, 1},
		"more names":             {[]use{{10 * walkNames, "a", 0}}, 1},
		"content":                {[]use{{10 * walkNames, "a", 10 * walkNames / walkReads}}, 0},
		"names after content":    {[]use{{walkNames, "a", 20}, {walkNames, "a", 20}}, 1},
		"a listing ahead":        {[]use{{10 * walkNames, ".gitignore", 0}}, 0},
		"names beside a listing": {[]use{{10 * walkNames, ".gitignore", 0}, {walkNames, "a", 0}}, 1},
	} {
		said := 0
		w := walking{report: func() { said++ }}
		var reads atomic.Uint64
		for _, u := range c.uses {
			reads.Store(u.reads)
			for range u.names {
				w.looked(u.name, &reads)
			}
		}
		if said != c.want {
			t.Errorf("%s: said %d times, want %d", what, said, c.want)
		}
	}
	said := 0
	w := walking{report: func() { said++ }}
	for range 3 {
		for range 2 * walkNames {
			w.looked("a", new(atomic.Uint64))
		}
		w.again()
	}
	if said != 3 {
		t.Errorf("a tree that the kernel forgets twice: said %d times, want 3", said)
	}
	var nobody walking
	for range walkNames {
		nobody.looked("a", new(atomic.Uint64))
	}
}
