package perm

import (
	"fmt"
	"slices"
	"strings"
)

// An Explanation tells how a Policy decides on one path.
type Explanation struct {
	Path  string `json:"path"`
	Dir   bool   `json:"dir"`
	Level Level  `json:"level"`

	// Rule is the rule that decides; nil if none matches.
	Rule *Rule `json:"rule,omitempty"`

	// Losers are the other rules that match, in the order of decision.
	Losers []Rule `json:"losers,omitempty"`

	// Raised is set for a directory that is View only because it leads to something
	// that Toward, the first such rule, could make visible. Toward is nil for the
	// root, which is always visible.
	Raised bool  `json:"raised,omitempty"`
	Toward *Rule `json:"toward,omitempty"`

	// Problem is why the path is hidden without a rule: it is not a path below the
	// root, or exceeds a bound of a Policy. It is empty otherwise.
	Problem string `json:"problem,omitempty"`
}

// Explain returns how p decides on path; dir is as in Level. It tries every rule, so
// it is for people and not for a hot path.
func (p *Policy) Explain(path string, dir bool) Explanation {
	var names []string
	if path != "" && path != "." {
		names = strings.Split(path, "/")
	}
	e := Explanation{Path: path, Dir: dir || len(names) == 0, Level: p.Level(path, dir)}
	if slices.ContainsFunc(names, func(name string) bool { return !validName(name) }) {
		e.Problem = "not a path below the root"
		return e
	}
	p.explain(&e, names)
	decided := None
	if e.Rule != nil {
		decided = e.Rule.Level
	}
	e.Raised = e.Dir && decided == None && e.Level == View
	if !e.Raised {
		e.Toward = nil
	}
	if e.Level < decided {
		e.Problem = "too many directories that differ in which rules match"
	}
	return e
}

// explain fills in the rules that match names.
func (p *Policy) explain(e *Explanation, names []string) {
	v := noVerdict(len(p.alts))
	var matched []int // rules
	for i := range p.alts {
		a := &p.alts[i]
		whole, below, open := a.walk(names, e.Dir, &p.groups)
		switch {
		case below && a.kind != File,
			whole && e.Dir && a.kind != File,
			whole && !e.Dir && a.kind != Directory:
			if v.match(i, a); !slices.Contains(matched, int(a.rule)) {
				matched = append(matched, int(a.rule))
			}
		case open && e.Toward == nil && !a.limit && a.level > None:
			r := p.rules[a.rule]
			e.Toward = &r
		}
	}
	if v.end == len(p.alts) {
		e.Losers = p.pick(matched)
		return // limits alone give nothing
	}
	decider := int(p.alts[v.end].rule)
	if level := v.result(); level < v.level {
		for _, i := range matched {
			if r := &p.rules[i]; r.AtMost && r.Level == level {
				decider = i
				break
			}
		}
	}
	r := p.rules[decider]
	e.Rule = &r
	e.Losers = p.pick(slices.DeleteFunc(matched, func(i int) bool { return i == decider }))
}

func (p *Policy) pick(rules []int) []Rule {
	var out []Rule
	for _, i := range rules {
		out = append(out, p.rules[i])
	}
	return out
}

// walk matches names against the components of a: whole reports that a matches the
// path, below that it matches a directory above the path, open that it could match
// something below the path. dir tells whether the path is a directory's.
func (a *alt) walk(names []string, dir bool, g *groups) (whole, below, open bool) {
	at := make([]bool, len(a.comps)+1)
	at[0] = true
	silent := false // the next name is below a directory of a's NotBelow
	for depth, name := range names {
		below = below || at[len(a.comps)]
		next := make([]bool, len(at))
		for i := range a.comps {
			if at[i] && !silent {
				next[i] = next[i] || a.comps[i].loop
				file := !dir && depth == len(names)-1 && i == len(a.comps)-1
				next[i+1] = next[i+1] || a.takes(i, name, file)
			}
		}
		at = next
		silent = silent || a.group&g.of(name) != 0
	}
	return at[len(a.comps)], below, !silent && slices.Contains(at[:len(a.comps)], true)
}

// takes reports whether component i of a matches name; file tells that it is the file that the
// whole of a is to match.
func (a *alt) takes(i int, name string, file bool) bool {
	g := &a.comps[i]
	if !a.copies || !file {
		return g.match(name)
	}
	takes := func(name string) bool { return g.match(name) && !g.exceptsCopy(name) }
	names, n := originals(name)
	return takes(name) || slices.ContainsFunc(names[:n], takes)
}

// Remedy returns the command line flag that would give the path the level want, or ""
// if the path has that level already or no flag would give it.
func (e Explanation) Remedy(want Level) string {
	if e.Level >= want {
		return ""
	}
	return e.Flag(want)
}

// Allow is Remedy for an operation that needs the level need. The flag gives at least Read: a
// program that may see a name reads it next.
func (e Explanation) Allow(need Level) string { return e.Remedy(min(max(need, Read), Write)) }

// Flag is Remedy also for a level that is lower than that of the path.
func (e Explanation) Flag(want Level) string { return e.flag(want.String()) }

// RemedyLike is Remedy for the level of a rule, and for its Ask.
func (e Explanation) RemedyLike(r *Rule) string {
	if e.Level >= r.Level {
		return ""
	}
	return e.flag(r.LevelText())
}

func (e Explanation) flag(want string) string {
	if e.Problem != "" || e.Path == "" || e.Path == "." {
		return ""
	}
	top := PriorityPreset
	for _, r := range e.Losers {
		top = max(top, r.Priority)
	}
	if e.Rule != nil {
		top = max(top, e.Rule.Priority)
	}
	flag := "--rule"
	switch {
	case top > PriorityReveal:
		return ""
	case top > PriorityRule:
		flag = "--reveal"
	}
	slash := ""
	if e.Dir {
		slash = "/"
	}
	rule := "/" + Quote(e.Path) + slash + "=" + want
	return flag + " '" + strings.ReplaceAll(rule, "'", `'\''`) + "'"
}

// String returns the explanation as a line of text, and a second one if rules lost.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q is %v: ", e.Path, e.Level)
	switch {
	case e.Problem != "":
		b.WriteString(e.Problem)
	case e.Raised && e.Toward != nil:
		fmt.Fprintf(&b, "it leads to what rule %s could make visible", e.Toward.describe())
	case e.Raised:
		b.WriteString("the root is always visible")
	case e.Rule != nil:
		fmt.Fprintf(&b, "rule %s", e.Rule.describe())
	default:
		b.WriteString("no rule matches")
	}
	for i, r := range e.Losers {
		if i == 0 {
			b.WriteString("\nover")
		} else {
			b.WriteString(", then")
		}
		fmt.Fprintf(&b, " rule %s", r.describe())
	}
	return b.String()
}
