package perm

import (
	"cmp"
	"errors"
	"slices"
)

// Compile returns the Policy of rules, whose order does not matter. An error matches
// ErrInvalid and names every malformed rule with its source. Without rules the Policy
// hides everything.
func Compile(rules []Rule) (*Policy, error) {
	p := &Policy{rules: slices.Clone(rules), alts: make([]alt, 0, 6*len(rules))}
	if err := p.parse(true); err != nil {
		return nil, err
	}
	p.sort()
	p.index()
	p.start()
	return p, nil
}

// Check returns the error that Compile returns for rules, at a fraction of the cost:
// for a caller that hands the rules on to another process.
func Check(rules []Rule) error { return (&Policy{rules: rules}).parse(false) }

// parse parses the rules. With keep it adds their alternatives, in no order.
func (p *Policy) parse(keep bool) error {
	if len(p.rules) > maxRules {
		return invalid("%d rules: at most %d", len(p.rules), maxRules)
	}
	var errs []error
	n, text := 0, 0
	excepts := exceptions{}
	for i := range p.rules {
		alts, err := p.rules[i].alternatives(excepts)
		var bit group
		if err == nil {
			bit, err = p.groups.add(p.rules[i].NotBelow, excepts)
		}
		if err != nil {
			errs = append(errs, invalid("rule %s: %w", p.rules[i].describe(), err))
			continue
		}
		p.checks = p.checks || p.rules[i].Level == Checked
		n += len(alts)
		for j := range alts {
			text += alts[j].size
			if keep {
				p.alts = append(p.alts, alts[j])
				a := &p.alts[len(p.alts)-1]
				a.rule, a.group = i, bit
			}
		}
		if n > maxAlts || text > maxText {
			return invalid("rule %s: the rules together have more than %d alternatives or %d bytes", p.rules[i].describe(), maxAlts, maxText)
		}
	}
	if errs != nil {
		return &inputError{errors.Join(errs...)}
	}
	return nil
}

// sort puts the alternatives in the order in which they decide.
func (p *Policy) sort() {
	order := make([]int, len(p.alts)) // numbers: an alternative is large to swap
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(p.compare(&p.alts[a], &p.alts[b]), a-b) })
	sorted := make([]alt, len(order))
	for i, from := range order {
		sorted[i] = p.alts[from]
	}
	p.alts = sorted
}

// compare orders alternatives: the result is negative if a decides before b.
func (p *Policy) compare(a, b *alt) int {
	return cmp.Or(
		cmp.Compare(p.rules[b.rule].Priority, p.rules[a.rule].Priority),
		cmp.Compare(b.anchored, a.anchored),
		cmp.Compare(b.literals, a.literals),
		cmp.Compare(b.bytes, a.bytes),
		cmp.Compare(b.kind, a.kind),
		cmp.Compare(a.level, b.level), // so a limit comes before what it cuts down
	)
}

// index prepares what every state shares: the unanchored alternatives, and where
// the first with a group is.
func (p *Policy) index() {
	var items []item
	p.groups.first = len(p.alts)
	for i := range p.alts {
		a := &p.alts[i]
		if a.group != 0 {
			p.groups.first = min(p.groups.first, i)
		}
		if len(a.comps) == 0 || !a.loops[0] {
			continue
		}
		items = append(items, makeItem(i, 0))
		p.free = append(p.free, i)
		if !a.limit && a.level > None {
			p.grants = append(p.grants, i)
		}
	}
	p.freeTable = newTable(p.alts, items)
}
