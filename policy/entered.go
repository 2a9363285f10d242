package policy

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitscan"
	"wolffia/perm"
)

// entered reports whether a directory of the codebase belongs to Repos.Folders: conditional looks at
// it.
func entered(dir string) bool { return path.Base(dir) != ".git" && !perm.InPackages(dir) }

// conditions are names that programs on the host execute, in a directory that has a certain other
// one.
var conditions = []struct {
	has    string
	names  []string
	source string
}{
	{
		".envrc",
		[]string{"flake.nix", "flake.lock", "shell.nix", "default.nix", "devbox.json", "devbox.lock", "devenv.nix", "devenv.yaml", "devenv.lock"},
		"what direnv evaluates for the .envrc beside it",
	},
	{".yarn/sdks", []string{".pnp.cjs", ".pnp.loader.mjs"}, "what an editor loads by way of .yarn/sdks"},
	{"bin/hermit", []string{"bin/hermit", "bin/hermit.hcl", "bin/activate-hermit"}, "what a shell runs by hermit at a cd"},
}

// conditional returns the rules for conditions.
func (l *inspection) conditional() (rules []perm.Rule) {
	dirs := slices.Concat([]string{"."}, l.repos.Marked)
	for _, dir := range l.repos.Folders {
		if path.Base(dir) == "bin" {
			dirs = append(dirs, path.Dir(dir))
		}
	}
	slices.Sort(dirs)
	for _, c := range conditions {
		var paths []string
		for _, dir := range slices.Compact(dirs) {
			if _, err := os.Lstat(filepath.Join(l.path, dir, c.has)); err != nil || perm.InPackages(dir) {
				continue
			}
			for _, name := range c.names {
				paths = append(paths, gitscan.Reach(l.path, filepath.Join(l.path, dir, name))...)
			}
		}
		rules = append(rules, someAtMostRead(paths, c.source)...)
	}
	return rules
}

// someAtMostRead is atMostRead for paths that may be too many for a rule each: then the rules are
// for directories.
func someAtMostRead(paths []string, source string) []perm.Rule {
	if len(paths) <= maxLed {
		return atMostRead(paths, source)
	}
	return limits(covering(paths), perm.Glob, source)
}

// newNames returns the rules by which no name can be made that a program of the host may look for:
// at the top of the codebase at root, of the sandbox's own working tree, and of the home. worktree
// is Options.Worktree.
func newNames(root, worktree string) (rules []perm.Rule) {
	dirs := []string{"."}
	if worktree != "" {
		dirs = append(dirs, WorktreeDir+"/"+worktree)
	}
	if home := homeIn(root); home != "" && home != "." {
		dirs = append(dirs, home)
	}
	for _, dir := range dirs {
		var dots []string
		for _, name := range namesIn(filepath.Join(root, dir)) {
			if strings.HasPrefix(name, ".") {
				dots = append(dots, name)
			}
		}
		rules = append(rules, perm.NewNameRules(dir, dots, namesIn(filepath.Join(root, dir, ".config")))...)
	}
	return rules
}

// namesIn returns the names in a directory, none if it cannot be read. It does not follow a link in
// its place.
func namesIn(dir string) (names []string) {
	eachName(dir, unix.O_NOFOLLOW, maxNames, func(name []byte, _ uint8) { names = append(names, string(name)) })
	slices.Sort(names)
	return names
}

// maxNames bounds the names of one directory that are looked at.
const maxNames = 5000
