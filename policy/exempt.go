package policy

import (
	"path"
	"path/filepath"
	"slices"

	"wolffia/internal/git/gitscan"
	"wolffia/perm"
)

const (
	maxExempt = 4000 // rules for files that secret patterns do not hide
	maxPath   = 1000 // bytes of the path of such a file: four bytes of a pattern for each are within perm's bounds

	// priorityExempt is above the secret patterns. A rule of that priority gives what
	// the rules by hand would give, or less, so that it need not be below them.
	priorityExempt = perm.PrioritySecret + 1
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

// An exemption adds rules for files that secret patterns would hide, and findings.
type exemption struct {
	look   *look
	policy *Policy
	secret map[perm.Rule]bool
	all    *perm.Policy // of the rules so far
	rest   *perm.Policy // of those but the secret patterns
	done   map[string]bool

	inPlace bool // each .git inside is the host's
}

// exempt adds to p the rules for files that the rules in secret hide and that need not
// be hidden, and p.Findings.
func (l *look) exempt(p *Policy, secret map[perm.Rule]bool, claims []claim, inPlace bool) (err error) {
	if len(secret) == 0 || len(claims) == 0 && len(l.repos.Named) == 0 {
		return nil
	}
	e := exemption{look: l, policy: p, secret: secret, done: map[string]bool{}, inPlace: inPlace}
	if e.all, err = perm.Compile(p.Rules); err == nil {
		e.rest, err = perm.Compile(slices.DeleteFunc(slices.Clone(p.Rules), func(r perm.Rule) bool { return secret[r] }))
	}
	if err != nil {
		return invalid(err)
	}
	for i := range claims {
		e.tracked(&claims[i])
	}
	for _, name := range l.repos.Named {
		e.settings(name)
	}
	slices.SortFunc(p.Findings, Finding.compare)
	return nil
}

// level returns the level that a file would have without the secret patterns. It is
// perm.None unless these are what hides the file.
func (e *exemption) level(path string) perm.Level {
	if e.all.Level(path, false) > perm.None {
		return perm.None
	}
	if x := e.all.Explain(path, false); x.Rule == nil || !e.secret[*x.Rule] {
		return perm.None
	}
	return e.rest.Level(path, false)
}

// add adds a finding and its rule.
func (e *exemption) add(f Finding) {
	if len(e.policy.Findings) >= maxExempt || len(f.Path) > maxPath {
		f.Kind, f.Level = TooMany, perm.None
	}
	if f.Level > perm.None {
		e.policy.Rules = append(e.policy.Rules, perm.Rule{
			Pattern: "/" + perm.Quote(f.Path), Type: perm.File, Level: f.Level,
			Priority: priorityExempt, Source: f.Kind.source(),
		})
	}
	e.policy.Findings = append(e.policy.Findings, f)
}

// tracked decides on a file that an index has.
func (e *exemption) tracked(c *claim) {
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
	}
	e.done[c.Path] = true
	e.add(f)
}

// works reports whether git works inside for a working tree: its .git can be read, and in place also where that leads.
func (e *exemption) works(tree *gitscan.Tree) bool {
	dot := path.Join(tree.Top, ".git")
	if min(e.rest.Level(dot, true), e.rest.Level(dot, false)) < perm.Read {
		return false
	}
	if !e.inPlace {
		return true
	}
	dir, err := filepath.Rel(e.look.path, tree.Dir)
	return err == nil && filepath.IsLocal(dir) && e.rest.Level(dir, true) >= perm.Read
}

// settings decides on a file of settings, which may have no credentials.
func (e *exemption) settings(name string) {
	if e.done[name] || len(name) > maxPath || len(e.policy.Findings) >= maxExempt {
		return
	}
	level := min(perm.Read, e.level(name))
	if level == perm.None {
		return
	}
	if f, err := gitscan.Read(e.look.root, name, maxSettings); err == nil && !f.Link && plain(f.Content) {
		e.add(Finding{Path: name, Kind: Plain, Level: level})
	}
}
