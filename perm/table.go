package perm

import "strings"

// A step is one position of one alternative: comps[pos] of alts[alt] is what
// the next name may match. Steps order by alternative, which is by rank, and
// then by position.
type step uint64

func makeStep(alt, pos int) step { return step(alt)<<16 | step(pos) }
func (s step) alt() int          { return int(s >> 16) }
func (s step) pos() int          { return int(s & 0xffff) }

// A table finds the steps that a name can take without trying each: by the
// whole name, by its extension, or by its first or last byte. The few patterns
// that start and end with a wildcard are tried one by one.
type table struct {
	alts    []alt
	literal map[string][]step
	ext     map[string][]step
	first   map[byte][]step
	last    map[byte][]step
	rest    []step
	fold    bool // some steps match either case: their keys are in lower case
}

func newTable(alts []alt, steps []step) *table {
	t := &table{alts: alts}
	for _, s := range steps {
		t.fold = t.fold || alts[s.alt()].fold
		switch g := &alts[s.alt()].comps[s.pos()]; {
		case g.isLiteral():
			add(&t.literal, g.prefix, s)
		case g.prefix != "":
			add(&t.first, g.prefix[0], s)
		case strings.IndexByte(g.suffix, '.') >= 0:
			add(&t.ext, extension(g.suffix), s)
		case g.suffix != "":
			add(&t.last, g.suffix[len(g.suffix)-1], s)
		default:
			t.rest = append(t.rest, s)
		}
	}
	return t
}

func add[K comparable](m *map[K][]step, key K, s step) {
	if *m == nil {
		*m = map[K][]step{}
	}
	(*m)[key] = append((*m)[key], s)
}

// extension returns name from its last dot on.
func extension(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[i:]
	}
	return ""
}

// each calls f with every step that name takes, of the alternatives before
// end.
func (t *table) each(name string, end int, f func(step)) {
	if t == nil {
		return
	}
	if !t.fold || !hasUpper(name) {
		t.find(name, end, f)
		return
	}
	t.find(name, end, func(s step) {
		if !t.alts[s.alt()].fold {
			f(s)
		}
	})
	t.find(lower(name), end, func(s step) {
		if t.alts[s.alt()].fold {
			f(s)
		}
	})
}

// find calls f with the steps that name takes, or would take if it were the
// name for those that match either case.
func (t *table) find(name string, end int, f func(step)) {
	for _, s := range t.literal[name] {
		if s.alt() >= end {
			break // steps are in order
		}
		f(s)
	}
	t.try(t.first[name[0]], name, end, f)
	if t.ext != nil {
		t.try(t.ext[extension(name)], name, end, f)
	}
	t.try(t.last[name[len(name)-1]], name, end, f)
	t.try(t.rest, name, end, f)
}

func (t *table) try(steps []step, name string, end int, f func(step)) {
	for _, s := range steps {
		if s.alt() >= end {
			return
		}
		if t.alts[s.alt()].comps[s.pos()].match(name) {
			f(s)
		}
	}
}
