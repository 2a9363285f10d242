package gitsync

import (
	"fmt"
	"hash/crc32"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName bounds the bytes of a name after refs/heads/ and the like.
const maxName = 200

// Kinds of references that cross.
const (
	heads   = "refs/heads/"
	tags    = "refs/tags/"
	notes   = "refs/notes/"
	remotes = "refs/remotes/"
	// hosts is where the sandbox sees the host's branches that differ from its own.
	hosts = remotes + "host/"
)

// kind returns the prefix of a reference that may cross, or "". All others stay where they are:
// refs/stash is a list of its own, and refs/replace, bisect, rewritten, ... belong to one side.
func kind(ref string) string {
	for _, k := range []string{heads, tags, notes, remotes} {
		if strings.HasPrefix(ref, k) {
			return k
		}
	}
	return ""
}

// short returns a reference's name without its kind.
func short(ref string) string { return strings.TrimPrefix(ref, kind(ref)) }

var (
	objectName = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
	gitsOwn    = regexp.MustCompile(`^(?:[A-Z_]*HEAD|stash)$`)
	otherName  = regexp.MustCompile(`^(?:(?:refs|heads|tags|remotes|wolffia)/|refs$)`)
	notPlain   = regexp.MustCompile(`[^A-Za-z0-9._-]`)
)

// PlainName returns a branch's name, without refs/heads/, if it crosses; else the one under which
// its commits go aside.
func PlainName(branch string) string {
	if nameFault(branch) != "" {
		return cleaned(branch)
	}
	return branch
}

// nameFault returns the reason why a name, without its kind, does not cross, or "".
func nameFault(s string) string {
	if len(s) > maxName {
		return fmt.Sprintf("it is longer than %d bytes", maxName)
	}
	for at, c := range s {
		switch {
		case c == utf8.RuneError && !strings.HasPrefix(s[at:], "\uFFFD"):
			return "it is not UTF-8"
		case strings.ContainsRune("._/-+@=#,", c) || c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)):
		case c < utf8.RuneSelf:
			return fmt.Sprintf("it has the character %q, which a shell can act on", c)
		case !unicode.In(c, unicode.L, unicode.M, unicode.N):
			return fmt.Sprintf("it has a character that is not a letter (U+%04X)", c)
		}
	}
	switch {
	case strings.IndexAny(s, "-=#") == 0 || strings.Contains(s, "/-"):
		return "a part of it begins with a character that programs take for an option"
	case objectName.MatchString(s):
		return "it looks like the name of an object"
	case otherName.MatchString(s):
		return "git reads it as another name"
	case gitsOwn.MatchString(s):
		return "git has that name for itself"
	case !wellFormed(s):
		return "git refuses it"
	}
	return ""
}

// wellFormed reports whether git accepts a name of permitted characters (git-check-ref-format(1)).
func wellFormed(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") || strings.HasSuffix(part, ".") {
			return false
		}
	}
	return s != "@" && !strings.Contains(s, "..") && !strings.Contains(s, "@{")
}

// cleaned returns a name that can always be used, for a branch whose own one cannot. The checksum
// keeps two apart.
func cleaned(s string) string {
	t := strings.Trim(notPlain.ReplaceAllString(s, "-"), ".-")
	if t = strings.ReplaceAll(t[:min(len(t), 80)], "..", "-"); t == "" {
		t = "branch"
	}
	return fmt.Sprintf("%s-%08x", t, crc32.ChecksumIEEE([]byte(s)))
}

// A space is the names of the host's references, with those that a plan makes and without those
// that it removes.
type space struct {
	names  map[string]string // as they are compared, to as they are
	dirs   map[string]int    // how many names are below
	folded bool              // names that differ in case are the same
}

func newSpace(refs map[string]string, folded bool) *space {
	s := &space{names: make(map[string]string, len(refs)), dirs: make(map[string]int), folded: folded}
	for r := range refs {
		s.add(r)
	}
	return s
}

func (s *space) key(ref string) string {
	if s.folded {
		return strings.ToLower(ref)
	}
	return ref
}

func (s *space) add(ref string) {
	k := s.key(ref)
	if _, is := s.names[k]; is {
		return
	}
	s.names[k] = ref
	s.count(k, 1)
}

// count adds to the number of names below the directories of k.
func (s *space) count(k string, n int) {
	for d := path.Dir(k); strings.Count(d, "/") >= 2; d = path.Dir(d) {
		s.dirs[d] += n
	}
}

func (s *space) remove(ref string) {
	k := s.key(ref)
	if _, is := s.names[k]; !is {
		return
	}
	delete(s.names, k)
	s.count(k, -1)
}

// clash returns the reason why a new reference cannot be beside those that exist, or "": one of
// another kind has its short name, and git would take the one for the other; or a file is in the
// place of a directory, or the other way.
func (s *space) clash(ref string) string {
	if reason := s.placed(ref); reason != "" {
		return reason
	}
	name := short(ref)
	for _, k := range []string{heads, tags, remotes} {
		other, is := s.names[s.key(k+name)]
		if is && other != ref && kind(ref) != remotes && (kind(ref) != heads || k != tags) {
			return other + " has the same short name"
		}
	}
	return ""
}

// placed returns the reason why a new reference has no place in a directory of references, or "".
func (s *space) placed(ref string) string {
	k := s.key(ref)
	if is, in := s.names[k]; in && is != ref {
		return is + " differs in case only"
	}
	for d := path.Dir(k); strings.Count(d, "/") >= 2; d = path.Dir(d) {
		if other, is := s.names[d]; is {
			return other + " is in its place"
		}
	}
	if s.dirs[k] > 0 {
		return ref + " is a directory of others"
	}
	return ""
}
