package perm

import (
	"cmp"
	"slices"
)

// A builtIn is a form whose alternatives are a part of the program: to parse those of a preset would take
// half a millisecond in each process that starts. builtin_table.go has them, in order.
type builtIn struct {
	form
	alts []alt
}

// builtIn returns the alternatives of f if they are built in. The caller must not change them.
func (f *form) builtIn() ([]alt, bool) {
	i, found := slices.BinarySearchFunc(builtIns[:], f, func(b builtIn, f *form) int { return b.compare(f) })
	if !found {
		return nil, false
	}
	return builtIns[i].alts, true
}

// compare orders forms.
func (f *form) compare(g *form) int {
	if c := cmp.Compare(f.Pattern, g.Pattern); c != 0 {
		return c
	}
	fold := func(f *form) int {
		if f.Fold {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(f.Except, g.Except), cmp.Compare(f.NotBelow, g.NotBelow),
		cmp.Compare(fold(f), fold(g)), cmp.Compare(f.Type, g.Type))
}
