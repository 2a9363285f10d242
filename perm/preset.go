package perm

import (
	"slices"
	"strings"
)

// A Preset is a named list of rules to start from.
type Preset struct {
	Name string `json:"name"`
	Doc  string `json:"doc"` // one sentence

	// Rules are the base rules at PriorityPreset, the secrets at PrioritySecret, AnyExecutedRules
	// if Executed is set, and AnyGitRules if Git is set. Their effect for any codebase is
	// described by Doc. Assemble adds GitRules for repositories that AnyGitRules do not apply to,
	// excludes directories that are not repositories, and replaces AnyExecutedRules by
	// ExecutedRules.
	Rules []Rule `json:"rules"`

	// Git is set if a sandbox cannot change what git on the host executes: bare repositories
	// are read-only, and each .git is the sandbox's own, see GitInPlace and GitUnguarded.
	Git bool `json:"git"`

	// Executed is set if files that the host executes because of their names are
	// read-only.
	Executed bool `json:"executed"`
}

// DefaultPreset is the name of the preset of a Request that names no preset and no file.
const DefaultPreset = "agent-safe"

// Presets returns all presets, the default one first. The slices are the caller's.
func Presets() []Preset {
	all := make([]Preset, len(presets))
	for i := range presets {
		all[i] = presets[i].preset()
	}
	return all
}

// presets are the rows that presets are made of, the default one first.
var presets = []presetRow{
	{
		"agent-safe", Write, true, conceal,
		"Everything can be changed, but secrets are hidden, and what the host would execute cannot be written: by git, and as settings of shells, editors and agents.",
	},
	{
		"development", Write, true, protect,
		"Like agent-safe, but settings of package managers and direnv that may hold credentials can be read, and settings of shells, editors and agents changed.",
	},
	{
		"read-only", Read, true, conceal,
		"Everything can be read and nothing changed; secrets are hidden.",
	},
	{
		"view-only", View, true, conceal,
		"Names and attributes can be seen, contents cannot; secrets are hidden.",
	},
	{
		"full-access", Write, false, expose,
		"Everything can be changed, secrets too: for code that is trusted as much as its user.",
	},
}

// PresetByName returns the preset called name. For another name the error lists those
// that exist.
func PresetByName(name string) (Preset, error) {
	var names []string
	for i := range presets {
		if presets[i].name == name {
			return presets[i].preset(), nil
		}
		names = append(names, presets[i].name)
	}
	slices.Sort(names)
	return Preset{}, invalid("unknown preset %q: want one of %s", name, strings.Join(names, ", "))
}

// presetRules is more than the rules of a preset, and what Assemble adds to it for a small
// codebase.
const presetRules = 256

// A stance is what a preset does about secrets.
type stance int

const (
	expose  stance = iota // nothing
	conceal               // hides them, and makes what the host executes read-only
	protect               // hides them, and lets settings be read
)

// A presetRow is what a preset is made of.
type presetRow struct {
	name   string
	base   Level
	git    bool
	stance stance
	doc    string
}

func (row *presetRow) preset() Preset {
	source := "preset " + row.name
	p := Preset{Name: row.name, Doc: row.doc, Git: row.git}
	p.Rules = append(make([]Rule, 0, presetRules), Rule{Pattern: "**", Level: row.base, Priority: PriorityPreset, Source: source})
	hide := func(list []secret, level Level) {
		for _, secret := range list {
			p.Rules = append(p.Rules, secret.rule(level, source))
		}
	}
	switch row.stance {
	case conceal:
		hide(secrets, None)
		hide(settings, None)
		p.Executed = true
		p.Rules = append(p.Rules, AnyExecutedRules()...)
	case protect:
		hide(secrets, None)
		hide(settings, Read)
	}
	if row.git {
		p.Rules = append(p.Rules, AnyGitRules()...)
	}
	return p
}

// rule returns the rule of a preset for a row.
func (s *secret) rule(level Level, source string) Rule {
	return Rule{
		Pattern:  s.pattern,
		Except:   s.except,
		NotBelow: packages,
		Fold:     true,
		Copies:   true,
		Type:     s.kind,
		Level:    level,
		AtMost:   level > None,
		Priority: PrioritySecret,
		Source:   source,
	}
}
