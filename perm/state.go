package perm

import (
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
)

// Bounds of what is kept for one Policy. Directories beyond them are sealed.
const (
	maxStates = 1 << 14
	maxSteps  = 1 << 18 // in all states together
)

// A cover is what the alternatives that already cover a directory say about
// everything below it: level, unless one of the alternatives before end
// matches. limits[l] is the alternative from which on nothing gives more than
// l; noLimit if there is none.
type cover struct {
	end    int
	level  Level
	limits [Write]int
}

const noLimit = math.MaxInt

// noCover says nothing yet: no rule matches, any of n may.
func noCover(n int) cover {
	return cover{end: n, level: None, limits: [Write]int{noLimit, noLimit, noLimit, noLimit}}
}

// match notes that the alternative i, which is a, matches.
func (c *cover) match(i int, a *alt) {
	switch {
	case a.limit:
		c.limits[a.level] = min(c.limits[a.level], i+1)
	case i < c.end:
		c.end, c.level = i, a.level
	}
}

// bound returns the most that the alternative i can give.
func (c *cover) bound(i int) Level {
	for l, from := range c.limits {
		if i >= from {
			return Level(l)
		}
	}
	return Write
}

// verdict returns the level if nothing else matches.
func (c *cover) verdict() Level { return min(c.level, c.bound(c.end)) }

// A state is the set of what is open in a directory. It holds no more than
// what can change a verdict below, so that directories that behave alike have
// the same state.
type state struct {
	cover
	open  []step // sorted; without the alternatives that start anywhere
	loops []step // those of open that stay so in every directory below
	below group  // those of these groups say nothing about what is in it
	table *table // of open
	level Level  // of the directory itself
	miss  atomic.Int32
}

// sealed is the state of which nothing is known: everything in it is hidden.
var sealed = state{cover: noCover(0)}

// reduce brings c and open, which it may change, to the form that is the same
// for all directories that behave alike. Only alternatives before c.end count,
// and of one alternative only what its last loop leaves: what an earlier
// position, or that one a second time, can reach, it can reach too.
func (p *Policy) reduce(c cover, open []step, below group) (cover, []step, group) {
	slices.Sort(open)
	kept := open[:0]
	for _, s := range open {
		a := &p.alts[s.alt()]
		if s.alt() >= c.end || a.limit && a.level >= c.bound(s.alt()) || a.group&below != 0 {
			continue
		}
		if a.loops[s.pos()] {
			for n := len(kept); n > 0 && kept[n-1].alt() == s.alt(); n-- {
				kept = kept[:n-1]
			}
		}
		kept = append(kept, s)
	}
	c, kept = p.trim(c, kept)
	if c.end <= p.groups.first {
		below = 0
	}
	return c, kept, below
}

// trim drops from the end what changes nothing, since everything after it
// gives the same level, and moves the boundaries in c to where they separate
// alternatives that are still there.
func (p *Policy) trim(c cover, open []step) (cover, []step) {
	level := c.verdict()
	free, _ := slices.BinarySearch(p.free, c.end)
	end := 0
	for free > 0 || len(open) > 0 {
		last := -1
		if n := len(open); n > 0 {
			last = open[n-1].alt()
		}
		if free > 0 && p.free[free-1] > last {
			if run := p.runs[level][free]; run < free {
				free = run
				continue
			}
			if f := p.free[free-1]; p.alts[f].idle(level, c.bound(f)) {
				free--
				continue
			}
			end = p.free[free-1] + 1
			break
		}
		if !p.alts[last].idle(level, c.bound(last)) {
			end = last + 1
			break
		}
		open = open[:len(open)-1]
	}
	out := cover{end: end, level: level, limits: noCover(0).limits}
	for l := range c.limits {
		from := p.boundary(c.limits[l], open, free)
		if from < end && (l == 0 || from < out.limits[l-1]) {
			out.limits[l] = from
		}
	}
	return out, open
}

// boundary returns the lowest number that has as many of open and of the first
// free alternatives before it as limit has.
func (p *Policy) boundary(limit int, open []step, free int) int {
	if limit == noLimit {
		return noLimit
	}
	from := 0
	if n, _ := slices.BinarySearch(p.free[:free], limit); n > 0 {
		from = p.free[n-1] + 1
	}
	if n, _ := slices.BinarySearch(open, makeStep(limit, 0)); n > 0 {
		from = max(from, open[n-1].alt()+1)
	}
	return from
}

// key appends to b what tells the state of c, open and below from all others.
func (c *cover) key(b []byte, open []step, below group) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c.end))
	b = append(b, byte(c.level), byte(below))
	for _, from := range c.limits[View:] {
		b = binary.LittleEndian.AppendUint32(b, uint32(from))
	}
	for _, s := range open {
		b = binary.LittleEndian.AppendUint64(b, uint64(s))
	}
	return b
}

// newState makes the state of c, open and below, which are reduced.
func (p *Policy) newState(c cover, open []step, below group) *state {
	s := &state{cover: c, open: slices.Clone(open), below: below, level: c.level}
	grant := p.firstGrant < c.end
	if grant && below != 0 {
		grant = slices.ContainsFunc(p.free, func(i int) bool {
			a := &p.alts[i]
			return i < c.end && !a.limit && a.level > None && a.group&below == 0
		})
	}
	for _, st := range open {
		a := &p.alts[st.alt()]
		if a.loops[st.pos()] {
			s.loops = append(s.loops, st)
		}
		grant = grant || !a.limit && a.level > None
	}
	if len(open) > 0 {
		s.table = newTable(p.alts, s.open)
	}
	if s.level == None && grant {
		s.level = View
	}
	return s
}
