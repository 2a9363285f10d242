package perm

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// Targets returns patterns for a rule that is to give more to a path than r does, which decides
// about it: from the path alone to as much as r covers. The path is relative to the root, for
// which it returns nil.
func Targets(name string, dir bool, r *Rule) []string {
	if name == "" || name == "." {
		return nil
	}
	targets := []string{"/" + Quote(name)}
	only := *r
	only.Level, only.AtMost, only.Ask = Write, false, false
	p, err := Compile([]Rule{only})
	if err != nil {
		return targets
	}
	add := func(pattern string) {
		if !slices.Contains(targets, pattern) {
			targets = append(targets, pattern)
		}
	}
	parent, ext := path.Dir(name), path.Ext(name)
	if parent != "." && p.covers(parent) {
		add("/" + Quote(parent) + "/**")
	}
	if base := path.Base(name); !dir && len(ext) > 1 && ext != base {
		for i := 0; i <= len(parent); i++ { // the highest directory that r covers
			if i < len(parent) && i > 0 && parent[i] != '/' {
				continue
			}
			top := parent[:i]
			if parent == "." {
				top = ""
			}
			if !p.covers(top) {
				continue
			}
			if top == "" {
				add("**/*" + Quote(ext))
			} else {
				add("/" + Quote(top) + "/**/*" + Quote(ext))
			}
			break
		}
	}
	if r.Except == "" && r.NotBelow == "" && !r.Fold && !r.Copies && strings.Trim(r.Pattern, "*/") != "" {
		add(r.Pattern)
	}
	return targets
}

// covers reports whether p gives Write to all below the directory called name.
func (p *Policy) covers(name string) bool {
	s := p.root
	for part := range strings.SplitSeq(name, "/") {
		if name != "" {
			s = p.Enter(s, part)
		}
	}
	l, same := p.Constant(s)
	return same && l == Write
}

// secretNames are the presets' secrets.
var secretNames = sync.OnceValue(func() *Policy {
	preset := presets[0].preset()
	p, err := Compile(slices.DeleteFunc(preset.Rules, func(r Rule) bool {
		return r.Priority != PriorityPreset && (r.Priority != PrioritySecret || r.Level != None || r.GuardsGit())
	}))
	if err != nil {
		panic(err)
	}
	return p
})

// NamesSecret reports whether the default preset takes a file at a path for a secret.
func NamesSecret(name string) bool { return secretNames().Level(name, false) == None }
