package policy

import (
	"cmp"
	"fmt"
	"strings"

	"wolffia/perm"
)

// A Kind says why a file is a Finding.
type Kind int

// The kinds of file that a secret pattern of the preset would hide: those that
// git tracks, and settings.
const (
	Same     Kind = iota // git's objects have the bytes that are on the disk: it is not hidden
	Differs              // they have others: its content is not shown
	Doubtful             // a sandbox may have put it into the index: it is hidden
	TooMany              // there are too many such files, or its path is too long: it is hidden
	Plain                // settings without credentials, such as an .npmrc: it can be read
)

// A Finding is a file that a secret pattern of the preset would hide if it were
// not for git or for its content.
type Finding struct {
	Path  string     // relative to the codebase; any bytes
	Kind  Kind       //
	Level perm.Level // that it has now
}

func (f Finding) compare(g Finding) int {
	return cmp.Or(cmp.Compare(f.Kind, g.Kind), strings.Compare(f.Path, g.Path))
}

// source is the Source of a rule for a file of this kind.
func (k Kind) source() string {
	switch k {
	case Same:
		return "git, which tracks the file and has the same bytes in its objects"
	case Plain:
		return "its content, which had no credentials"
	}
	return "git, which tracks the file and has other bytes in its objects"
}

// Doubt returns why a file stays hidden although git seems to track it, or "".
func (p *Policy) Doubt(path string) string {
	for _, f := range p.Findings {
		switch {
		case f.Path != path:
		case f.Kind == Doubtful:
			return "git's index has it, and a sandbox may have put it there"
		case f.Kind == TooMany:
			return "git tracks it, but there are too many such files, or its path is too long"
		}
	}
	return ""
}

// maxNamed is how many files a note names.
const maxNamed = 5

// Notes returns what the user should know of p, a sentence each: which files
// the secret patterns do not hide since git tracks them, and which flags change
// that. Names in it are quoted for a shell where that matters, and contain no
// unprintable bytes.
func (p *Policy) Notes() []string {
	var notes []string
	if p.Truncated {
		notes = append(notes, "the codebase is too large to look for all git repositories in it: programs, hooks and included files that the configuration of the others names are not read-only, nor are bare repositories without .git at the end of their names")
	}
	if p.Everywhere {
		notes = append(notes, fmt.Sprintf("there are more than %d directories that editors and agents may open, or paths longer than %d bytes: files that the host executes because of their names, such as .vscode/tasks.json, are read-only in all directories, also new ones", maxOpened, longestOpened))
	}
	byKind := map[Kind][]Finding{}
	for _, f := range p.Findings {
		byKind[f.Kind] = append(byKind[f.Kind], f)
	}
	for _, n := range []struct {
		kind Kind
		text string // with the names, and the flag's pattern
		flag perm.Level
	}{
		{Same, "shown although the preset takes them for secrets, since git tracks them and has the same bytes in its objects: %s; to hide one: %s", perm.None},
		{Differs, "git tracks what the preset takes for secrets, with other bytes in its objects: %s: names and attributes are visible, contents are not, and inside git add -A, git commit -a and git stash refuse them; to show one: %s", perm.Write},
		{Doubtful, "git's index has what the preset takes for secrets, and a sandbox may have put it there: %s: hidden, so that inside git takes it for deleted; if you track one: %s; if not: git rm --cached", perm.View},
		{TooMany, "git tracks more files than there can be rules for that the preset takes for secrets: %s: hidden, so that inside git takes them for deleted; to show one: %s", perm.View},
	} {
		found := byKind[n.kind]
		if len(found) == 0 {
			continue
		}
		var paths []string
		for _, f := range found {
			paths = append(paths, f.Path)
		}
		notes = append(notes, fmt.Sprintf(n.text, list(paths), reveal(found[0].Path, n.flag)))
	}
	if len(p.Unread) > 0 {
		notes = append(notes, "git's index cannot be read, so that what it tracks and the preset takes for secrets is hidden: "+list(p.Unread))
	}
	if len(p.Sealed) > 0 {
		notes = append(notes, fmt.Sprintf("what cannot be looked into may hide a git repository, and is read-only, as are bare repositories if there are many: %s; if this is a sandbox's doing: chmod u+rwx", list(p.Sealed)))
		if covering(p.Sealed)[0] == "**" {
			notes = append(notes, "there are so many of these directories, or their paths are so long, that the whole codebase is read-only")
		}
	}
	if p.Linked > 0 {
		notes = append(notes, fmt.Sprintf("files with hard links that lead out of the codebase, as package managers make them: %d; one that is changed inside gets a copy of its own first", p.Linked))
	}
	if len(p.Credentials) > 0 {
		notes = append(notes, fmt.Sprintf("git's configuration has credentials, which can be read inside: %s; git credential-store or another helper keeps them elsewhere", list(p.Credentials)))
	}
	return notes
}

// list puts names into a sentence, the first of them.
func list(paths []string) string {
	var names []string
	for _, p := range paths[:min(len(paths), maxNamed)] {
		names = append(names, perm.Quote(p))
	}
	s := strings.Join(names, ", ")
	if more := len(paths) - maxNamed; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// reveal returns the flag that gives a file a level.
func reveal(path string, level perm.Level) string {
	rule := "/" + perm.Quote(path) + "=" + level.String()
	return "--reveal '" + strings.ReplaceAll(rule, "'", `'\''`) + "'"
}
