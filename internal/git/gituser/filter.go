package gituser

import (
	"maps"
	"slices"

	"wolffia/internal/git/gitconfig"
)

// filters are the commands that settings have for filters, in any file: by name, and by "clean",
// "smudge" and "process".
type filters map[string]map[string]bool

func (f filters) add(s *gitconfig.Setting) {
	sub, _ := s.Sub()
	if f[sub] == nil {
		f[sub] = map[string]bool{}
	}
	f[sub][s.Key()] = true
}

// required returns settings by which git fails where the program of a filter is missing inside:
// otherwise git would use the content unfiltered, and report that only on the standard error. They
// come first, so that the user's own settings override them. git treats a direction without a
// command as a failure too, so it gets a command.
func (f filters) required() (all []gitconfig.Setting) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		has := f[name]
		if has["required"] || !has["clean"] && !has["smudge"] && !has["process"] {
			continue
		}
		all = append(all, gitconfig.Setting{Name: "filter." + name + ".required", Value: "true"})
		for _, direction := range []string{"clean", "smudge"} {
			if !has[direction] && !has["process"] {
				all = append(all, gitconfig.Setting{Name: "filter." + name + "." + direction, Value: "cat"})
			}
		}
	}
	return all
}
