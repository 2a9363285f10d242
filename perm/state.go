package perm

import (
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
)

// The rules are one nondeterministic automaton that reads the components of a
// path: an item is one of its states. A Policy makes the deterministic automaton
// by the subset construction, one state when it is first reached, as in
// https://swtch.com/~rsc/regexp/regexp1.html ("Caching the NFA to build a DFA").

// Bounds of the states of one Policy. A directory beyond them gets the state dead.
const (
	maxStates = 1 << 14
	maxItems  = 1 << 18 // in all states together
)

// A verdict is what the alternatives that matched so far give: level, unless an
// alternative before end matches. limits[l] is the first alternative that gives no
// more than l; noLimit if all give more.
type verdict struct {
	end    int
	level  Level
	limits [Write]int
}

const noLimit = math.MaxInt

// noVerdict returns the verdict before any of n alternatives has matched.
func noVerdict(n int) verdict {
	return verdict{end: n, level: None, limits: [Write]int{noLimit, noLimit, noLimit}}
}

// match records that the alternative i, which is a, matches.
func (v *verdict) match(i int, a *alt) {
	switch {
	case a.limit:
		v.limits[a.level] = min(v.limits[a.level], i+1)
	case i < v.end:
		v.end, v.level = i, a.level
	}
}

// bound returns the highest level that the alternative i can give.
func (v *verdict) bound(i int) Level {
	for l, from := range v.limits {
		if i >= from {
			return Level(l)
		}
	}
	return Write
}

// result returns the level if nothing else matches.
func (v *verdict) result() Level { return min(v.level, v.bound(v.end)) }

// A subset is a state of the deterministic automaton before it is interned. The
// items of the unanchored alternatives at their start belong to every subset and
// are not listed: Policy.free has them.
type subset struct {
	verdict
	items []item // sorted
	below group  // alternatives of these groups match nothing
}

// A state is a reduced subset and the data derived from it.
type state struct {
	subset
	loops []item       // those of items that stay in every directory below
	table *table       // of items
	dir   Level        // level of the directory itself
	miss  atomic.Int32 // the State after a name that no item takes; 0 while unknown
}

// dead is the state in which everything is hidden.
var dead = state{subset: subset{verdict: noVerdict(0)}}

// reduce returns the subset that is the same for all directories that behave
// alike; it may change s.items. Only alternatives before s.end count, and of one
// alternative only the items from its last loop on: that loop reaches whatever an
// earlier position, or the same one a second time, reaches.
func (p *Policy) reduce(s subset) subset {
	slices.Sort(s.items)
	kept := s.items[:0]
	for _, it := range s.items {
		a := &p.alts[it.alt()]
		if it.alt() >= s.end || a.limit && a.level >= s.bound(it.alt()) || a.group&s.below != 0 {
			continue
		}
		if a.comps[it.pos()].loop {
			for n := len(kept); n > 0 && kept[n-1].alt() == it.alt(); n-- {
				kept = kept[:n-1]
			}
		}
		kept = append(kept, it)
	}
	s.items = kept
	p.trim(&s)
	if s.end <= p.groups.first {
		s.below = 0
	}
	return s
}

// trim moves s.end to the front of the alternatives that change nothing, since
// everything after them gives the same level, and drops their items.
func (p *Policy) trim(s *subset) {
	s.level = s.result()
	free := before(p.free, s.end)
	if s.level == None { // most often by a secret's rule; nothing changes that but a grant
		free = 0
		if n := before(p.grants, s.end); n > 0 {
			free = before(p.free, p.grants[n-1]+1)
		}
	}
	for s.end = 0; ; {
		last, items := -1, len(s.items)
		if items > 0 {
			last = s.items[items-1].alt()
		}
		if free > 0 && p.free[free-1] > last {
			free--
			last = p.free[free]
		} else {
			items = max(0, items-1)
		}
		if last < 0 {
			return
		}
		if !p.alts[last].idle(s.level, s.bound(last)) {
			s.end = last + 1
			return
		}
		s.items = s.items[:items]
	}
}

// idle reports whether a changes nothing where everything after it gives level
// and the limits before it leave bound.
func (a *alt) idle(level, bound Level) bool {
	if a.limit {
		return a.level >= level
	}
	return min(a.level, bound) == level
}

// before returns how many of sorted numbers are less than end.
func before(sorted []int, end int) int {
	n, _ := slices.BinarySearch(sorted, end)
	return n
}

// key appends to b what distinguishes s, which is reduced, from all subsets that
// behave otherwise. Of the limits it has only which alternatives they apply to.
func (p *Policy) key(b []byte, s *subset) []byte {
	b = append(b, byte(s.level), byte(s.below))
	b = binary.LittleEndian.AppendUint32(b, uint32(before(p.free, s.end)))
	from := s.end
	for _, limit := range s.limits[View:] {
		from = min(from, limit)
		b = binary.LittleEndian.AppendUint32(b, uint32(before(p.free, from)))
	}
	for _, it := range s.items {
		b = append(binary.LittleEndian.AppendUint64(b, uint64(it)), byte(s.bound(it.alt())))
	}
	return b
}

// newState returns the state of s, which is reduced.
func (p *Policy) newState(s subset) *state {
	st := &state{subset: subset{verdict: s.verdict, items: slices.Clone(s.items), below: s.below}, dir: s.level}
	grants := func(i int) bool {
		a := &p.alts[i]
		return i < s.end && !a.limit && a.level > None && a.group&s.below == 0
	}
	grant := slices.ContainsFunc(p.grants, grants)
	for _, it := range st.items {
		if p.alts[it.alt()].comps[it.pos()].loop {
			st.loops = append(st.loops, it)
		}
		grant = grant || grants(it.alt())
	}
	if len(st.items) > 0 {
		st.table = newTable(p.alts, st.items)
	}
	if st.dir == None && grant {
		st.dir = View
	}
	return st
}
