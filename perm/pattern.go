package perm

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// Bounds of one pattern and one list of rules.
const (
	maxPattern = 4096    // bytes of a pattern
	maxRules   = 10_000  // rules
	maxAlts    = 1 << 16 // alternatives of all rules together
	maxText    = 2 << 20 // bytes of all alternatives together
)

// An alt is one alternative of a rule's pattern, with braces written out.
type alt struct {
	comps    []glob // without **
	rule     int32  // index of the rule
	literals int32  // components without wildcards
	bytes    int32  // literal bytes in all components
	size     int32  // bytes of text that it was parsed from
	kind     Kind
	level    Level // 0 until the rule is known, as are rule, limit, copies and group
	anchored bool  // no components may come before the first
	limit    bool  // gives nothing, and limits what those after it give
	fold     bool  // matches letters of either case
	copies   bool  // matches copies of files, too
	group    group
}

// parsed caches the alternatives of patterns: a service parses those of its codebases
// several times, and that is the larger part of the time of Check.
var parsed struct {
	sync.Mutex
	alts map[form][]alt // guarded by Mutex; the alternatives in it are immutable
}

// maxParsed bounds the forms in parsed.
const maxParsed = 1000

// alternatives returns the alternatives of the pattern of r, without the rule's own fields. The
// caller must not change them.
func (r *Rule) alternatives(p *parsing) ([]alt, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	f := r.form()
	parsed.Lock()
	alts, known := parsed.alts[f]
	parsed.Unlock()
	if known {
		return alts, nil
	}
	alts, err := f.parse(p)
	if err != nil {
		return nil, err
	}
	parsed.Lock()
	defer parsed.Unlock()
	if parsed.alts == nil {
		parsed.alts = map[form][]alt{}
	}
	if len(parsed.alts) < maxParsed {
		parsed.alts[f] = alts
	}
	return alts, nil
}

// A form is what the alternatives of a rule depend on.
type form struct {
	Pattern, Except, NotBelow string
	Fold                      bool
	Type                      Kind
}

func (r *Rule) form() form { return form{r.Pattern, r.Except, r.NotBelow, r.Fold, r.Type} }

// parse is alternatives without the cache.
func (f *form) parse(p *parsing) ([]alt, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	text := f.Pattern
	if f.Fold {
		text = lowerPattern(text)
	}
	patterns, err := p.braces.of(text)
	if err != nil {
		return nil, err
	}
	except, err := p.names("except", f.Except, f.Fold)
	if err != nil {
		return nil, err
	}
	if _, err := p.names("not_below", f.NotBelow, false); err != nil {
		return nil, err
	}
	n := 0
	for _, pattern := range patterns {
		n += 1 + strings.Count(strings.Trim(pattern, "/"), "/")
	}
	alts, room := make([]alt, 0, len(patterns)), make([]glob, 0, n)
	var plain, excepting *wild // the last one that got exceptions, and its replacement
	for _, pattern := range patterns {
		a, err := parsePattern(pattern, f.Type, room)
		if err != nil {
			return nil, err
		}
		n := len(a.comps)
		switch {
		case n == 0 && (except != nil || f.NotBelow != ""):
			return nil, invalid("except and not_below need a pattern that ends in a name")
		case except != nil:
			last := &a.comps[n-1]
			if excepting == nil || last.wild != plain {
				plain, excepting = last.wild, &wild{except: except}
				if plain != nil {
					excepting.toks = plain.toks
				}
			}
			last.wild = excepting
		}
		a.comps, room = a.comps[:n:n], a.comps[n:] // the rest is for the next pattern
		if a.fold = f.Fold; a.fold {
			for i := range a.comps {
				a.comps[i].lower()
			}
		}
		a.size = int32(len(pattern) + len(f.Except) + len(f.NotBelow))
		alts = append(alts, a)
	}
	return alts, nil
}

// check returns the faults of r apart from its pattern.
func (r *Rule) check() error {
	switch {
	case int(r.Level) >= len(levelNames):
		return invalid("unknown level %d", r.Level)
	case int(r.Type) >= len(kindNames):
		return invalid("unknown type %d", r.Type)
	case r.AtMost && r.Level == Write:
		return invalid("at most write limits nothing")
	case r.Ask && r.Level != View:
		return invalid("a rule with ask has the level view, not %v", r.Level)
	}
	return nil
}

