package perm

import "strings"

// An Example is a path that a pattern matches.
type Example struct {
	Path string // relative to the root, not empty
	Dir  bool   // as a directory
	// Fixed says that the pattern matches only this path, and the paths below it: it is anchored
	// and has no wildcards.
	Fixed bool
}

// Examples returns a path for each alternative of the pattern of r, but for those that match
// the root: for messages about what r does. It returns none if r is malformed.
func (r Rule) Examples() []Example {
	alts, err := r.alternatives(new(parsing))
	if err != nil {
		return nil
	}
	var out []Example
	for i := range alts {
		a := &alts[i]
		e := Example{Dir: a.kind == Directory, Fixed: true}
		var names []string
		for j := range a.comps {
			g := &a.comps[j]
			names = append(names, g.example())
			e.Fixed = e.Fixed && g.isLiteral() && !g.fold && !g.loop
		}
		if e.Path = strings.Join(names, "/"); e.Path != "" {
			out = append(out, e)
		}
	}
	return out
}

// example returns a name that g matches, unless its exceptions do.
func (g *glob) example() string {
	b := []byte(g.prefix)
	var toks []tok
	if g.wild != nil {
		toks = g.wild.toks
	}
	for _, t := range toks {
		c := t.lit
		switch {
		case t.star, t.set != nil && t.match('x'):
			c = 'x'
		case t.set != nil:
			for c = ' ' + 1; c < '~' && (c == '/' || !t.match(c)); c++ {
			}
		}
		b = append(b, c)
	}
	return string(b) + g.suffix
}
