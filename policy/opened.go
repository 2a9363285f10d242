package policy

import (
	"path"
	"path/filepath"
	"slices"
	"sync"

	"wolffia/internal/git/gitscan"
	"wolffia/perm"
)

// maxOpened bounds the directories with rules of their own for what the host executes,
// longestOpened the bytes of the path of one, as a pattern, and openedText those of all. Beyond them the rules are for all
// directories.
const maxOpened, longestOpened, openedText = 32, 300, 5000

// opened returns the directories of the codebase that the host's programs may be
// started in: its root, the working trees of git, the user's home, and those with settings of an editor
// or an agent. Nil means that there are too many: all directories.
func (l *inspection) opened() []string {
	repos, dirs := l.repos, map[string]bool{".": true}
	if home := homeIn(l.path); home != "" {
		dirs[home] = true
	}
	for _, p := range slices.Concat(repos.Dirs, repos.Links) {
		if path.Base(p) == ".git" {
			dirs[path.Dir(p)] = true
		}
	}
	for _, t := range repos.Trees { // whose .git is elsewhere, or a link
		dirs[t.Top] = true
	}
	for _, p := range repos.Marked {
		dirs[p] = true
	}
	var out []string
	text := 0
	for dir := range dirs {
		size := len(perm.Quote(dir))
		switch {
		case perm.InPackages(dir):
		case size > longestOpened:
			return nil
		default:
			out, text = append(out, dir), text+size
		}
	}
	if len(out) > maxOpened || text > openedText || repos.Truncated {
		return nil
	}
	slices.Sort(out)
	return out
}

// executable reports whether the host may execute a file because of the names in path,
// in whatever directory, so that the target of a link there is guarded too.
func executable(path string) bool { return everywhere().Level(path, false) < perm.Write }

var anything = perm.Rule{Pattern: "**", Level: perm.Write}

// everywhere compiles perm.AnyExecutedRules, and a rule by which all else is writable.
var everywhere = sync.OnceValue(func() *perm.Policy {
	rules, err := perm.Compile(append(perm.AnyExecutedRules(), anything))
	if err != nil {
		return &perm.Policy{} // cannot be: a test compiles them; this guards every name
	}
	return rules
})

// led returns rules for the targets of links in the codebase that the host would
// execute, in the directories opened, as opened returns them. A link in such a target is
// not followed.
func (l *inspection) led(opened []string) ([]perm.Rule, error) {
	if len(l.repos.Linked) == 0 {
		return nil, nil
	}
	placed := everywhere()
	if opened != nil {
		var err error
		if placed, err = perm.Compile(append(perm.ExecutedRules(opened), anything)); err != nil {
			return nil, invalid(err)
		}
	}
	const source = "what the host executes by way of a link"
	var paths []string
	for _, link := range l.repos.Linked {
		if placed.Level(link, false) < perm.Write {
			paths = append(paths, gitscan.Reach(l.path, filepath.Join(l.path, link))...)
		}
	}
	return someAtMostRead(paths, source), nil
}

// maxLed bounds the rules for the targets of links, which a sandbox may have made.
// Beyond it the rules are for directories.
const maxLed = 500

// atMostRead returns rules by which paths, relative to the root, and their parent directories are
// at most readable. A parent directory cannot be renamed, because other rules apply below it. The
// rules leave the root out: a read-only codebase is of no use.
func atMostRead(paths []string, source string) []perm.Rule {
	var patterns []string
	for _, p := range paths {
		if p != "." {
			patterns = append(patterns, "/"+perm.Quote(p))
		}
	}
	return append(pathRules(paths, source), limits(patterns, perm.Glob, source)...)
}
