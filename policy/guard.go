package policy

import (
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"wolffia/internal/git/gitscan"
	"wolffia/perm"
)

// maxBare bounds the bare repositories with rules of their own.
const maxBare = 100

// maxNotGit bounds the names of directories that perm.AnyGitRules do not apply to.
const maxNotGit = 50

// notGit returns, as patterns for perm.Request.NotGit, the names of directories that are named
// like a bare repository and are not one.
func notGit(repos *gitscan.Repos) []string {
	names := map[string]bool{}
	for _, dir := range repos.NotGit {
		if name := path.Base(dir); utf8.ValidString(name) {
			names[strings.ReplaceAll(perm.Quote(name), ",", `\,`)] = true
		}
	}
	if len(names) > maxNotGit {
		return nil
	}
	return slices.Sorted(maps.Keys(names))
}

// bare returns the git directories that a sandbox sees in place and to which perm.AnyGitRules do
// not apply. It returns them in dirs, or in many if they are too many for rules.
func bare(repos *gitscan.Repos) (dirs, many []string) {
	var notGitNames []string
	for _, dir := range repos.NotGit {
		notGitNames = append(notGitNames, path.Base(dir))
	}
	dirs = slices.DeleteFunc(slices.Clone(repos.Dirs), func(dir string) bool {
		return slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool {
			return strings.HasSuffix(name, ".git") && !slices.Contains(notGitNames, name)
		})
	})
	if len(dirs) > maxBare {
		return nil, dirs
	}
	return dirs, nil
}

// inGit reports whether a path is, or is below, an entry called .git. A sandbox has a copy of that
// entry.
func inGit(path string) bool { return slices.Contains(strings.Split(path, "/"), ".git") }

// guard returns the rules, beside perm.GitRules, that keep a sandbox from changing files that
// the user's own git would execute. sealed are directories that are at most readable.
func guard(repos *gitscan.Repos, sealed []string) []perm.Rule {
	outside := slices.DeleteFunc(slices.Concat(repos.Outside, repos.Links), inGit)
	return slices.Concat(
		pathRules(outside, "the way to what git's configuration points to"),
		limits(covering(outside), perm.Glob, "what git's configuration points to"),
		everyTree(repos.Later),
		// A sandbox could hide a repository by the modes of a directory, and use it the
		// next time.
		limits(covering(sealed), perm.Glob, "what cannot be looked into for git repositories"))
}

// everyTree returns rules for relative paths that the user's own git executes in each working
// tree, and so in each working tree that a sandbox makes. The rules allow no links or files as
// parents of these paths.
func everyTree(paths []string) (rules []perm.Rule) {
	const source = "what your own git configuration points to in each working tree"
	var patterns, dirs []string
	for _, p := range paths {
		patterns = append(patterns, perm.Quote(p))
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, perm.Quote(dir))
		}
	}
	slices.Sort(dirs)
	return append(limits(patterns, perm.Glob, source), limits(slices.Compact(dirs), perm.File, source)...)
}

// pathRules returns rules that keep links and files from replacing a parent directory of
// paths, which would redirect the paths. Directories can be made.
func pathRules(paths []string, source string) []perm.Rule {
	dirs := map[string]bool{}
	for _, p := range paths {
		for dir := path.Dir(p); dir != "." && dir != "/" && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	patterns, kind := covering(slices.Collect(maps.Keys(dirs))), perm.File
	if len(patterns) < len(dirs) {
		kind = perm.Glob // a pattern covers several directories, and all that is in them
	}
	return limits(patterns, kind, source)
}

// limits returns rules that make the paths which patterns and kind match at most readable.
func limits(patterns []string, kind perm.Kind, source string) (rules []perm.Rule) {
	for _, pattern := range patterns {
		rules = append(rules, perm.Rule{Pattern: pattern, Type: kind, Level: perm.Read, AtMost: true, Priority: perm.PrioritySecret, Source: source})
	}
	return rules
}

// covering returns patterns that match all the paths and the names below them. The patterns match
// more if the paths are too many or too long for rules. A sandbox can cause that.
func covering(paths []string) []string {
	const most, longest = 1000, 2000 // patterns, and bytes of one
	for depth := 64; ; depth /= 2 {
		all, fits := map[string]bool{}, true
		for _, path := range paths {
			if path == "." {
				return []string{"**"}
			}
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
