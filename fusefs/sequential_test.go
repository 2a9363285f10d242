package fusefs

import (
	"sync/atomic"
	"testing"
)

// TestWalking: a program that asks for many names and reads little goes through the tree. The tree
// reports it once, and once more after the kernel has backing.Forgotten the names.
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
		"few names":              {[]use{{checkEvery - 1, "a", 0}}, 0},
		"names":                  {[]use{{checkEvery, "a", 3}}, 1},
		"more names":             {[]use{{10 * checkEvery, "a", 0}}, 1},
		"content":                {[]use{{10 * checkEvery, "a", 10 * checkEvery / lookupsPerRead}}, 0},
		"names after content":    {[]use{{checkEvery, "a", 20}, {checkEvery, "a", 20}}, 1},
		"a listing ahead":        {[]use{{10 * checkEvery, ".gitignore", 0}}, 0},
		"names beside a listing": {[]use{{10 * checkEvery, ".gitignore", 0}, {checkEvery, "a", 0}}, 1},
	} {
		said := 0
		w := sequentialLookups{report: func() { said++ }}
		var reads atomic.Uint64
		for _, u := range c.uses {
			reads.Store(u.reads)
			for range u.names {
				w.count(u.name, &reads)
			}
		}
		if said != c.want {
			t.Errorf("%s: said %d times, want %d", what, said, c.want)
		}
	}
	said := 0
	w := sequentialLookups{report: func() { said++ }}
	for range 3 {
		for range 2 * checkEvery {
			w.count("a", new(atomic.Uint64))
		}
		w.reset()
	}
	if said != 3 {
		t.Errorf("a tree that the kernel forgets twice: said %d times, want 3", said)
	}
	var nobody sequentialLookups
	for range checkEvery {
		nobody.count("a", new(atomic.Uint64))
	}
}
