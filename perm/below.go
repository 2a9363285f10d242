package perm

// A group is a set of bits, one for each different Rule.NotBelow of a Policy. A
// directory has the groups whose rules do not apply below it.
type group uint8

const maxGroups = 8

// groups are the values of Rule.NotBelow in a Policy.
type groups struct {
	bits  map[string]group // by value
	names map[string]group // of plain names
	globs []groupGlob      // the others
	first int              // the first alternative with a group
}

type groupGlob struct {
	glob
	group
}

// add returns the bit of a NotBelow whose syntax was checked.
func (g *groups) add(notBelow string, rules *parsing) (group, error) {
	if notBelow == "" {
		return 0, nil
	}
	if bit := g.bits[notBelow]; bit != 0 {
		return bit, nil
	}
	if len(g.bits) == maxGroups {
		return 0, invalid("more than %d different not_below", maxGroups)
	}
	globs, err := rules.names("not_below", notBelow, false)
	if err != nil {
		return 0, err
	}
	if g.bits == nil {
		g.bits, g.names = map[string]group{}, map[string]group{}
	}
	bit := group(1) << len(g.bits)
	g.bits[notBelow] = bit
	for _, name := range globs {
		if name.isLiteral() {
			g.names[name.prefix] |= bit
		} else {
			g.globs = append(g.globs, groupGlob{name, bit})
		}
	}
	return bit, nil
}

// of returns the groups of a directory with this name.
func (g *groups) of(name string) group {
	bits := g.names[name]
	for i := range g.globs {
		if g.globs[i].match(name) {
			bits |= g.globs[i].group
		}
	}
	return bits
}
