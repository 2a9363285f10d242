package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"wolffia/internal/git/gitscan"
	"wolffia/internal/host/statedir"
	"wolffia/perm"
	"wolffia/runtime"
)

// maxPolicies bounds the policy files that are recorded for a codebase.
const maxPolicies = 100

// A record is what the state directory has of a codebase and of the directories above
// it.
type record struct {
	state, path string              // the state directory, and the codebase
	known       []statedir.Codebase // the innermost first
}

// readRecord reads the record of the codebase at path. state is Options.StateDir.
func readRecord(state, path string) (_ *record, err error) {
	r := &record{path: path}
	if state != "" {
		r.state, err = filepath.Abs(state)
	} else {
		r.state, err = statedir.Default(os.Getenv, os.Geteuid())
	}
	if err == nil {
		r.known, err = statedir.KnownCodebases(r.state, path)
	}
	return r, err
}

// update records that rules were made with the policy files called names, as of ownNames.
// What is recorded already stays.
func (r *record) update(names []string) error {
	c := statedir.Codebase{Path: r.path}
	if len(r.known) > 0 && r.known[0].Path == r.path {
		c.Policies = slices.Clone(r.known[0].Policies)
	}
	old := len(c.Policies)
	for _, name := range names {
		if utf8.ValidString(name) && !slices.Contains(c.Policies, name) && len(c.Policies) < maxPolicies {
			c.Policies = append(c.Policies, name)
		}
	}
	if len(c.Policies) == old {
		return nil
	}
	dir, err := statedir.Open(r.state)
	if err == nil {
		err = dir.Remember(&c)
	}
	return err
}

// policyFiles returns the rules of ownFile for the policy files in the codebase that
// rules were made with before, for it or a directory above it: a sandbox made without a
// policy file must not write the one that the next sandbox is made with.
func (r *record) policyFiles() []perm.Rule {
	var names []string
	for _, k := range r.known {
		for _, name := range k.Policies {
			rel, err := filepath.Rel(r.path, filepath.Join(k.Path, name))
			if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
				names = append(names, rel)
			}
		}
	}
	return ownFile(names)
}

// ownNames returns the paths relative to root of the policy file and configuration files, and of
// the links below root that lead to them. It ignores empty paths.
func ownNames(root string, files []string) (names []string, err error) {
	for _, file := range files {
		if file == "" {
			continue
		}
		abs, err := filepath.Abs(file)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "policy file: %w", err)
		}
		names = append(names, gitscan.Reach(root, abs)...)
	}
	return names, nil
}

// ownFile returns the rules that keep a sandbox from changing the policy file called
// names, which the rules of the next sandbox come from: each name is at most Read, and
// so is the name with .lock appended, under which some programs write a new version.
func ownFile(names []string) []perm.Rule {
	var all []string
	for _, name := range names {
		all = append(all, name, name+".lock")
	}
	return atMostRead(all, rulesFile)
}

// rulesFile is the source of the rules of ownFile.
const rulesFile = "the rules themselves, which come from this file"
