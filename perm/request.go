package perm

import (
	"cmp"
	"slices"
)

// A Request is what a user asked for, from all places that rules come from.
type Request struct {
	// Preset is the preset to start from. Empty: what File extends, and
	// without a File DefaultPreset.
	Preset string

	// File is a parsed policy file, or nil. Where neither it nor Preset names a
	// preset, what no rule names is hidden, and so are the secrets of
	// DefaultPreset.
	File *PolicyFile

	// Rules and Reveals come from --rule and --reveal. A later one replaces an
	// earlier one of equal pattern and type. Their Priority and, where it is
	// empty, their Source are set.
	Rules   []Rule
	Reveals []Rule

	// GitDirs are the git directories that exist below the root, for GitRules, beside
	// AnyGitRules; they count if the preset protects them. Package policy looks for them.
	GitDirs []string

	// Opened are the directories below the root that the host's programs may be
	// started in, for ExecutedRules; they count if the preset guards what is executed.
	// Nil means that they are not known: then it is AnyExecutedRules. Package policy
	// looks for them.
	Opened []string
}

// Assemble returns the rules of r with their priorities, ready for Compile.
// Whatever is wrong is an error that matches ErrInvalid.
func Assemble(r *Request) ([]Rule, error) {
	preset, err := r.Base()
	if err != nil {
		return nil, err
	}
	rules := preset.Rules
	if preset.Git {
		rules = append(rules, GitRules(slices.DeleteFunc(slices.Clone(r.GitDirs), NamesGit))...)
	}
	if preset.Executed && r.Opened != nil {
		rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Source == anyExecuted })
		rules = append(rules, ExecutedRules(r.Opened)...)
	}
	if r.File != nil {
		rules = append(rules, r.File.Rules...)
	}
	rules = append(rules, latest(r.Rules, PriorityRule, "--rule")...)
	return append(rules, latest(r.Reveals, PriorityReveal, "--reveal")...), nil
}

// Base returns the preset that r starts from; without its base rules where r.File
// starts from nothing but the secrets. The error matches ErrInvalid.
func (r *Request) Base() (Preset, error) {
	switch {
	case r.File == nil:
		return PresetByName(cmp.Or(r.Preset, DefaultPreset))
	case r.Preset != "" && r.File.Extends != "" && r.Preset != r.File.Extends:
		return Preset{}, invalid("preset %s is asked for, but %s extends %s: name only one", r.Preset, r.File.Name, r.File.Extends)
	case r.Preset != "" || r.File.Extends != "":
		return PresetByName(cmp.Or(r.Preset, r.File.Extends))
	}
	preset, err := PresetByName(DefaultPreset)
	preset.Rules = slices.DeleteFunc(preset.Rules, func(r Rule) bool { return r.Priority != PrioritySecret })
	return preset, err
}

// latest returns rules at the given priority, without those that a later one
// replaces.
func latest(rules []Rule, priority int, source string) []Rule {
	var out []Rule
	for _, r := range rules {
		r.Priority = priority
		if r.Source == "" {
			r.Source = source
		}
		out = slices.DeleteFunc(out, func(old Rule) bool {
			return old.Pattern == r.Pattern && old.Type == r.Type && old.Except == r.Except && old.AtMost == r.AtMost &&
				old.NotBelow == r.NotBelow && old.Fold == r.Fold
		})
		out = append(out, r)
	}
	return out
}
