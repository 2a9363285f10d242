package config

import (
	"cmp"
	"slices"
	"strings"

	"wolffia/fields"
)

// ProjectName is the name of a project's file, at the root of the codebase.
const ProjectName = ".wolffia.yaml"

// The keys of a file that are not flags.
const (
	keyProfile     = "profile"     // the profile to use
	keyProfiles    = "profiles"    // profiles by name
	keyAllow       = "allow"       // in the user's file: keys that a project's file may set freely
	keyDescription = "description" // in a profile
)

// key returns the key of a name, or nil.
func key(keys []fields.Field, name string) *fields.Field {
	i := slices.IndexFunc(keys, func(k fields.Field) bool { return k.Key == name })
	if i < 0 {
		return nil
	}
	return &keys[i]
}

// known is key, but for an unknown name a field that a project's file may not set.
func known(keys []fields.Field, name string) *fields.Field {
	return cmp.Or(key(keys, name), new(fields.Field))
}

// suggestion returns text for an error about an unknown name: the nearest of names, if
// one is near, or all of them if they are few.
func suggestion(name string, names []string) string {
	best, distance := "", 3
	for _, n := range names {
		if d := edits(name, n); d < min(distance, len(n)) {
			best, distance = n, d
		}
	}
	switch {
	case best != "":
		return ": did you mean " + best + "?"
	case len(names) > 0 && len(names) <= 12:
		return ": want one of " + strings.Join(names, ", ")
	}
	return ""
}

// edits returns how many bytes have to be inserted, deleted or replaced to make b of a
// (Levenshtein). A name that is much longer than all keys counts as far away.
func edits(a, b string) int {
	if len(a) > 100 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
