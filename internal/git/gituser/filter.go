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
// git would take the content as it is, and say so on the standard error only. They come first,
// so that the user's own choice stands. git takes a direction without a command for a failure
// too, so it gets one.
func (f filters) required() (all []gitconfig.Setting) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		has := f[name]
		if has["required"] || !has["clean"] && !has["smudge"] && !has["process"] {
			continue
		}
		all = append(all, gitconfig.Setting{Name: "filter." + name + ".required", Value: "true"})
		for _, way := range []string{"clean", "smudge"} {
			if !has[way] && !has["process"] {
				all = append(all, gitconfig.Setting{Name: "filter." + name + "." + way, Value: "cat"})
			}
		}
	}
	return all
}
