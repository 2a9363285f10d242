package policy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/perm"
	"wolffia/runtime"
)

// maxWarnings bounds Policy.Warnings.
const maxWarnings = 8

// warnings returns effects of the rules of req, which are among all, that the user may not expect
// for the codebase at path. It stats a few files, and does not walk the codebase.
func warnings(path string, all []perm.Rule, req *perm.Request) ([]string, error) {
	var own []perm.Rule
	for _, r := range req.Rules {
		r.Priority = perm.PriorityRule
		own = append(own, r)
	}
	for _, r := range req.Reveals {
		r.Priority = perm.PriorityReveal
		own = append(own, r)
	}
	typed := len(own) // the rules of this command line
	if req.File != nil {
		own = append(own, req.File.Rules...)
	}
	if len(own) == 0 {
		return nil, nil
	}
	compiled, err := perm.Compile(all)
	if err != nil {
		return nil, invalid(err)
	}
	unguarded := perm.GitUnguarded(all)
	var out []string
	for i, r := range own {
		text := patternWarning(path, &r)
		if text == "" {
			text = outranked(compiled, &r)
		}
		if text == "" && unguarded == "" {
			text = copied(compiled, &r)
		}
		// A rule below write is not meant for files that are made later.
		if text == "" && i < typed && r.Level < perm.Write && !anyThere(path, r.Examples()) {
			text = "the codebase has no such path"
		}
		if text != "" {
			out = append(out, describe(&r)+": "+text)
		}
	}
	if more := len(out) - maxWarnings; more > 0 {
		out = append(out[:maxWarnings], fmt.Sprintf("rules that may not have the effect they seem to have: %d more", more))
	}
	return out, nil
}

// describe names a rule.
func describe(r *perm.Rule) string {
	s := fmt.Sprintf("rule %q", r.Pattern+"="+r.Level.String())
	if r.Source != "" && !strings.HasPrefix(r.Source, "--") {
		s += " of " + r.Source
	}
	return s
}

// patternWarning returns a warning about the pattern of a rule that begins with the codebase's
// path, else "".
func patternWarning(path string, r *perm.Rule) string {
	rest, ok := strings.CutPrefix(r.Pattern, path)
	if !ok || path == "/" || rest != "" && rest[0] != '/' {
		return ""
	}
	if _, err := os.Lstat(filepath.Join(path, path)); err == nil {
		return "" // the codebase has a path that looks like its own path on the host
	}
	if rest == "" || rest == "/" {
		rest = "/**"
	}
	return fmt.Sprintf("a pattern begins at the root of the codebase, not of the host: write %q", rest+"="+r.Level.String())
}

// copied returns the reason why a rule about names in a .git has no effect: the sandbox has its
// own copy of that .git. It returns "" if the rule has an effect.
func copied(all *perm.Policy, r *perm.Rule) string {
	for _, x := range r.Examples() {
		names := strings.Split(x.Path, "/")
		i := slices.Index(names, ".git")
		if dot := strings.Join(names[:i+1], "/"); i >= 0 && i < len(names)-1 && all.Level(dot, true) == perm.Write {
			return fmt.Sprintf("%q is the sandbox's own copy, in which no rule holds; to hide all of it: --rule '/%s=none'", dot, perm.Quote(dot))
		}
	}
	return ""
}

// outranked returns the reason why a rule does not give its level to the paths that it matches. It
// returns "" if the rule does, or if another rule of the user's decides by a higher priority.
func outranked(all *perm.Policy, r *perm.Rule) string {
	if r.AtMost {
		return ""
	}
	examples := r.Examples()
	for _, x := range examples {
		if x.Dir { // some rules match the entries of a directory, and not the directory
			examples = append(examples, perm.Example{Path: x.Path + "/x"})
		}
	}
	for _, x := range examples {
		e := all.Explain(x.Path, x.Dir)
		by := e.Rule
		if by == nil || e.Level == r.Level || e.Raised || same(by, r) || !slices.ContainsFunc(e.Losers, func(l perm.Rule) bool { return same(&l, r) }) {
			continue
		}
		if by.Priority != r.Priority && fromUser(by) {
			continue
		}
		text := fmt.Sprintf("it does not decide about %q, which is %v: rule %q of %s outranks it", x.Path, e.Level, by.String(), by.Source)
		if remedy := e.RemedyLike(r); remedy != "" {
			text += "; to outrank that: " + remedy
		}
		return text
	}
	return ""
}

// same reports whether two rules are equal in all that neither For nor perm.Assemble sets.
func same(a, b *perm.Rule) bool {
	x, y := *a, *b
	x.Priority, x.Source, y.Priority, y.Source = 0, "", 0, ""
	return x == y
}

// fromUser reports whether a rule is the user's own, and not of a preset or For's.
func fromUser(r *perm.Rule) bool {
	switch r.Priority {
	case perm.PriorityRule, perm.PriorityReveal, perm.PriorityProject, perm.PriorityProjectReveal:
		return true
	}
	return fromFile().MatchString(r.Source)
}

// anyThere reports whether the codebase may have a path that a pattern with these examples matches.
func anyThere(path string, examples []perm.Example) bool {
	for _, x := range examples {
		if !x.Fixed {
			return true
		}
		if _, err := os.Lstat(filepath.Join(path, x.Path)); err == nil {
			return true
		}
	}
	return len(examples) == 0
}

// maxWalked bounds the names that Unmatched looks at.
const maxWalked = 200_000

// Unmatched returns the rules that match no file of the codebase, a directory. It looks
// through all of it, or up to 200,000 names: whole is false if there are more. A directory that
// cannot be read counts as empty. An error is of class runtime.ErrInvalid.
func Unmatched(codebase string, rules []perm.Rule) (none []perm.Rule, whole bool, err error) {
	path, err := resolve(codebase)
	if err != nil {
		return nil, false, err
	}
	matchers := map[int]*perm.Policy{}
	for i, r := range rules {
		r.Level, r.AtMost, r.Ask = perm.Write, false, false
		if matchers[i], err = perm.Compile([]perm.Rule{r}); err != nil {
			return nil, false, runtime.WithClass(runtime.ErrInvalid, err)
		}
		if matchers[i].Level("", true) == perm.Write {
			delete(matchers, i) // it matches the root
		}
	}
	walked := 0
	_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if walked++; walked > maxWalked || len(matchers) == 0 {
			return fs.SkipAll
		}
		rel, relErr := filepath.Rel(path, name)
		if err != nil || relErr != nil || rel == "." {
			return nil // a path that cannot be read matches nothing
		}
		for i, m := range matchers {
			if m.Level(rel, d.IsDir()) == perm.Write {
				delete(matchers, i)
			}
		}
		return nil
	})
	for i, r := range rules {
		if matchers[i] != nil {
			none = append(none, r)
		}
	}
	return none, walked <= maxWalked, nil
}
