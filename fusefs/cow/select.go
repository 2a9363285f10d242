package cow

import (
	"iter"
	"slices"
	"strings"

	"wolffia/runtime"
)

// selected returns the changes at and below paths, or all changes if paths is empty, sorted by
// path. A path without a change is ErrNotFound.
func (p *plan) selected(paths []string) ([]*change, error) {
	var clean []string
	for i, path := range paths {
		path = strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/")
		if path == "." || path == "" {
			return p.real(nil), nil
		}
		if !ValidPath(path) {
			return nil, runtime.Errorf(runtime.ErrInvalid, "%s is not a path in the codebase: name one relative to its root", Quote(paths[i]))
		}
		clean = append(clean, path)
	}
	changed := map[string]bool{} // with the directories above
	if len(clean) > 0 {
		for _, c := range p.real(nil) {
			for _, end := range []string{c.Path, c.From} {
				for ; end != "" && !changed[end]; end = parentOf(end) {
					changed[end] = true
				}
			}
		}
	}
	for _, path := range clean {
		if !changed[path] {
			return nil, runtime.Errorf(runtime.ErrNotFound, "%s: has no change", Quote(path))
		}
	}
	return p.real(clean), nil
}

// real returns the changes at and below paths, or all changes if paths is empty.
func (p *plan) real(paths []string) []*change {
	wanted := make(map[string]bool, len(paths))
	for _, path := range paths {
		wanted[path] = true
	}
	has := func(path string) bool {
		for ; path != "" && !wanted[path]; path = parentOf(path) {
		}
		return path != ""
	}
	var some []*change
	for _, c := range p.changes {
		if c.Kind != "" && (len(paths) == 0 || has(c.Path) || has(c.From)) {
			some = append(some, c)
		}
	}
	return some
}

// isAt reports whether an end of c is at or below path.
func (c *change) isAt(path string) bool {
	return within(c.Path, path) || c.From != "" && within(c.From, path)
}

// splitPath returns the names of a path; nil for an empty path.
func splitPath(p string) iter.Seq[string] {
	if p == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(p, "/")
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return dir == "" || path == dir || len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// Changes returns the changes at and below paths, or all changes if paths is empty, sorted by
// path. A path without a change is ErrNotFound.
func (l *Layers) Changes(o runtime.ChangesOptions) ([]runtime.Change, error) {
	p, err := l.reconciledPlan()
	if err != nil {
		return nil, err
	}
	some, err := p.selected(o.Paths)
	if err != nil {
		return nil, err
	}
	r := &reader{plan: p}
	all := make([]runtime.Change, 0, len(some))
	for _, c := range some {
		if err := l.stopped(); err != nil {
			return nil, err
		}
		if o.Lines {
			if err := r.countLines(c); err != nil {
				return nil, err
			}
		}
		all = append(all, c.Change)
	}
	return all, nil
}

// withNeeded returns the changes that must be applied for some, with some included, sorted by
// path: new or renamed directories above, and the rename of a directory that is at a path now.
func (p *plan) withNeeded(some []*change) []*change {
	at := map[string]*change{}
	for _, c := range p.changes {
		if c.Kind != "" {
			at[c.Path] = c
		}
	}
	all := map[*change]bool{}
	todo := slices.Clone(some)
	for len(todo) > 0 {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if all[c] {
			continue
		}
		all[c] = true
		for dir := parentOf(c.Path); dir != ""; dir = parentOf(dir) {
			if up := at[dir]; up != nil && up.Kind != runtime.ChangeMode && up.Kind != runtime.ChangeDeleted {
				todo = append(todo, up)
			}
		}
		if to := p.moved[c.lower]; c.lower != "" && to != "" && at[to] != nil {
			todo = append(todo, at[to])
		}
	}
	return slices.DeleteFunc(slices.Clone(p.changes), func(c *change) bool { return !all[c] })
}
