package perm

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
)

// Compile returns the Policy of rules, whose order does not matter. An error matches
// ErrInvalid and names every malformed rule with its source. Without rules the Policy
// hides everything.
func Compile(rules []Rule) (*Policy, error) {
	p := &Policy{rules: slices.Clone(rules)}
	parsed, err := p.parse()
	if err != nil {
		return nil, err
	}
	p.arrange(parsed)
	p.index()
	p.start()
	return p, nil
}

// Check returns the error that Compile returns for rules, at a fraction of the cost. It is for a
// caller that passes the rules to another process.
func Check(rules []Rule) error {
	if last := sound.Load(); last != nil && slices.Equal(*last, rules) {
		return nil
	}
	_, err := (&Policy{rules: rules}).parse()
	if err == nil {
		last := slices.Clone(rules)
		sound.Store(&last)
	}
	return err
}

// sound are the rules in which Check has found no error last: callers mostly have the same for
// many sandboxes.
var sound atomic.Pointer[[]Rule]

// A parsedRule is what parse knows of a rule.
type parsedRule struct {
	alts []alt // without the rule's own fields; other rules have them too
	bit  group // of its NotBelow
}

// parse parses the rules, and returns the results in their order.
func (p *Policy) parse() ([]parsedRule, error) {
	if len(p.rules) > maxRules {
		return nil, invalid("%d rules: at most %d", len(p.rules), maxRules)
	}
	var errs []error
	n, text := 0, 0
	shared := new(parsing)
	parsed := make([]parsedRule, len(p.rules))
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
		parsed[i] = parsedRule{alts, bit}
		for j := range alts {
			text += int(alts[j].size)
		}
		if n += len(alts); n > maxAlts || text > maxText {
			return nil, invalid("rule %s: the rules together have more than %d alternatives or %d bytes", rule.describe(), maxAlts, maxText)
		}
	}
	if errs != nil {
		return nil, &inputError{errors.Join(errs...)}
	}
	return parsed, nil
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
		{uint64(^level), 8}, // so a limit comes before the rules that it limits
	} {
		rank = rank<<field.bits | field.value
	}
	return rank
}

// A ranked is an alternative, and what orders it: of two, the one with the higher priority
// decides, then the one with the greater rank, then the one that was parsed before the other. It
// has no pointer, so that it is sorted fast.
type ranked struct {
	priority  int
	rank      uint64
	rule, alt int32 // which it is
}

// arrange puts the alternatives of the rules in the order in which they decide.
func (p *Policy) arrange(parsed []parsedRule) {
	all := make([]ranked, 0, 6*len(parsed)) // the presets' have as many
	for i := range parsed {
		rule, alts := &p.rules[i], parsed[i].alts
		for j := range alts {
			all = append(all, ranked{rule.Priority, alts[j].rank(rule.Level), int32(i), int32(j)})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		switch { // cmp.Or would compare all
		case a.priority != b.priority:
			return cmp.Compare(b.priority, a.priority)
		case a.rank != b.rank:
			return cmp.Compare(b.rank, a.rank)
		case a.rule != b.rule:
			return cmp.Compare(a.rule, b.rule)
		}
		return cmp.Compare(a.alt, b.alt)
	})
	p.alts = make([]alt, len(all))
	for i := range all {
		a, at := &p.alts[i], &all[i]
		rule := &p.rules[at.rule]
		*a = parsed[at.rule].alts[at.alt]
		a.rule, a.group, a.copies = at.rule, parsed[at.rule].bit, rule.Copies
		p.copies = p.copies || rule.Copies
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
