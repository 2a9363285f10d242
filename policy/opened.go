package policy

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"wolffia/internal/gitscan"
	"wolffia/perm"
	"wolffia/runtime"
)

// maxOpened bounds the directories that rules are made for, each, of what the host
// executes, and longestOpened the bytes of the path of one. With more, or a longer one,
// the rules are for all.
const maxOpened, longestOpened = 32, 300

// opened returns the directories of the codebase that the host's programs may be
// started in: its root, the working trees of git, and where an editor or an agent
// has settings already. Nil means that they are too many, so that it is all.
func opened(repos *gitscan.Repos) []string {
	dirs := map[string]bool{".": true}
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
	for dir := range dirs {
		switch {
		case perm.InPackages(dir):
		case len(dir) > longestOpened:
			return nil
		default:
			out = append(out, dir)
		}
	}
	if len(out) > maxOpened || repos.Truncated {
		return nil
	}
	slices.Sort(out)
	return out
}

// executable reports whether the host may execute what has this name, wherever it
// is, so that if it is a link what it leads to is guarded too.
func executable(path string) bool { return everywhere().Level(path, false) < perm.Write }

// everywhere has perm.AnyExecutedRules, and everything else can be written.
var everywhere = sync.OnceValue(func() *perm.Policy {
	rules, err := perm.Compile(append(perm.AnyExecutedRules(), perm.Rule{Pattern: "**", Level: perm.Write}))
	if err != nil {
		return &perm.Policy{} // a test compiles them; this takes every name for such a one
	}
	return rules
})

// led returns rules for what the host executes by way of links in the codebase.
func (l *look) led() []perm.Rule {
	var rules []perm.Rule
	for _, link := range l.repos.Linked {
		rules = append(rules, fixed(l.path, filepath.Join(l.path, link), "what the host executes by way of "+perm.Quote(link))...)
	}
	return rules
}

// homeRules returns rules for what the host executes in the user's home and that is
// in the codebase at path, since a link leads there or the home is in the codebase.
func homeRules(path string) []perm.Rule {
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err != nil {
		return nil // there is none
	}
	inside := home == path || strings.HasPrefix(home, strings.TrimSuffix(path, "/")+"/")
	links := map[string]bool{}
	isLink := func(name string) bool {
		is, known := links[name]
		if !known {
			_, err := os.Readlink(home + "/" + name)
			is = err == nil
			links[name] = is
		}
		return is
	}
	var rules []perm.Rule
	for _, name := range perm.ExecutedHome() {
		led := inside
		for i := 0; !led && i <= len(name); i++ {
			led = (i == len(name) || name[i] == '/') && isLink(name[:i])
		}
		if led {
			rules = append(rules, fixed(path, home+"/"+name, "what the host executes as ~/"+name)...)
		}
	}
	return rules
}

// fixed returns rules that keep a sandbox from changing what a path, which is
// absolute, means to the host: the file or directory that it leads to, whether or
// not it exists, and the links on the way, as far as they are below root. A
// directory on the way cannot be renamed, since other rules hold below it. It gives
// nothing.
func fixed(root, path, source string) []perm.Rule {
	reached := gitscan.Reach(root, path)
	rules := ways(reached, source)
	for _, p := range reached {
		pattern := "/" + perm.Quote(p)
		if p == "." {
			continue // who gives it as a codebase wants to work in it
		}
		rules = append(rules, perm.Rule{Pattern: pattern, Level: perm.Read, AtMost: true, Priority: perm.PrioritySecret, Source: source})
	}
	return rules
}

// ownFile returns the rules that keep a sandbox from changing the policy file that
// its own rules are from, which would be those of the next one: as fixed, and for the
// name with .lock behind it, under which some programs write a file anew. They hold
// whatever the preset is.
func ownFile(root, file string) ([]perm.Rule, error) {
	if file == "" {
		return nil, nil
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "policy file: %w", err)
	}
	rules := fixed(root, abs, "the rules themselves, which are from this file")
	for _, r := range slices.Clone(rules) {
		r.Pattern += ".lock"
		rules = append(rules, r)
	}
	return rules, nil
}
