package policy

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"wolffia/perm"
	"wolffia/runtime"
)

// A Choice is the part of a sandbox's rules that the user has chosen, without the rules that
// depend on the codebase. For makes the rules of a sandbox anew from a Choice, with some rules
// added or removed.
type Choice struct {
	Preset string      // the preset of the base rules; "" means none, and the secrets of perm.DefaultPreset
	Rules  []perm.Rule // of files, of Options.Rules and of Options.Reveals, with their sources and priorities

	PresetRules int // the number of rules of the preset
	MadeRules   int // the number of rules for what the codebase has

	guardRules []perm.Rule // that guard policy files
	worktree   string      // Options.Worktree
	inPlace    bool        // Options.GitInPlace
}

// fromFile matches the source of a rule of a policy file.
var fromFile = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`.:[0-9]+$`) })

// ChoiceOf returns the Choice for rules that For has made. For rules that For has evidently not
// made, it returns an error of class runtime.ErrInvalid.
func ChoiceOf(rules []perm.Rule) (*Choice, error) {
	const of = "preset "
	c, preset := &Choice{}, false
	var limits []perm.Rule
	for _, r := range rules {
		name, isPreset := strings.CutPrefix(r.Source, of)
		switch {
		case r.Source == "":
			return nil, runtime.Errorf(runtime.ErrInvalid, "rule %q has no source: the rules were not made by package policy; set all of them anew", r)
		case r.AtMost && r.Priority == perm.PriorityProjectReveal+1:
			limits = append(limits, r)
		case fromUser(&r):
			c.Rules = append(c.Rules, r)
		case isPreset && r.Priority == perm.PriorityPreset:
			if _, err := perm.PresetByName(name); err != nil || c.Preset != "" {
				return nil, runtime.Errorf(runtime.ErrInvalid, "rule %q of %s: the rules were not made by this version of wolffia; set all of them anew", r, r.Source)
			}
			c.Preset = name
			fallthrough
		case isPreset:
			preset = true
			c.PresetRules++
		default:
			switch r.Source {
			case rulesFile:
				c.guardRules = append(c.guardRules, r)
			case otherWorktrees:
				c.worktree = r.Except
			}
			c.inPlace = c.inPlace || r.Pattern == ".git" && r.AtMost
			c.MadeRules++
		}
	}
	for _, r := range limits { // those that perm.Assemble makes are of other rules
		if slices.ContainsFunc(c.Rules, func(own perm.Rule) bool {
			own.AtMost, own.Priority = true, r.Priority
			return own == r
		}) {
			c.MadeRules++
		} else {
			c.Rules = append(c.Rules, r)
		}
	}
	if !preset {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the rules have no preset: they were not made by package policy; set all of them anew")
	}
	return c, nil
}

// Remove removes the rules with the pattern, and reports whether it removed a rule.
func (c *Choice) Remove(pattern string) bool {
	n := len(c.Rules)
	c.Rules = slices.DeleteFunc(slices.Clone(c.Rules), func(r perm.Rule) bool { return r.Pattern == pattern })
	return len(c.Rules) < n
}

// fill makes req a request for c, beside what req has of Options.
func (c *Choice) fill(req *perm.Request) {
	req.Preset, req.File, req.ProjectPreset = c.Preset, &perm.PolicyFile{}, true // the project's levels are bounded already
	for _, r := range c.Rules {
		switch r.Priority {
		case perm.PriorityProject:
			req.Project = append(req.Project, r)
		case perm.PriorityProjectReveal:
			req.ProjectReveals = append(req.ProjectReveals, r)
		case perm.PriorityRule:
			addUnlessReplaced(req, r, req.Rules)
		case perm.PriorityReveal:
			addUnlessReplaced(req, r, req.Reveals)
		default:
			req.File.Rules = append(req.File.Rules, r)
		}
	}
}

// addUnlessReplaced adds a rule to the rules of the file, unless a rule of more replaces it, as
// flags do in perm.Assemble.
func addUnlessReplaced(req *perm.Request, old perm.Rule, more []perm.Rule) {
	if !slices.ContainsFunc(more, func(r perm.Rule) bool {
		r.Level, r.Ask = old.Level, old.Ask
		return same(&r, &old)
	}) {
		req.File.Rules = append(req.File.Rules, old)
	}
}
