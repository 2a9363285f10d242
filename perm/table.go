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
	alts    []alt
	literal map[string][]item
	ext     map[string][]item
	first   map[byte][]item
	last    map[byte][]item
	rest    []item
	fold    bool // some items match either case: their keys are in lower case
}

func newTable(alts []alt, items []item) *table {
	t := &table{alts: alts}
	for _, it := range items {
		t.fold = t.fold || alts[it.alt()].fold
		switch g := &alts[it.alt()].comps[it.pos()]; {
		case g.isLiteral():
			add(&t.literal, g.prefix, it)
		case g.prefix != "":
			add(&t.first, g.prefix[0], it)
		case strings.IndexByte(g.suffix, '.') >= 0:
			add(&t.ext, extension(g.suffix), it)
		case g.suffix != "":
			add(&t.last, g.suffix[len(g.suffix)-1], it)
		default:
			t.rest = append(t.rest, it)
		}
	}
	return t
}

func add[K comparable](m *map[K][]item, key K, it item) {
	if *m == nil {
		*m = map[K][]item{}
	}
	(*m)[key] = append((*m)[key], it)
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
	for _, it := range t.literal[name] {
		if it.alt() >= end {
			break // items are in order
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

func (t *table) try(items []item, name string, end int, f func(item)) {
	for _, it := range items {
		if it.alt() >= end {
			return
		}
		if t.alts[it.alt()].comps[it.pos()].match(name) {
			f(it)
		}
	}
}
