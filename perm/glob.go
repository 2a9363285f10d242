package perm

import (
	"slices"
	"strings"
)

// A glob matches the name of one path component. The literal bytes at both ends are
// kept apart, since most patterns consist of them.
type glob struct {
	prefix  string
	suffix  string
	wild    *wild // what lies between prefix and suffix; nil: nothing
	literal int32 // literal bytes, wherever they are
	loop    bool  // any components may come before this one
	fold    bool  // the glob is in lower case; names are converted before they are matched
}

// A wild is what few globs have. It is immutable, since many share one.
type wild struct {
	toks   []tok
	except []glob // names that do not match
}

// special are the bytes with a meaning of their own in a component.
var special = bytesOf(`*?[]\`)

// A byteSet is a set of bytes.
type byteSet [256]bool

func bytesOf(members string) *byteSet {
	set := new(byteSet)
	for i := range len(members) {
		set[members[i]] = true
	}
	return set
}

// index returns where the first byte of s is that is in the set, or -1. Patterns are short:
// strings.IndexAny takes nine times as long for those of the presets.
func (set *byteSet) index(s string) int {
	for i := range len(s) {
		if set[s[i]] {
			return i
		}
	}
	return -1
}

// oneStar is the most frequent value of glob.wild.
var oneStar = &wild{toks: []tok{{star: true}}}

// A tok matches one byte, or any number of them if it is a star.
type tok struct {
	set  *[256 / 64]uint64 // nil: exactly the byte lit
	star bool
	lit  byte
}

func (t *tok) match(c byte) bool {
	if t.set == nil {
		return c == t.lit
	}
	return t.set[c/64]&(1<<(c%64)) != 0
}

// isLiteral reports whether g matches one name only, which is its prefix.
func (g *glob) isLiteral() bool { return g.wild == nil }

func (g *glob) match(name string) bool {
	if g.fold {
		name = lower(name)
	}
	return g.shapes(name) && !g.excepts(name)
}

// shapes is match for a name whose case is as g wants it, but for what g excepts.
func (g *glob) shapes(name string) bool {
	if g.wild == nil {
		return name == g.prefix
	}
	return len(name) >= len(g.prefix)+len(g.suffix) &&
		strings.HasPrefix(name, g.prefix) && strings.HasSuffix(name, g.suffix) &&
		matchToks(g.wild.toks, name[len(g.prefix):len(name)-len(g.suffix)])
}

// excepts reports whether g does not match a name of its shape.
func (g *glob) excepts(name string) bool {
	if g.wild == nil {
		return false
	}
	for i := range g.wild.except { // a function literal would be allocated: match calls this
		if g.wild.except[i].match(name) {
			return true
		}
	}
	return false
}

// exceptsCopy reports whether g does not match a file that it would match, since that may be a
// copy of one that g excepts.
func (g *glob) exceptsCopy(name string) bool {
	if g.wild == nil || len(g.wild.except) == 0 {
		return false
	}
	names, n := originals(name)
	for _, original := range names[:n] {
		if g.fold {
			original = lower(original)
		}
		if g.shapes(original) && g.excepts(original) {
			return true
		}
	}
	return false
}

// lower makes g, whose text comes from lowerPattern, match letters of either case.
func (g *glob) lower() {
	g.fold = true
	g.prefix, g.suffix = lower(g.prefix), lower(g.suffix) // an escape may have given an upper one
	if g.isLiteral() {
		return
	}
	upper := func(t tok) bool { return t.lit != lowerByte(t.lit) }
	if !slices.ContainsFunc(g.wild.toks, upper) {
		return
	}
	toks := slices.Clone(g.wild.toks)
	for i := range toks {
		toks[i].lit = lowerByte(toks[i].lit)
	}
	g.wild = &wild{toks: toks, except: g.wild.except}
}

// lowerPattern returns a pattern in lower case; escaped bytes keep their case.
func lowerPattern(s string) string {
	if !hasUpper(s) {
		return s
	}
	b := []byte(s)
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' {
			i++
			continue
		}
		b[i] = lowerByte(b[i])
	}
	return string(b)
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// lower returns s with its ASCII letters in lower case.
func lower(s string) string {
	if !hasUpper(s) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		b[i] = lowerByte(c)
	}
	return string(b)
}

// hasUpper reports whether s has an ASCII letter in upper case.
func hasUpper(s string) bool {
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' {
			return true
		}
	}
	return false
}

// matchToks reports whether toks match s. It backtracks to the last star only, which
// is enough: so it takes at most len(toks) times len(s) steps.
func matchToks(toks []tok, s string) bool {
	t, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		switch {
		case t < len(toks) && toks[t].star:
			star, mark = t, i
			t++
		case t < len(toks) && toks[t].match(s[i]):
			t++
			i++
		case star >= 0:
			mark++
			t, i = star+1, mark
		default:
			return false
		}
	}
	for t < len(toks) && toks[t].star {
		t++
	}
	return t == len(toks)
}

// parseGlob parses one component, whose braces were expanded.
func parseGlob(s string) (glob, error) {
	// Almost every component is plain text, or has one star in it.
	switch i := special.index(s); {
	case i < 0:
		return glob{prefix: s, literal: int32(len(s))}, nil
	case s[i] == '*' && special.index(s[i+1:]) < 0:
		return glob{prefix: s[:i], suffix: s[i+1:], wild: oneStar, literal: int32(len(s) - 1)}, nil
	}
	var g glob
	var buf [64]tok
	toks := buf[:0]
	for i := 0; i < len(s); {
		n, err := tokenLen(s[i:])
		if err != nil {
			return glob{}, err
		}
		switch s[i] {
		case '*':
			if len(toks) > 0 && toks[len(toks)-1].star {
				return glob{}, invalid("** inside %q: it must be a whole component", s)
			}
			toks = append(toks, tok{star: true})
		case '?':
			toks = append(toks, tok{set: &[4]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}})
		case '[':
			set, err := parseSet(s[i+1 : i+n-1])
			if err != nil {
				return glob{}, err
			}
			toks = append(toks, tok{set: set})
		case '\\':
			c, _, err := unescape(s[i:])
			if err != nil {
				return glob{}, err
			}
			toks = append(toks, tok{lit: c})
			g.literal++
		default:
			toks = append(toks, tok{lit: s[i]})
			g.literal++
		}
		i += n
	}
	g.prefix, toks = cutLiteral(toks)
	end := len(toks)
	for end > 0 && !toks[end-1].star && toks[end-1].set == nil {
		end--
	}
	g.suffix, _ = cutLiteral(toks[end:])
	if end > 0 {
		g.wild = &wild{toks: slices.Clone(toks[:end])}
	}
	return g, nil
}

// cutLiteral splits the literal bytes off the front of toks.
func cutLiteral(toks []tok) (string, []tok) {
	var b []byte
	for len(toks) > 0 && !toks[0].star && toks[0].set == nil {
		b = append(b, toks[0].lit)
		toks = toks[1:]
	}
	return string(b), toks
}

// parseSet parses the text between the brackets of a set.
func parseSet(s string) (*[4]uint64, error) {
	var set [4]uint64
	negate := s[0] == '!' || s[0] == '^'
	if negate {
		s = s[1:]
	}
	for len(s) > 0 {
		lo, rest, err := setByte(s)
		if err != nil {
			return nil, err
		}
		hi := lo
		if len(rest) > 1 && rest[0] == '-' {
			if hi, rest, err = setByte(rest[1:]); err != nil {
				return nil, err
			}
			if hi < lo {
				return nil, invalid("the range %c-%c in a set is backwards", lo, hi)
			}
		}
		for c := int(lo); c <= int(hi); c++ {
			set[c/64] |= 1 << (c % 64)
		}
		s = rest
	}
	if negate {
		for i := range set {
			set[i] = ^set[i]
		}
	}
	return &set, nil
}

// setByte takes one member or end of a range off the front of s.
func setByte(s string) (c byte, rest string, err error) {
	if s[0] == '\\' {
		c, n, err := unescape(s)
		if err != nil {
			return 0, "", err
		}
		return c, s[n:], nil
	}
	if s[0] >= 0x80 {
		return 0, "", invalid("a set has bytes beyond ASCII: write {ä,ö} for whole characters")
	}
	return s[0], s[1:], nil
}
