package perm

import "strings"

// An item is one alternative at one position: comps[pos] of alts[alt] is what the
// next name may match. Items order by alternative, which is by rank, and then by
// position.
type item uint64

func makeItem(alt, pos int) item { return item(alt)<<16 | item(pos) }
func (it item) alt() int         { return int(it >> 16) }
func (it item) pos() int         { return int(it & 0xffff) }

// A table finds the items that take a name without trying each: by the whole
// name, by its extension, or by its first or last byte. The few patterns that
// start and end with a wildcard are tried one by one.
type table struct {
	alts  []alt
	items []item // in order
	// Each item is in one chain. next[i] is the item after items[i] in its chain: its index plus
	// one, so that 0 means the end. The values of the maps are such numbers, too.
	next    []int32
	literal map[string]int32
	ext     map[string]int32
	first   map[byte]int32
	last    map[byte]int32
	rest    int32
	fold    bool // some items match either case: their keys are in lower case
}

// newTable returns the table of items, which must not change.
func newTable(alts []alt, items []item) *table {
	t := &table{alts: alts, items: items, next: make([]int32, len(items))}
	for i := len(items) - 1; i >= 0; i-- { // so the chains are in order
		it := items[i]
		t.fold = t.fold || alts[it.alt()].fold
		n := int32(i + 1)
		switch g := &alts[it.alt()].comps[it.pos()]; {
		case g.isLiteral():
			t.next[i] = link(&t.literal, g.prefix, n)
		case g.prefix != "":
			t.next[i] = link(&t.first, g.prefix[0], n)
		case strings.IndexByte(g.suffix, '.') >= 0:
			t.next[i] = link(&t.ext, extension(g.suffix), n)
		case g.suffix != "":
			t.next[i] = link(&t.last, g.suffix[len(g.suffix)-1], n)
		default:
			t.next[i], t.rest = t.rest, n
		}
	}
	return t
}

// link makes n the first of the chain of key, and returns the former first one.
func link[K comparable](m *map[K]int32, key K, n int32) (before int32) {
	if *m == nil {
		*m = map[K]int32{}
	}
	before = (*m)[key]
	(*m)[key] = n
	return before
}

// extension returns name from its last dot on.
func extension(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[i:]
	}
	return ""
}

// each calls f with every item that takes name, of the alternatives before end.
func (t *table) each(name string, end int, f func(item)) {
	if t == nil {
		return
	}
	if !t.fold || !hasUpper(name) {
		t.find(name, end, f)
		return
	}
	t.find(name, end, func(it item) {
		if !t.alts[it.alt()].fold {
			f(it)
		}
	})
	t.find(lower(name), end, func(it item) {
		if t.alts[it.alt()].fold {
			f(it)
		}
	})
}

// find is each for a name whose case is as the items want it.
func (t *table) find(name string, end int, f func(item)) {
	for n := t.literal[name]; n != 0; n = t.next[n-1] {
		it := t.items[n-1]
		if it.alt() >= end {
			break // chains are in order
		}
		f(it)
	}
	t.try(t.first[name[0]], name, end, f)
	if t.ext != nil {
		t.try(t.ext[extension(name)], name, end, f)
	}
	t.try(t.last[name[len(name)-1]], name, end, f)
	t.try(t.rest, name, end, f)
}

// try calls f with those items of the chain that n begins that take name.
func (t *table) try(n int32, name string, end int, f func(item)) {
	for ; n != 0; n = t.next[n-1] {
		it := t.items[n-1]
		if it.alt() >= end {
			return
		}
		if t.alts[it.alt()].comps[it.pos()].match(name) {
			f(it)
		}
	}
}
