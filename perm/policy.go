package perm

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A State is what a Policy knows of a directory: two directories of equal
// state have equal verdicts on everything below them. States belong to the
// Policy that gave them and last as long as it. The zero State is that of a
// directory in which everything is hidden; a State of another Policy is taken
// for it or for one of this Policy's own.
type State int32

// A Policy is a compiled list of rules. It is safe for concurrent use. The zero
// Policy hides everything.
type Policy struct {
	rules  []Rule
	alts   []alt // in the order in which they decide
	checks bool  // a rule has the level Checked

	free       []int // the alternatives that may start at any depth
	freeTable  *table
	firstGrant int // the first of free that gives more than None
	groups     groups
	runs       [Write + 1][]int // runs[l][n]: free[runs[l][n]:n] is idle before level l

	root   State
	states atomic.Pointer[[]*state] // by State; grows only

	mu    sync.RWMutex
	known map[string]State // by key; guarded by mu
	steps int              // in all states; guarded by mu
}

// start makes the state of the root.
func (p *Policy) start() {
	p.known = map[string]State{}
	p.states.Store(&[]*state{&sealed})
	c := noCover(len(p.alts))
	var open []step
	for i := range p.alts {
		switch a := &p.alts[i]; {
		case len(a.comps) == 0:
			c.match(i, a)
		case !a.loops[0]:
			open = append(open, makeStep(i, 0))
		}
	}
	p.root = p.intern(p.reduce(c, open, 0))
}

// Rules returns a copy of the rules that p was compiled from.
func (p *Policy) Rules() []Rule { return slices.Clone(p.rules) }

// Checks reports whether a rule has the level Checked: then the server of the tree
// guards git repositories.
func (p *Policy) Checks() bool { return p.checks }

// Root returns the state of the root directory.
func (p *Policy) Root() State { return p.root }

// RootLevel returns the level of the root directory, which is at least View.
func (p *Policy) RootLevel() Level { return max(View, p.state(p.root).level) }

// Enter returns the state of the directory called name in a directory of state
// s. It does not ask whether that directory may be seen: that is Child's
// matter. A name that cannot be one gives the state in which all is hidden, and
// so does a directory beyond the number of states that a Policy keeps, which
// only a tree that was made to that end can reach.
func (p *Policy) Enter(s State, name string) State {
	st := p.state(s)
	if !validName(name) {
		return 0
	}
	if st.end == 0 {
		return s // no rule can say more
	}
	c := st.cover
	var buf [96]step
	open := buf[:0]
	below := st.below | p.groups.of(name)
	matched := below != st.below
	take := func(at step) {
		i, pos := at.alt(), at.pos()+1
		a := &p.alts[i]
		if a.group&st.below != 0 {
			return
		}
		matched = true
		switch {
		case pos < len(a.comps):
			open = append(open, makeStep(i, pos))
		case a.kind != File:
			c.match(i, a)
		}
	}
	st.table.each(name, st.end, take)
	p.freeTable.each(name, st.end, take)
	if matched {
		return p.intern(p.reduce(c, append(open, st.loops...), below))
	}
	if miss := st.miss.Load(); miss != 0 {
		return State(miss)
	}
	miss := p.intern(p.reduce(c, append(open, st.loops...), below))
	st.miss.Store(int32(miss))
	return miss
}

// Child returns the level of the entry called name in a directory of state s;
// dir says whether the entry is a directory.
func (p *Policy) Child(s State, name string, dir bool) Level {
	if dir {
		return p.state(p.Enter(s, name)).level
	}
	if !validName(name) {
		return None
	}
	st := p.state(s)
	c := st.cover
	take := func(at step) {
		a := &p.alts[at.alt()]
		if at.pos()+1 == len(a.comps) && a.kind != Directory && a.group&st.below == 0 {
			c.match(at.alt(), a)
		}
	}
	st.table.each(name, st.end, take)
	p.freeTable.each(name, st.end, take)
	return c.verdict()
}

// Constant returns the level of everything below a directory of state s, if
// that is one and the same whatever the names are.
func (p *Policy) Constant(s State) (Level, bool) {
	st := p.state(s)
	return st.cover.level, st.end == 0
}

// Level returns the level of a path relative to the root, which is "" or ".".
// dir says whether a directory is meant. A path that is absolute, or has an
// empty component, a . or .. or a NUL byte, has the level None.
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

// validName reports whether name can be that of a directory entry.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." &&
		strings.IndexByte(name, '/') < 0 && strings.IndexByte(name, 0) < 0
}

// state returns what s stands for: sealed, if it is none of p's.
func (p *Policy) state(s State) *state {
	if states := p.states.Load(); states != nil && s > 0 && int(s) < len(*states) {
		return (*states)[s]
	}
	return &sealed
}

// intern returns the State of c, open and below, which are reduced. It makes one
// if there is room, and else returns that of sealed.
func (p *Policy) intern(c cover, open []step, below group) State {
	var buf [1024]byte
	key := c.key(buf[:0], open, below)
	p.mu.RLock()
	s, ok := p.known[string(key)]
	p.mu.RUnlock()
	if ok {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.known[string(key)]; ok {
		return s
	}
	states := *p.states.Load()
	if len(states) >= maxStates || p.steps+len(open) > maxSteps {
		return 0
	}
	s = State(len(states))
	states = append(states, p.newState(c, open, below)) // readers of the old slice do not see the new element
	p.states.Store(&states)
	p.known[string(key)] = s
	p.steps += len(open)
	return s
}
