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
	p := &Policy{rules: slices.Clone(rules)}
	all, err := p.parse(true)
	if err != nil {
		return nil, err
	}
	p.arrange(all)
	p.index()
	p.start()
	return p, nil
}

// Check returns the error that Compile returns for rules, at a fraction of the cost:
// for a caller that hands the rules on to another process.
func Check(rules []Rule) error {
	_, err := (&Policy{rules: rules}).parse(false)
	return err
}

// A ranked is an alternative, and what orders it: of two, the one with the higher priority decides, then the one with
// the greater rank, then the one that was parsed before the other.
type ranked struct {
	alt      *alt // without what it has of its rule
	priority int
	rank     uint64
	number   int32 // of the alternative, in the order of parsing
	rule     int32
	group    group
}

// parse parses the rules. With keep it returns their alternatives, in no order.
func (p *Policy) parse(keep bool) (all []ranked, err error) {
	if len(p.rules) > maxRules {
		return nil, invalid("%d rules: at most %d", len(p.rules), maxRules)
	}
	var errs []error
	n, text := 0, 0
	shared := new(parsing)
	if keep {
		all = make([]ranked, 0, 6*len(p.rules)) // the presets' have as many
	}
	for i := range p.rules {
		rule := &p.rules[i]
		alts, err := rule.alternatives(shared)
		var bit group
		if err == nil {
			bit, err = p.groups.add(rule.NotBelow, shared)
		}
		if err != nil {
			errs = append(errs, invalid("rule %s: %w", rule.describe(), err))
			continue
		}
		p.checks = p.checks || rule.Level == Checked
		for j := range alts {
			a := &alts[j]
			text += int(a.size)
			if keep {
				all = append(all, ranked{alt: a, priority: rule.Priority, rank: a.rank(rule.Level), number: int32(n + j), rule: int32(i), group: bit})
			}
		}
		if n += len(alts); n > maxAlts || text > maxText {
			return nil, invalid("rule %s: the rules together have more than %d alternatives or %d bytes", rule.describe(), maxAlts, maxText)
		}
	}
	if errs != nil {
		return nil, &inputError{errors.Join(errs...)}
	}
	return all, nil
}

// rank orders the alternatives of rules of one priority: that with the greater rank decides.
func (a *alt) rank(level Level) (rank uint64) {
	if a.anchored {
		rank = 1
	}
	for _, field := range [...]struct {
		value uint64
		bits  int
	}{
		{uint64(a.literals), 16},
		{uint64(a.bytes), 16}, // neither is more than maxPattern
		{uint64(a.kind), 8},
		{uint64(^level), 8}, // so a limit comes before what it cuts down
	} {
		rank = rank<<field.bits | field.value
	}
	return rank
}

// arrange puts the alternatives in the order in which they decide.
func (p *Policy) arrange(all []ranked) {
	slices.SortFunc(all, func(a, b ranked) int {
		switch { // cmp.Or would compare all three
		case a.priority != b.priority:
			return cmp.Compare(b.priority, a.priority)
		case a.rank != b.rank:
			return cmp.Compare(b.rank, a.rank)
		}
		return cmp.Compare(a.number, b.number)
	})
	p.alts = make([]alt, len(all))
	for i := range all {
		a, rule := &p.alts[i], &p.rules[all[i].rule]
		*a = *all[i].alt
		a.rule, a.group = all[i].rule, all[i].group
		a.level, a.limit = rule.Level, rule.AtMost && rule.Level > None // a limit of None is a rule that gives None
	}
}

// index prepares what every state shares: the unanchored alternatives, and where
// the first with a group is.
func (p *Policy) index() {
	items := make([]item, 0, len(p.alts)) // most alternatives are
	p.free = make([]int, 0, len(p.alts))
	p.groups.first = len(p.alts)
	for i := range p.alts {
		a := &p.alts[i]
		if a.group != 0 {
			p.groups.first = min(p.groups.first, i)
		}
		if len(a.comps) == 0 || !a.comps[0].loop {
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
