package policy

import (
	"bytes"
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wolffia/internal/gitscan"
	"wolffia/internal/statedir"
	"wolffia/perm"
	"wolffia/runtime"
)

const (
	maxExempt  = 4000    // rules for files that secret patterns do not hide
	maxContent = 4 << 20 // bytes of a file that is compared with git's objects

	// priorityExempt is above the secret patterns. A rule of that priority gives
	// what the rules by hand would, or less, so it does not matter which of these
	// it outranks.
	priorityExempt = perm.PrioritySecret + 1
)

// defaultSecrets compiles the secret patterns that count for the record of what
// git tracks: those of the default preset, whatever a policy has, so that the
// record serves all.
func defaultSecrets() (*perm.Policy, error) {
	preset, err := perm.PresetByName(perm.DefaultPreset)
	if err != nil {
		return nil, err
	}
	return perm.Compile(slices.DeleteFunc(preset.Rules, func(r perm.Rule) bool { return r.AtMost }))
}

// A claim is what the index of a repository says of a file that looks like a
// secret.
type claim struct {
	gitscan.Entry               // Path is relative to the codebase
	tree          int           // of look.repos.Trees
	file          *gitscan.File // what is on the disk; nil: nothing that git could track
	believed      bool
}

// exempt adds rules for files that the secret patterns among base hide and that
// are none, and says what became of them in p.Findings.
func (l *look) exempt(ctx context.Context, p *Policy, base []perm.Rule, state string) error {
	claims, unread, err := l.claims(ctx)
	if err != nil {
		return err
	}
	if err := l.believe(claims, len(unread) == 0 && !l.repos.Truncated, state); err != nil {
		return err
	}
	e := exemption{look: l, policy: p, secret: secretsOf(base)}
	if len(e.secret) == 0 {
		return nil
	}
	p.Unread = unread
	if len(claims) == 0 && len(l.repos.Named) == 0 {
		return nil
	}
	if e.all, err = perm.Compile(p.Rules); err == nil {
		e.rest, err = perm.Compile(slices.DeleteFunc(slices.Clone(p.Rules), func(r perm.Rule) bool { return e.secret[r] }))
	}
	if err != nil {
		return runtime.WithClass(runtime.ErrInvalid, err)
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

// An exemption adds rules for files that secret patterns would hide.
type exemption struct {
	look   *look
	policy *Policy
	secret map[perm.Rule]bool
	all    *perm.Policy // of the rules so far
	rest   *perm.Policy // of those but the secret patterns
	done   map[string]bool
}

// level returns the level that a file would have without the secret patterns.
// It is perm.None if these do not hide it, or a rule by hand would.
func (e *exemption) level(path string) perm.Level {
	if e.all.Level(path, false) > perm.None {
		return perm.None
	}
	if x := e.all.Explain(path, false); x.Rule == nil || !e.secret[*x.Rule] {
		return perm.None
	}
	return e.rest.Level(path, false)
}

// add adds a finding, and the rule that follows from it.
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
	tree := e.look.repos.Trees[c.tree]
	if level == perm.None || e.rest.Level(path.Join(tree.Dir, "index"), false) < perm.Read { // git does not work in there
		return
	}
	f := Finding{Path: c.Path, Kind: Doubtful, Level: perm.None}
	switch {
	case c.believed && e.look.inObjects(c, e.rest):
		f.Kind, f.Level = Same, level
	case c.believed:
		f.Kind, f.Level = Differs, min(perm.View, level)
	}
	if f.Level > perm.None {
		if e.done == nil {
			e.done = map[string]bool{}
		}
		e.done[c.Path] = true
	}
	e.add(f)
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

// maxPath bounds a path that gets a rule of its own: four bytes of a pattern
// for each of its own are within what perm takes.
const maxPath = 1000

// What is read of indexes, which a sandbox can make large, and many.
const (
	indexLimit = 10 * time.Second // for all of them
	maxClaims  = 50_000
	maxNested  = 256 // directories in the path of a file
)

// claims returns the entries of all indexes for files that look like secrets,
// and the tops of the working trees of which the index was not read.
func (l *look) claims(ctx context.Context) (claims []claim, unread []string, err error) {
	if len(l.repos.Trees) == 0 {
		return nil, nil, nil
	}
	secrets, err := l.secrets()
	if err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, indexLimit)
	defer cancel()
	for i, tree := range l.repos.Trees {
		m := matcher{policy: secrets, top: tree.Top}
		entries, err := gitscan.Tracked(limited, l.path, tree, m.hidden)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil || m.found > maxClaims || len(claims) > maxClaims {
			unread = append(unread, tree.Top)
			continue
		}
		for _, e := range entries {
			e.Path = path.Join(tree.Top, e.Path)
			if l.owner(e.Path) != i {
				continue // git itself looks into the repository in between
			}
			c := claim{Entry: e, tree: i}
			if f, err := gitscan.Read(l.root, e.Path, maxContent); err == nil {
				c.file = f
			}
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b claim) int { return strings.Compare(a.Path, b.Path) })
	return claims, unread, nil
}

// owner returns the tree that a file belongs to: that of the innermost
// directory with a .git in it. So of all the indexes that a sandbox can make, one
// speaks for a file.
func (l *look) owner(file string) int {
	best, depth := -1, -1
	for i, tree := range l.repos.Trees {
		prefix := tree.Top + "/"
		if tree.Top == "." {
			prefix = ""
		}
		if strings.HasPrefix(file, prefix) && len(prefix) > depth {
			best, depth = i, len(prefix)
		}
	}
	return best
}

// A matcher says which paths of an index look like secrets. Most paths are in
// the directory of the one before.
type matcher struct {
	policy *perm.Policy
	top    string
	dir    string
	state  perm.State
	known  bool
	found  int // paths that look like secrets
}

func (m *matcher) hidden(name []byte) bool {
	if !validPath(name) || bytes.Count(name, []byte("/")) > maxNested {
		return false
	}
	i := bytes.LastIndexByte(name, '/')
	if dir := name[:max(i, 0)]; !m.known || m.dir != string(dir) {
		m.dir, m.known, m.state = string(dir), true, m.policy.Root()
		for part := range strings.SplitSeq(path.Join(m.top, m.dir), "/") {
			if part != "." {
				m.state = m.policy.Enter(m.state, part)
			}
		}
	}
	if m.policy.Child(m.state, string(name[i+1:]), false) >= perm.Read {
		return false
	}
	m.found++
	return m.found <= maxClaims
}

// validPath reports whether an index may have a path: relative, and without
// empty names, "." and "..".
func validPath(p []byte) bool {
	for name := range bytes.SplitSeq(p, []byte("/")) {
		switch string(name) {
		case "", ".", "..":
			return false
		}
	}
	return len(p) > 0 && bytes.IndexByte(p, 0) < 0
}

// believe says which claims are believed: see the package comment. It records
// them.
func (l *look) believe(claims []claim, whole bool, state string) error {
	state, err := stateDir(state)
	if err != nil {
		return err
	}
	known, err := statedir.KnownCodebases(state, l.path)
	if err != nil {
		return err
	}
	if len(known) == 0 || known[0].Path != l.path {
		// No rules were made for this directory before: an index below a directory
		// that has a record may be a sandbox's all the same.
		first := statedir.Codebase{Path: l.path}
		for _, c := range claims {
			above, err := statedir.KnownCodebases(state, filepath.Join(l.path, l.repos.Trees[c.tree].Dir))
			if err != nil {
				return err
			}
			if len(above) == 0 {
				first.Tracked = append(first.Tracked, c.Path)
			}
		}
		dir, err := statedir.Open(state)
		if err != nil {
			return err
		}
		if err := dir.Remember(&first, false); err != nil {
			return err
		}
		// Somebody else may have made the record meanwhile, and a sandbox.
		if known, err = statedir.KnownCodebases(state, l.path); err != nil {
			return err
		}
	}
	tracked := map[string]bool{}
	for _, k := range known {
		for _, name := range k.Tracked {
			if rel, err := filepath.Rel(l.path, filepath.Join(k.Path, name)); err == nil {
				tracked[rel] = true
			}
		}
	}
	record := statedir.Codebase{Path: l.path, Policies: known[0].Policies}
	for i := range claims {
		c := &claims[i]
		if c.believed = tracked[c.Path] || c.file != nil && c.seen(c.file); c.believed {
			record.Tracked = append(record.Tracked, c.Path)
		}
	}
	if !whole {
		for _, name := range known[0].Tracked {
			if !slices.Contains(record.Tracked, name) {
				record.Tracked = append(record.Tracked, name)
			}
		}
	}
	slices.Sort(record.Tracked)
	if slices.Equal(record.Tracked, known[0].Tracked) {
		return nil
	}
	dir, err := statedir.Open(state)
	if err != nil {
		return err
	}
	return dir.Remember(&record, true)
}

// seen reports whether the index has of the file what only git, having looked
// at it, can have written.
func (c *claim) seen(f *gitscan.File) bool {
	return c.Ctime%1e9 != 0 && c.Ctime == f.Ctime && c.Mtime == f.Mtime &&
		c.Inode == uint32(f.Inode) && c.Size == uint32(f.Size)
}

const (
	typeMask = 0o170000 // of an entry's mode
	typeLink = 0o120000
	typeFile = 0o100000
)

// inObjects reports whether git's objects have what is on the disk, as it is
// there, in a file that can be read inside.
func (l *look) inObjects(c *claim, rules *perm.Policy) bool {
	want := uint32(typeFile)
	if c.file.Link {
		want = typeLink
	}
	if c.file.Content == nil || c.Mode&typeMask != want || !bytes.Equal(gitscan.BlobID(c.file.Content, len(c.ID)), c.ID) {
		return false
	}
	file, ok := gitscan.Object(l.root, l.repos.Trees[c.tree], c.ID, c.file.Content)
	return ok && rules.Level(file, false) >= perm.Read
}