// check returns the faults of r apart from the syntax of its patterns.
func (f *form) check() error {
	switch {
	case f.Pattern == "":
		return invalid("empty pattern")
	case len(f.Pattern) > maxPattern || len(f.Except) > maxPattern || len(f.NotBelow) > maxPattern:
		return invalid("pattern longer than %d bytes", maxPattern)
	case strings.IndexByte(f.Pattern, 0) >= 0 || strings.IndexByte(f.Except, 0) >= 0 || strings.IndexByte(f.NotBelow, 0) >= 0:
		return invalid("NUL byte in pattern")
	case !utf8.ValidString(f.Pattern) || !utf8.ValidString(f.Except) || !utf8.ValidString(f.NotBelow):
		return invalid("pattern is not UTF-8: write \\xHH for a byte")
	}
	return nil
}

// parsePattern parses a pattern without braces. Its components lie in room, as far as that is
// enough.
func parsePattern(s string, kind Kind, room []glob) (alt, error) {
	a := alt{kind: kind, comps: room[:0]}
	rest, anchored := strings.CutPrefix(s, "/")
	rest, slash := strings.CutSuffix(rest, "/")
	switch {
	case s == "":
		return a, invalid("empty pattern among the alternatives")
	case slash && kind == File:
		return a, invalid("a trailing slash says directory, the type says file")
	case rest == "" && kind == File:
		return a, invalid("the root is a directory, the type says file")
	case slash:
		a.kind = Directory
	}
	if !slash && rest == "" { // the root
		a.kind = Glob // and all below it, however it was written
		return a, nil
	}
	if err := a.add(rest, !anchored); err != nil {
		return a, err
	}
	if len(a.comps) == 0 {
		a.kind = Glob // the root and all below it, however it was written
		return a, nil
	}
	a.anchored = !a.comps[0].loop
	return a, nil
}

// add parses components into a. With loop any components may come before the first.
func (a *alt) add(path string, loop bool) error {
	last := ""
	for part := range strings.SplitSeq(path, "/") {
		last = part
		switch part {
		case "":
			return invalid("empty component")
		case ".", "..":
			return invalid("component %q: a pattern begins at the root of the codebase, and matches names: leave it out", part)
		case "**":
			loop = true
			continue
		}
		g, err := parseGlob(part)
		if err != nil {
			return err
		}
		if name := g.prefix; g.isLiteral() && (name == "." || name == "..") {
			return invalid("component %q", name)
		}
		g.loop, loop = loop, false
		a.comps = append(a.comps, g)
		a.bytes += g.literal
		if g.isLiteral() {
			a.literals++
		}
	}
	if last != "**" {
		return nil
	}
	// What stands before a final ** is a directory; a rule for files wants a
	// name below it.
	if a.kind == File {
		a.comps = append(a.comps, glob{wild: oneStar, loop: true})
	} else {
		a.kind = Directory
	}
	return nil
}

// A parsing is what rules that are parsed one after the other share. The zero value is ready.
type parsing struct {
	parsed map[exception][]glob // patterns of names, which many rules share
	braces expansion
}

type exception struct {
	pattern string
	fold    bool
}

// names returns the patterns of names in s, the value of the given field of a rule.
func (p *parsing) names(field, s string, fold bool) ([]glob, error) {
	key := exception{s, fold}
	if globs, ok := p.parsed[key]; ok || s == "" {
		return globs, nil
	}
	if fold {
		s = lowerPattern(s)
	}
	names, err := p.braces.of(s)
	if err != nil {
		return nil, err
	}
	globs := make([]glob, 0, len(names))
	for _, name := range names {
		if name == "" || name == "**" || strings.IndexByte(name, '/') >= 0 {
			return nil, invalid("%s %q: want the pattern of a name", field, name)
		}
		g, err := parseGlob(name)
		if err != nil {
			return nil, err
		}
		if fold {
			g.lower()
		}
		globs = append(globs, g)
	}
	if p.parsed == nil {
		p.parsed = map[exception][]glob{}
	}
	p.parsed[key] = globs
	return globs, nil
}
