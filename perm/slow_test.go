package perm

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// The slow matcher is what the documentation says, read aloud: it knows no
// states, no index and no order of alternatives, and parses patterns by itself.

type slowAlt struct {
	rule     *Rule
	comps    []string // may have "**"
	anchored bool
	dirOnly  bool
	rank     []int
}

func slowExpand(s string) []string {
	open, depth, set := -1, 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case set:
			set = c != ']' || strings.HasSuffix(s[:i], "[") || strings.HasSuffix(s[:i], "[!") || strings.HasSuffix(s[:i], "[^")
		case c == '[':
			set = true
		case c == '{':
			if depth == 0 {
				open = i
			}
			depth++
		case c == '}':
			if depth--; depth > 0 {
				continue
			}
			var out []string
			for _, part := range slowSplit(s[open+1 : i]) {
				out = append(out, slowExpand(s[:open]+part+s[i+1:])...)
			}
			return out
		}
	}
	return []string{s}
}

// slowSplit splits at the commas outside of inner braces and sets.
func slowSplit(s string) []string {
	depth, set, start := 0, false, 0
	var out []string
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case set:
			set = c != ']'
		case c == '[':
			set = true
			if strings.HasPrefix(s[i+1:], "!") || strings.HasPrefix(s[i+1:], "^") {
				i++
			}
			i++ // the first member, even if it is a bracket
			if i < len(s) && s[i] == '\\' {
				i++
			}
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == ',' && depth == 0:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// slowName matches one component by path.Match, whose syntax is ours but for
// the negation by '!' and an unescaped leading bracket or dash in a set.
func slowName(pattern, name string) bool {
	pattern = strings.ReplaceAll(pattern, "[!", "[^")
	for _, s := range []*string{&pattern, &name} { // path.Match reads UTF-8, we read bytes
		var b strings.Builder
		for i := range len(*s) {
			b.WriteRune(rune((*s)[i]))
		}
		*s = b.String()
	}
	ok, err := path.Match(pattern, name)
	if err != nil {
		panic(pattern + ": " + err.Error())
	}
	return ok
}

func slowLiteral(comp string) (literal bool, bytes int) {
	literal = true
	for i := 0; i < len(comp); i++ {
		switch comp[i] {
		case '*', '?':
			literal = false
		case '[':
			literal = false
			n, _ := setLen(comp[i:])
			i += n - 1
		case '\\':
			i++
			bytes++
		default:
			bytes++
		}
	}
	return literal, bytes
}

func slowParse(r *Rule) []slowAlt {
	var out []slowAlt
	for _, s := range slowExpand(r.Pattern) {
		a := slowAlt{rule: r, anchored: strings.HasPrefix(s, "/"), dirOnly: r.Type == Directory || strings.HasSuffix(s, "/")}
		for _, comp := range strings.Split(strings.Trim(s, "/"), "/") {
			if comp != "" {
				a.comps = append(a.comps, comp)
			}
		}
		if n := len(a.comps); n > 0 && a.comps[n-1] == "**" {
			if r.Type == File {
				a.comps = append(a.comps, "*")
			} else {
				a.comps, a.dirOnly = a.comps[:n-1], true
			}
		}
		for len(a.comps) > 0 && a.comps[0] == "**" {
			a.comps, a.anchored = a.comps[1:], false
		}
		for n := len(a.comps); n > 0 && a.comps[n-1] == "**"; n-- {
			a.comps = a.comps[:n-1]
		}
		a.anchored = a.anchored && len(a.comps) > 0
		kind := r.Type
		if a.dirOnly {
			kind = Directory
		}
		if len(a.comps) == 0 {
			kind = Glob
		}
		literals, bytes := 0, 0
		for _, comp := range a.comps {
			if comp == "**" {
				continue
			}
			lit, n := slowLiteral(comp)
			if bytes += n; lit {
				literals++
			}
		}
		anchored := 0
		if a.anchored {
			anchored = 1
		}
		a.rank = []int{r.Priority, anchored, literals, bytes, int(kind), -int(r.Level)}
		out = append(out, a)
	}
	return out
}

// name matches a name as the rule wants it.
func (a *slowAlt) name(pattern, name string) bool {
	if a.rule.Fold {
		pattern, name = slowFold(pattern), slowFold(name)
	}
	return slowName(pattern, name)
}

// slowFold makes ASCII letters small, byte by byte: names need not be UTF-8.
func slowFold(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}

// silent reports whether the rule says nothing about what is in a directory.
func (a *slowAlt) silent(names []string) bool {
	for _, name := range names {
		for _, pattern := range slowExpand(a.rule.NotBelow) {
			if pattern != "" && slowName(pattern, name) {
				return true
			}
		}
	}
	return false
}

func (a *slowAlt) comparePath(comps, names []string) bool {
	switch {
	case len(comps) == 0:
		return len(names) == 0
	case comps[0] == "**":
		return a.comparePath(comps[1:], names) || len(names) > 0 && a.comparePath(comps, names[1:])
	case len(names) == 0 || !a.name(comps[0], names[0]):
		return false
	}
	return a.comparePath(comps[1:], names[1:])
}

// exactly reports whether names is a path that the pattern itself names.
func (a *slowAlt) exactly(names []string) bool {
	if len(names) > 0 && a.silent(names[:len(names)-1]) {
		return false
	}
	if a.rule.Except != "" && len(names) > 0 {
		for _, except := range slowExpand(a.rule.Except) {
			if a.name(except, names[len(names)-1]) {
				return false
			}
		}
	}
	for start := 0; start <= len(names); start++ {
		if (start == 0 || !a.anchored) && a.comparePath(a.comps, names[start:]) {
			return true
		}
	}
	return false
}

// covers reports whether the rule is about the path.
func (a *slowAlt) covers(names []string, dir bool) bool {
	if a.rule.Type == File {
		return !dir && a.coversFile(names)
	}
	for n := range names {
		if a.exactly(names[:n]) {
			return true
		}
	}
	return dir && a.exactly(names) || !dir && !a.dirOnly && a.coversFile(names) || len(a.comps) == 0 && a.exactly(names)
}

// coversFile reports whether the pattern names a file, or one that it may be a copy of.
func (a *slowAlt) coversFile(names []string) bool {
	return a.exactly(names) && !a.copiesExcepted(names) || slices.ContainsFunc(a.originals(names), a.coversFile)
}

// copiesExcepted reports whether names is the path of a copy of a file that the rule excepts, or
// of a copy of it.
func (a *slowAlt) copiesExcepted(names []string) bool {
	all := *a
	all.rule = &Rule{Pattern: a.rule.Pattern, NotBelow: a.rule.NotBelow, Fold: a.rule.Fold, Type: a.rule.Type}
	return slices.ContainsFunc(a.originals(names), func(of []string) bool {
		return !a.exactly(of) && all.exactly(of) || a.copiesExcepted(of)
	})
}

// originals returns the paths of the files that one at names may be a copy of, without files that
// are copies of those: it tries each part of the name.
func (a *slowAlt) originals(names []string) (paths [][]string) {
	if !a.rule.Copies || len(names) == 0 || len(a.comps) == 0 {
		return nil
	}
	dir, name := names[:len(names)-1], names[len(names)-1]
	add := func(original string) { paths = append(paths, append(dir[:len(dir):len(dir)], original)) }
	for to := 1; to < len(name); to++ { // the longest end, as in "NAME - Copy"
		if slowBackup.MatchString(name[to:]) && validName(name[:to]) {
			add(name[:to])
			break
		}
	}
	for from := range name {
		for to := from + 1; to <= len(name); to++ {
			before, original, after := name[:from], name[from:to], name[to:]
			if slowOpen.MatchString(before+"NAME"+after) && (before != "" || original[0] == '.') && validName(original) {
				add(original)
			}
		}
	}
	return paths
}

// slowBackup are the ends of the names of backups of NAME, slowOpen the names of what an editor
// keeps of NAME.
var (
	slowBackup = regexp.MustCompile(`^(~|\.~\d+~|(?i:\.bak|\.backup|\.old|\.orig|\.save|( -)? copy)([. ]*\d*|[. ]*\(\d+\))| \((?i:copy)[. ]*\d*\))$`)
	slowOpen   = regexp.MustCompile(`^(#NAME#|\.#NAME|\.?NAME\.(?i:sw[a-p]|un~))$`)
)

// leads reports whether some path below names could be one that the pattern
// names.
func (a *slowAlt) leads(names []string) bool {
	if len(a.comps) == 0 || a.silent(names) {
		return false
	}
	if !a.anchored {
		return true
	}
	for n := range a.comps {
		head := a.comps[:n]
		if a.comparePath(head, names) || a.comps[n] == "**" && a.comparePath(append(head[:n:n], "**"), names) {
			return true
		}
	}
	return false
}

func slowBefore(a, b []int) int {
	for i := range a {
		if a[i] != b[i] {
			return a[i] - b[i]
		}
	}
	return 0
}

func slowLevel(rules []Rule, p string, dir bool) Level {
	var names []string
	if p != "" {
		names = strings.Split(p, "/")
	}
	var best *slowAlt
	var all []slowAlt
	for i := range rules {
		all = append(all, slowParse(&rules[i])...)
	}
	for i := range all {
		a := &all[i]
		if (!a.rule.AtMost || a.rule.Level == None) && a.covers(names, dir) && (best == nil || slowBefore(a.rank, best.rank) > 0) {
			best = a
		}
	}
	level := None
	if best != nil {
		level = best.rule.Level
		for i := range all {
			if a := &all[i]; a.rule.AtMost && a.covers(names, dir) && slowBefore(a.rank, best.rank) > 0 {
				level = min(level, a.rule.Level)
			}
		}
	}
	if dir && level == None {
		for i := range all {
			a := &all[i]
			outranked := best != nil && slowBefore(a.rank, best.rank) <= 0
			if !a.rule.AtMost && a.rule.Level > None && a.leads(names) && !outranked {
				level = View
			}
		}
	}
	if len(names) == 0 {
		level = max(level, View)
	}
	return level
}
