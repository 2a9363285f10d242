package policy

import (
	"maps"
	"slices"
	"strings"

	"wolffia/internal/gitscan"
	"wolffia/perm"
)

// guard returns the rules, beside perm.GitRules, that keep a sandbox from
// changing what the user's own git would execute.
func guard(repos *gitscan.Repos) []perm.Rule {
	var rules []perm.Rule
	atMostRead := func(pattern, source string) {
		rules = append(rules, perm.Rule{Pattern: pattern, Level: perm.Read, AtMost: true, Priority: perm.PrioritySecret, Source: source})
	}
	for _, path := range slices.Concat(repos.Outside, repos.Links) {
		pattern := "/" + perm.Quote(path)
		if path == "." {
			pattern = "**"
		}
		atMostRead(pattern, "what git's configuration points to")
	}
	if repos.Truncated {
		rules = append(rules, perm.AnyGitRules()...)
	}
	// A sandbox could hide a repository by the modes of a directory, and be in it
	// again the next time.
	for _, pattern := range covering(repos.Unread) {
		atMostRead(pattern, "what cannot be looked into for git repositories")
	}
	return rules
}

// covering returns patterns that match all the paths and what is below them: no others,
// unless those were too many or too long for rules, as a sandbox can make them.
func covering(paths []string) []string {
	const most, longest = 1000, 2000 // patterns, and bytes of one
	for depth := 64; ; depth /= 2 {
		all, fits := map[string]bool{}, true
		for _, path := range paths {
			names := strings.SplitN(path, "/", depth+1)
			pattern := "/" + perm.Quote(strings.Join(names[:min(depth, len(names))], "/"))
			all[pattern] = true
			fits = fits && len(pattern) <= longest
		}
		if fits && len(all) <= most {
			return slices.Sorted(maps.Keys(all))
		}
		if depth == 1 {
			return []string{"**"}
		}
	}
}
