package policy

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"wolffia/internal/gitscan"
	"wolffia/internal/statedir"
	"wolffia/perm"
	"wolffia/runtime"
)

// maxPolicies bounds the names of policy files that are recorded for a codebase.
const maxPolicies = 100

// ownNames returns the names below root, relative to it, that decide what the policy
// file is: its own, and the links that lead to it. A file of "" has none.
func ownNames(root, file string) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "policy file: %w", err)
	}
	return gitscan.Reach(root, abs), nil
}

// ownFile returns the rules that keep a sandbox from changing the policy file that
// its own rules are from, which would be those of the next one: at most read for names,
// and for each with .lock behind it, under which some programs write a file anew. A
// directory on the way cannot be renamed, since other rules hold below it.
func ownFile(names []string) []perm.Rule {
	var all []string
	for _, name := range names {
		all = append(all, name, name+".lock")
	}
	return atMostRead(all, "the rules themselves, which are from this file")
}

// earlierFiles returns the rules of ownFile for the policy files that rules were made
// with before, of the codebase at root and of those that it is in: a sandbox made without
// one must not write what the next one is made with. It records names, as of
// ownNames, for those that come later, if there is a record of root.
func earlierFiles(state, root string, names []string) ([]perm.Rule, error) {
	state, err := stateDir(state)
	if err != nil {
		return nil, err
	}
	known, err := statedir.KnownCodebases(state, root)
	if err != nil {
		return nil, err
	}
	var rules []perm.Rule
	for _, k := range known {
		for _, name := range k.Policies {
			rel, err := filepath.Rel(root, filepath.Join(k.Path, name))
			if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
				rules = append(rules, ownFile([]string{rel})...)
			}
		}
	}
	if len(known) == 0 || known[0].Path != root {
		return rules, nil
	}
	record := known[0]
	record.Policies = slices.Clone(record.Policies)
	for _, name := range names {
		if utf8.ValidString(name) && !slices.Contains(record.Policies, name) && len(record.Policies) < maxPolicies {
			record.Policies = append(record.Policies, name)
		}
	}
	if len(record.Policies) == len(known[0].Policies) {
		return rules, nil
	}
	dir, err := statedir.Open(state)
	if err != nil {
		return nil, err
	}
	return rules, dir.Remember(&record, true)
}
