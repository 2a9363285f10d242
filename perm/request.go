package perm

import (
	"cmp"
	"slices"
)

// A Request names the rules to assemble: a preset, a policy file, flags, and facts about the
// codebase. The zero Request means DefaultPreset.
type Request struct {
	// Preset is the name of the preset to start from. "" means the one that File
	// extends, or DefaultPreset if File is nil.
	Preset string

	// File is a parsed policy file, or nil. If it extends no preset and Preset is "",
	// a path that no rule matches is hidden, and so are the secrets of DefaultPreset.
	File *PolicyFile

	// Rules and Reveals come from --rule and --reveal. A later one replaces an
	// earlier one of equal pattern and type. Their Priority and, where it is
	// empty, their Source are set.
	Rules   []Rule
	Reveals []Rule

	// Project and ProjectReveals come from a configuration file of the codebase's own. They rank
	// below all of File, Rules and Reveals. ProjectReveals outrank the preset's secrets; levels
	// below Write in File and Rules then limit them. Neither gives more than the preset gives to a
	// path that has no other rule, unless ProjectPreset is set: the same file has chosen Preset.
	// Then UserPreset bounds them, the preset that it has been chosen below; "" means none.
	Project, ProjectReveals []Rule
	ProjectPreset           bool
	UserPreset              string

	// GitDirs are the git directories below the root, for GitRules, that AnyGitRules do not
	// apply to. NotGit are names that end in ".git", as patterns, of directories that are not
	// git's: AnyGitRules do not apply to them. Both are ignored if the preset does not set Git.
	// Package policy finds them.
	GitDirs, NotGit []string

	// Opened are the directories at and below the root that the host's programs may be
	// started in, for ExecutedRules; nil means unknown, for AnyExecutedRules. They are
	// ignored if the preset does not set Executed. Package policy finds them.
	Opened []string
}

// Assemble returns the rules of r with their priorities, for Compile. It does not
// check the rules in r. An unknown preset, or two different ones, are an error.
func Assemble(r *Request) ([]Rule, error) {
	preset, err := r.Base()
	if err != nil {
		return nil, err
	}
	rules := preset.Rules
	if preset.Git {
		exceptNames(rules, r.NotGit)
		rules = append(rules, GitRules(r.GitDirs)...)
	}
	if preset.Executed && r.Opened != nil {
		rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Source == anyExecuted })
		rules = append(rules, ExecutedRules(r.Opened)...)
	}
	most := preset.base()
	if r.ProjectPreset {
		most = Write
		if r.UserPreset != "" {
			above, err := PresetByName(r.UserPreset)
			if err != nil {
				return nil, err
			}
			most = above.base()
		}
	}
	rules = append(rules, capped(latest(r.Project, PriorityProject, "project"), most)...)
	rules = append(rules, capped(latest(r.ProjectReveals, PriorityProjectReveal, "project"), most)...)
	if r.File != nil {
		rules = append(rules, r.File.Rules...)
	}
	if len(r.ProjectReveals) > 0 {
		rules = append(rules, r.limits()...)
	}
	rules = append(rules, latest(r.Rules, PriorityRule, "--rule")...)
	return append(rules, latest(r.Reveals, PriorityReveal, "--reveal")...), nil
}

// capped returns rules with levels of at most most. It skips rules for a preset that gives
// nothing: they would only lower the levels of the user's rules.
func capped(rules []Rule, most Level) []Rule {
	if most == None {
		return nil
	}
	for i := range rules {
		rules[i].Level = min(rules[i].Level, most)
		rules[i].Ask = rules[i].Ask && most >= View
	}
	return rules
}

// limits returns what File and Rules give less than Write, as limits of ProjectReveals.
func (r *Request) limits() (rules []Rule) {
	all := latest(r.Rules, PriorityRule, "--rule")
	if r.File != nil {
		all = slices.Concat(r.File.Rules, all)
	}
	for _, rule := range all {
		if rule.Level < Write && rule.Priority <= PriorityProjectReveal {
			rule.AtMost, rule.Priority = true, PriorityProjectReveal+1
			rules = append(rules, rule)
		}
	}
	return rules
}

// base returns the level that the preset gives to a path without another rule.
func (p *Preset) base() Level {
	if len(p.Rules) > 0 && p.Rules[0].Priority == PriorityPreset {
		return p.Rules[0].Level
	}
	return None
}

// Base returns the preset that r starts from. It is DefaultPreset without its base
// rules if r.File extends no preset and r names none. An unknown preset, or two
// different ones, are an error.
func (r *Request) Base() (Preset, error) {
	switch {
	case r.File == nil:
		return PresetByName(cmp.Or(r.Preset, DefaultPreset))
	case r.Preset != "" && r.File.Extends != "" && r.Preset != r.File.Extends:
		return Preset{}, invalid("preset %s conflicts with %s, which extends %s: name only one of them", r.Preset, r.File.Name, r.File.Extends)
	case r.Preset != "" || r.File.Extends != "":
		return PresetByName(cmp.Or(r.Preset, r.File.Extends))
	}
	preset, err := PresetByName(DefaultPreset)
	preset.Rules = slices.DeleteFunc(preset.Rules, func(r Rule) bool { return r.Priority != PrioritySecret })
	return preset, err
}

// latest returns rules at the given priority, without those that a later rule of the
// same pattern and kind replaces.
func latest(rules []Rule, priority int, source string) []Rule {
	var out []Rule
	for _, r := range rules {
		r.Priority = priority
		if r.Source == "" {
			r.Source = source
		}
		out = slices.DeleteFunc(out, func(old Rule) bool {
			return old.Pattern == r.Pattern && old.Type == r.Type && old.Except == r.Except && old.AtMost == r.AtMost &&
				old.NotBelow == r.NotBelow && old.Fold == r.Fold && old.Copies == r.Copies
		})
		out = append(out, r)
	}
	return out
}
