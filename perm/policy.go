package perm

import "errors"

// A State is what a Policy knows of a directory: two directories of equal
// state have equal verdicts on everything below them. States belong to the
// Policy that gave them and are not kept across processes.
type State int32

// A Policy is a compiled list of rules. It is safe for concurrent use.
type Policy struct{ rules []Rule }

// Compile makes a Policy of rules. Every malformed rule is named in the error.
func Compile(rules []Rule) (*Policy, error) { return nil, errors.ErrUnsupported }

// Rules returns the rules that p was compiled from.
func (p *Policy) Rules() []Rule { return p.rules }

// Root returns the state of the root directory.
func (p *Policy) Root() State { return 0 }

// Enter returns the state of the directory called name in one of state s.
func (p *Policy) Enter(s State, name string) State { return 0 }

// Child returns the level of the entry called name in a directory of state s;
// dir says whether the entry is a directory.
func (p *Policy) Child(s State, name string, dir bool) Level { return None }

// RootLevel returns the level of the root directory: at least View.
func (p *Policy) RootLevel() Level { return View }

// Constant reports whether everything below a directory of state s has one
// level, whatever its name, and which.
func (p *Policy) Constant(s State) (Level, bool) { return None, false }

// Level returns the level of a path relative to the root, which is "" or ".".
func (p *Policy) Level(path string, dir bool) Level { return None }

// An Explanation says how a Policy decides on one path.
type Explanation struct {
	Path   string `json:"path"`
	Dir    bool   `json:"dir"`
	Level  Level  `json:"level"`
	Rule   *Rule  `json:"rule,omitempty"`
	Losers []Rule `json:"losers,omitempty"`
	Raised bool   `json:"raised,omitempty"`
	Toward *Rule  `json:"toward,omitempty"`
}

// Explain says how p decides on path.
func (p *Policy) Explain(path string, dir bool) Explanation { return Explanation{} }
