package perm

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A State stands for a directory: two directories of equal State have equal levels
// everywhere below them. A State belongs to the Policy that returned it and is valid as
// long as that Policy. The zero State is that of a directory in which everything is
// hidden. A State of another Policy means the zero State or any of this Policy's own.
type State int32

// A Policy is a compiled list of rules. It is safe for concurrent use. The zero
// Policy hides everything.
type Policy struct {
	rules  []Rule
	alts   []alt // in the order in which they decide
	copies bool  // a rule has Copies set

	free      []int  // the unanchored alternatives, which start in every directory
	freeTable *table // of their items
	grants    []int  // those of free that give more than None
	groups    groups

	root   State
	states atomic.Pointer[[]*state] // by State; grows only

	mu    sync.RWMutex
	known map[string]State // by key; guarded by mu
	items int              // in all states; guarded by mu
}

// start makes the state of the root.
func (p *Policy) start() {
	p.known = map[string]State{}
	p.states.Store(&[]*state{&dead})
	root := subset{verdict: noVerdict(len(p.alts))}
	for i := range p.alts {
		switch a := &p.alts[i]; {
		case len(a.comps) == 0:
			root.match(i, a)
		case !a.comps[0].loop:
			root.items = append(root.items, makeItem(i, 0))
		}
	}
	p.root = p.intern(p.reduce(root))
}

// Rules returns a copy of the rules that p was compiled from.
func (p *Policy) Rules() []Rule { return slices.Clone(p.rules) }

// Root returns the state of the root directory.
func (p *Policy) Root() State { return p.root }

// RootLevel returns the level of the root directory, which is at least View.
func (p *Policy) RootLevel() Level { return max(View, p.state(p.root).dir) }

// Enter returns the State of the directory called name in a directory of State s. It
// does not tell whether that directory may be seen: Child does. The result is the zero
// State if name cannot be a file's name, or if the Policy has reached the maximum
// number of states, which only a tree built for that purpose does.
func (p *Policy) Enter(s State, name string) State {
	st := p.state(s)
	if !validName(name) {
		return 0
	}
	if st.end == 0 {
		return s // no rule can say more
	}
	var buf [96]item
	next := subset{verdict: st.verdict, items: buf[:0], below: st.below | p.groups.of(name)}
	matched := next.below != st.below
	take := func(at item) {
		i, pos := at.alt(), at.pos()+1
		a := &p.alts[i]
		if a.group&st.below != 0 {
			return
		}
		matched = true
		switch {
		case pos < len(a.comps):
			next.items = append(next.items, makeItem(i, pos))
		case a.kind != File:
			next.match(i, a)
		}
	}
	st.table.each(name, st.end, take)
	p.freeTable.each(name, st.end, take)
	if miss := st.miss.Load(); !matched && miss != 0 {
		return State(miss)
	}
	next.items = append(next.items, st.loops...)
	s = p.intern(p.reduce(next))
	if !matched {
		st.miss.Store(int32(s))
	}
	return s
}

// Child returns the level of the entry called name in a directory of State s. dir
// tells whether the entry is a directory.
func (p *Policy) Child(s State, name string, dir bool) Level {
	if dir {
		return p.state(p.Enter(s, name)).dir
	}
	if !validName(name) {
		return None
	}
	st := p.state(s)
	v := st.verdict
	as := name // the name to look for: name, or the name of a file that it may be a copy of
	take := func(at item) {
		a := &p.alts[at.alt()]
		if at.pos()+1 == len(a.comps) && a.kind != Directory && a.group&st.below == 0 && !(a.copies && a.comps[at.pos()].exceptsCopy(as)) {
			v.match(at.alt(), a)
		}
	}
	st.table.each(name, st.end, take)
	p.freeTable.each(name, st.end, take)
	if !p.copies {
		return v.result()
	}
	takeCopy := func(at item) {
		if p.alts[at.alt()].copies {
			take(at)
		}
	}
	names, n := originals(name)
	for _, as = range names[:n] {
		st.table.each(as, st.end, takeCopy)
		p.freeTable.each(as, st.end, takeCopy)
	}
	return v.result()
}

// Constant returns the level of everything below a directory of State s, and whether
// that level is the same for all names.
func (p *Policy) Constant(s State) (Level, bool) {
	st := p.state(s)
	return st.level, st.end == 0
}

// Level returns the level of a path relative to the root, which is "" or ".". dir tells
// whether the path is a directory's. A path that is absolute or has an empty component,
// a . or .. or a NUL byte has the level None.
func (p *Policy) Level(path string, dir bool) Level {
	if path == "" || path == "." {
		return p.RootLevel()
	}
	s := p.root
	for {
		name, rest, more := strings.Cut(path, "/")
		if !more {
			return p.Child(s, name, dir)
		}
		s, path = p.Enter(s, name), rest
	}
}

// validName reports whether a directory entry can have this name.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." &&
		strings.IndexByte(name, '/') < 0 && strings.IndexByte(name, 0) < 0
}

// state returns the state that s stands for: dead, if s is not one of p's.
func (p *Policy) state(s State) *state {
	if states := p.states.Load(); states != nil && s > 0 && int(s) < len(*states) {
		return (*states)[s]
	}
	return &dead
}

// intern returns the State of s, which is reduced. It makes one if there is room,
// and else returns that of dead.
func (p *Policy) intern(s subset) State {
	var buf [1024]byte
	key := p.key(buf[:0], &s)
	p.mu.RLock()
	known, ok := p.known[string(key)]
	p.mu.RUnlock()
	if ok {
		return known
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.known[string(key)]; ok {
		return known
	}
	states := *p.states.Load()
	if len(states) >= maxStates || p.items+len(s.items) > maxItems {
		return 0
	}
	made := State(len(states))
	states = append(states, p.newState(s)) // readers of the old slice do not see the new element
	p.states.Store(&states)
	p.known[string(key)] = made
	p.items += len(s.items)
	return made
}
