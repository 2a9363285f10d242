package fusefs

import (
	"path"
	"strings"
	"sync"

	"wolffia/perm"
)

// A fakeRule gives a level to a path and to what is below it, or to any name
// if it begins with no slash.
type fakeRule struct {
	Path  string
	Level perm.Level
}

// fakeRules is a simple implementation of Rules: the last rule that matches wins, and without one
// everything is writable. A directory's state is its path, unless no rule changes what it inherits.
type fakeRules struct {
	rules []fakeRule

	mu     sync.Mutex
	states map[string]perm.State
	paths  []string
}

func newFakeRules(rules []fakeRule) *fakeRules {
	r := &fakeRules{rules: rules, states: map[string]perm.State{}}
	r.intern("/")
	return r
}

func (r *fakeRules) intern(p string) perm.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[p]
	if !ok {
		s = perm.State(len(r.paths))
		r.states[p] = s
		r.paths = append(r.paths, p)
	}
	return s
}

func (r *fakeRules) path(s perm.State) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paths[s]
}

// level returns the level of a path and whether a rule speaks of a path below.
func (r *fakeRules) level(p string) (l perm.Level, below bool) {
	l = perm.Write
	for _, rule := range r.rules {
		if !strings.HasPrefix(rule.Path, "/") {
			below = true
			for _, part := range strings.Split(p, "/") {
				if part == rule.Path {
					l = rule.Level
				}
			}
			continue
		}
		switch {
		case p == rule.Path || strings.HasPrefix(p, strings.TrimSuffix(rule.Path, "/")+"/"):
			l = rule.Level
		case strings.HasPrefix(rule.Path, strings.TrimSuffix(p, "/")+"/"):
			below = true
		}
	}
	return l, below
}

func (r *fakeRules) Root() perm.State { return 0 }

func (r *fakeRules) RootLevel() perm.Level { l, _ := r.level("/"); return max(l, perm.View) }

// Enter gives directories the same state if the same rules matter inside: here
// those that no rule of a path speaks of, by level.
func (r *fakeRules) Enter(s perm.State, name string) perm.State {
	p := path.Join(r.path(s), name)
	l, _ := r.level(p)
	for _, rule := range r.rules {
		if strings.HasPrefix(rule.Path, p+"/") {
			return r.intern(p)
		}
	}
	switch l {
	case perm.Write:
		return r.intern("/(write)")
	default:
		return r.intern(p)
	}
}

func (r *fakeRules) Child(s perm.State, name string, dir bool) perm.Level {
	p := path.Join(r.path(s), name)
	l, _ := r.level(p)
	if dir && l == perm.None {
		for _, rule := range r.rules {
			if rule.Level > perm.None && strings.HasPrefix(rule.Path, p+"/") {
				return perm.View // on the way
			}
		}
	}
	return l
}

func (r *fakeRules) Constant(s perm.State) (perm.Level, bool) {
	l, below := r.level(r.path(s))
	return l, !below
}

// panicRules are Rules with a fault.
type panicRules struct {
	Rules
	name string
}

func (r panicRules) Child(s perm.State, name string, dir bool) perm.Level {
	if name == r.name {
		panic("a fault in the rules")
	}
	return r.Rules.Child(s, name, dir)
}
