package perm

// GrantsAll reports whether p gives the level Write to the root and to every path below
// it, whatever exists there: so that a server of the tree has nothing to decide.
func (p *Policy) GrantsAll() bool {
	level, same := p.Constant(p.root)
	return same && level == Write && p.RootLevel() == Write
}

// newName is a name that only a pattern for any name matches.
const newName = "\x01new name"

// Fresh returns the level that a directory of State s gives to a new name of no
// particular pattern: the stricter of the levels for a file and for a directory.
func (p *Policy) Fresh(s State) Level {
	return min(p.Child(s, newName, false), p.Child(s, newName, true))
}
