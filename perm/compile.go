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
	p, err := parse(rules)
	if err != nil {
		return nil, err
	}
	p.sort()
	p.index()
	p.start()
	return p, nil
}

// Check returns the error that Compile returns for rules, at a fraction of the cost:
// for a caller that hands the rules on to another process.
func Check(rules []Rule) error {
	_, err := parse(rules)
	return err
}

// parse returns a Policy with the alternatives of rules, in no order.
func parse(rules []Rule) (*Policy, error) {
	if len(rules) > maxRules {
		return nil, invalid("%d rules: at most %d", len(rules), maxRules)
	}
	p := &Policy{rules: slices.Clone(rules), alts: make([]alt, 0, 2*len(rules))}
	var errs []error
	text := 0
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
		for _, a := range alts {
			a.rule, a.group = i, bit
			text += a.size
			p.alts = append(p.alts, a)
		}
		if len(p.alts) > maxAlts || text > maxText {
			return nil, invalid("rule %s: the rules together have more than %d alternatives or %d bytes", p.rules[i].describe(), maxAlts, maxText)
		}
	}
	if errs != nil {
		return nil, &inputError{errors.Join(errs...)}
	}
	return p, nil
}

// sort puts the alternatives in the order in which they decide.
func (p *Policy) sort() {
	order := make([]*alt, len(p.alts)) // pointers: an alternative is large to swap
	for i := range p.alts {
		order[i] = &p.alts[i]
	}
	slices.SortStableFunc(order, p.compare)
	sorted := make([]alt, len(order))
	for i, a := range order {
		sorted[i] = *a
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
