package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/gitscan"
	"wolffia/perm"
	"wolffia/runtime"
)

// scanLimit is how long looking for git repositories may take.
const scanLimit = 30 * time.Second

// guardGit looks for git repositories below the codebase, so that the rules
// keep a sandbox from changing what the user's own git would execute. It
// returns the git directories for perm.GitRules and further rules.
func (a *app) guardGit(ctx context.Context, codebase string) (dirs []string, more []perm.Rule, err error) {
	root, err := filepath.Abs(codebase)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, scanLimit)
	defer cancel()
	repos, err := gitscan.Scan(ctx, root)
	var why unix.Errno
	if errors.As(err, &why) {
		err = why
	}
	if err != nil {
		return nil, nil, runtime.Errorf(runtime.ErrInvalid, "codebase %s: %w", codebase, err)
	}
	atMostRead := func(pattern, source string) perm.Rule {
		return perm.Rule{Pattern: pattern, Level: perm.Read, AtMost: true, Priority: perm.PrioritySecret, Source: source}
	}
	for _, path := range slices.Concat(repos.Outside, repos.Links) {
		pattern := "/" + perm.Quote(path)
		if path == "." {
			pattern = "**"
		}
		more = append(more, atMostRead(pattern, "what git's configuration points to"))
	}
	if repos.Truncated {
		a.warn("%s is too large to look for all git repositories in it: hooks and configuration in every .git are read-only, new repositories cannot be made", printable(codebase))
		more = append(more, perm.AnyGitRules()...)
	}
	// A sandbox could hide a repository from us by the modes of a directory, and be in
	// it again the next time.
	for _, pattern := range covering(repos.Unread) {
		more = append(more, atMostRead(pattern, "what cannot be looked into for git repositories"))
	}
	return repos.Dirs, more, nil
}

// covering returns patterns that match all the paths and what is below them: no others,
// unless those were too many or too long for rules, as a sandbox can make them.
func covering(paths []string) []string {
	const most, longest = 200, 2000 // patterns, and bytes of one
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

// maxNamed is how many files a warning names.
const maxNamed = 5

// warnTracked tells of files that are hidden but in git, where their content
// can be read all the same.
func (a *app) warnTracked(ctx context.Context, codebase string, rules []perm.Rule) {
	if codebase == "" {
		return
	}
	tracked, err := gitscan.Tracked(ctx, codebase)
	if err != nil || len(tracked) == 0 {
		return // a repository that git cannot read either hides nothing
	}
	policy, err := perm.Compile(rules)
	if err != nil {
		return // creating the sandbox says so
	}
	var hidden []string
	for _, path := range tracked {
		if policy.Level(path, false) < perm.Read {
			hidden = append(hidden, path)
		}
	}
	if len(hidden) == 0 {
		return
	}
	names := printable(strings.Join(hidden[:min(len(hidden), maxNamed)], ", "))
	if n := len(hidden) - maxNamed; n > 0 {
		names += fmt.Sprintf(" and %d more", n)
	}
	a.warn("hidden but tracked by git, so that their content is in git's objects: %s", names)
}
