package policy

import (
	"path"
	"path/filepath"
	"slices"

	"wolffia/internal/git/gitscan"
	"wolffia/perm"
)

const (
	maxExcluded = 4000 // rules for files that secret patterns do not hide
	maxPath     = 1000 // bytes of the path of such a file: four bytes of a pattern for each are within perm's bounds

	// priorityExcluded is above the secret patterns. A rule of that priority gives at most the
	// level that the user's own rules give, so that it need not be below them.
	priorityExcluded = perm.PrioritySecret + 1
)

// secretsOf returns the rules that hide secrets, among those of a preset.
func secretsOf(base []perm.Rule) map[perm.Rule]bool {
	secret := map[perm.Rule]bool{}
	for _, r := range base {
		if r.Priority == perm.PrioritySecret && r.Level == perm.None {
			secret[r] = true
		}
	}
	return secret
}

// An exclusion adds rules that exclude files from the secret patterns, and findings.
type exclusion struct {
	inspection *inspection
	policy     *Policy
	secret     map[perm.Rule]bool
	all        *perm.Policy // of the rules so far
	rest       *perm.Policy // of those but the secret patterns
	done       map[string]bool

	inPlace bool // each .git inside is the host's
}

// excludeFiles adds to p the rules for files that the rules in secret hide without need, and
// p.Findings.
func (l *inspection) excludeFiles(p *Policy, secret map[perm.Rule]bool, tracked []trackedFile, inPlace bool) (err error) {
	if len(secret) == 0 || len(tracked) == 0 && len(l.repos.Named) == 0 {
		return nil
	}
	e := exclusion{inspection: l, policy: p, secret: secret, done: map[string]bool{}, inPlace: inPlace}
	if e.all, err = perm.Compile(p.Rules); err == nil {
		e.rest, err = perm.Compile(slices.DeleteFunc(slices.Clone(p.Rules), func(r perm.Rule) bool { return secret[r] }))
	}
	if err != nil {
		return invalid(err)
	}
	for i := range tracked {
		e.tracked(&tracked[i])
	}
	for _, name := range l.repos.Named {
		e.settings(name)
	}
	slices.SortFunc(p.Findings, Finding.compare)
	return nil
}

// level returns the level that a file would have without the secret patterns. It is
// perm.None unless a secret pattern hides the file.
func (e *exclusion) level(path string) perm.Level {
	if e.all.Level(path, false) > perm.None {
		return perm.None
	}
	if x := e.all.Explain(path, false); x.Rule == nil || !e.secret[*x.Rule] {
		return perm.None
	}
	return e.rest.Level(path, false)
}

// add adds a finding and its rule.
func (e *exclusion) add(f Finding) {
	if len(e.policy.Findings) >= maxExcluded || len(f.Path) > maxPath {
		f.Kind, f.Level = TooMany, perm.None
	}
	if f.Level > perm.None {
		e.policy.Rules = append(e.policy.Rules, perm.Rule{
			Pattern: "/" + perm.Quote(f.Path), Type: perm.File, Level: f.Level,
			Priority: priorityExcluded, Source: f.Kind.source(),
		})
	}
	e.policy.Findings = append(e.policy.Findings, f)
}

// tracked decides on a file that an index has.
func (e *exclusion) tracked(c *trackedFile) {
	level := perm.None
	if c.file != nil {
		level = e.level(c.Path)
	}
	if level == perm.None || !e.works(c.tree) {
		return
	}
	f := Finding{Path: c.Path, Kind: Differs, Level: min(perm.View, level)}
	if c.same() {
		f.Kind, f.Level = Same, level
		f.quiet = slices.Contains(e.inspection.repos.Named, c.Path) && e.plain(c.Path)
	}
	e.done[c.Path] = true
	e.add(f)
}

// works reports whether git works inside for a working tree: its .git can be read. In place, the
// git directory that .git names must be readable too.
func (e *exclusion) works(tree *gitscan.Tree) bool {
	dot := path.Join(tree.Top, ".git")
	if min(e.rest.Level(dot, true), e.rest.Level(dot, false)) < perm.Read {
		return false
	}
	if !e.inPlace {
		return true
	}
	dir, err := filepath.Rel(e.inspection.path, tree.Dir)
	return err == nil && filepath.IsLocal(dir) && e.rest.Level(dir, true) >= perm.Read
}

// settings decides on a file of settings, whose content may be free of credentials.
func (e *exclusion) settings(name string) {
	if e.done[name] || len(name) > maxPath || len(e.policy.Findings) >= maxExcluded {
		return
	}
	level := min(perm.Read, e.level(name))
	if level == perm.None {
		return
	}
	if e.plain(name) {
		e.add(Finding{Path: name, Kind: Plain, Level: level})
	}
}

// plain reports whether a file of settings has no credentials.
func (e *exclusion) plain(name string) bool {
	f, err := gitscan.Read(e.inspection.root, name, maxSettings)
	return err == nil && !f.Link && plain(f.Content)
}
