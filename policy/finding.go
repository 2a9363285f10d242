package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wolffia/perm"
)

// A Kind is why a file is a Finding.
type Kind int

// The kinds of files that a secret pattern of the preset matches: those that git tracks,
// and settings.
const (
	Same    Kind = iota // git tracks the bytes that are on the disk: the file is not hidden
	Differs             // git tracks other bytes: the content cannot be read
	TooMany             // there are too many such files, or the path is too long: the file is hidden
	Plain               // settings without credentials, such as an .npmrc: they can be read
)

// A Finding is a file that a secret pattern of the preset matches, and that git tracks
// or that has no credentials.
type Finding struct {
	Path  string     // relative to the codebase; any bytes
	Kind  Kind       // why it is a Finding
	Level perm.Level // the level that the rules give it
	quiet bool       // no note names it: settings without credentials
}

func (f Finding) compare(g Finding) int {
	return cmp.Or(cmp.Compare(f.Kind, g.Kind), strings.Compare(f.Path, g.Path))
}

// source returns the Source of a rule for a file of this kind.
func (k Kind) source() string {
	switch k {
	case Same:
		return "git, which tracks the file and has the same bytes"
	case Plain:
		return "its content, which had no credentials"
	}
	return "git, which tracks the file and has other bytes"
}

// TooManyReason returns the reason why the file at path, relative to the codebase, stays hidden
// although git's index has it. It returns "" if the file has no finding of kind TooMany.
func (p *Policy) TooManyReason(path string) string {
	if slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Path == path && f.Kind == TooMany }) {
		return "git tracks it, but there are too many such files, or its path is too long"
	}
	return ""
}

// maxNamed bounds the files that a note names.
const maxNamed = 5

// Notes returns what the user should know of p, each a sentence without newline: which
// files the secret patterns do not hide since git tracks them, which flags change that,
// and what could not be read. Names in flags are quoted for a shell, and no note has
// unprintable bytes.
func (p *Policy) Notes() []string {
	notes := slices.Clone(p.Warnings)
	if p.Egress != nil && p.egressFile != "" {
		notes = append(notes, fmt.Sprintf("policy file %s, which is in the codebase, lets the sandbox reach %s", perm.Quote(p.egressFile), strings.Join(p.Egress.Allow, ", ")))
	}
	if unguarded := perm.GitUnguarded(p.Rules); unguarded != "" {
		notes = append(notes, unguarded)
	}
	if p.Truncated {
		notes = append(notes, "the codebase is too large to find all its git repositories: programs, hooks and included files that the configuration of the other repositories names are not read-only, nor are bare repositories whose names do not end in .git")
	}
	if p.Everywhere {
		notes = append(notes, fmt.Sprintf("more than %d directories may be opened by editors and agents, or paths are longer than %d bytes: files that the host executes because of their names, such as .vscode/tasks.json, are read-only in all directories, also new ones", maxOpened, longestOpened))
	}
	byKind := map[Kind][]Finding{}
	for _, f := range p.Findings {
		if f.quiet {
			continue
		}
		byKind[f.Kind] = append(byKind[f.Kind], f)
	}
	for _, n := range []struct {
		kind Kind
		text string // with the names, and the flag's pattern
		flag perm.Level
	}{
		{Same, "shown although their names match secrets, since git tracks them and has the same bytes in its objects: %s; to hide one: %s; with =read in place of =none it is shown without this line", perm.None},
		{Differs, "files whose names match secrets, which git tracks with other bytes in its objects: %s: names and attributes are visible, contents are not, and git add -A, git commit -a and git stash inside refuse them; to show one: %s", perm.Write},
		{TooMany, "files whose names match secrets and which git tracks, too many for a rule each: %s: hidden, so that git inside reports them as deleted; to show one: %s", perm.View},
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
		notes = append(notes, "git's index cannot be read, so that tracked files whose names match secrets are hidden, in: "+list(p.Unread))
	}
	if len(p.Sealed) > 0 {
		notes = append(notes, fmt.Sprintf("directories that cannot be read may hide a git repository, and are read-only, as are bare repositories if there are many: %s; if a sandbox changed their modes: chmod u+rwx", list(p.Sealed)))
		if covering(p.Sealed)[0] == "**" {
			notes = append(notes, "these directories are so many, or their paths so long, that the whole codebase is read-only")
		}
	}
	if p.Linked > 0 {
		notes = append(notes, fmt.Sprintf("files with hard links that lead out of the codebase, as package managers make them: %d; a file is copied before it is changed inside, but with --filter static or none all of its names change", p.Linked))
	}
	if len(p.left) > 0 {
		notes = append(notes, fmt.Sprintf("git's configuration has credentials, which the sandbox's copy of it is without: %s; --git-credentials leaves them in", list(p.left)))
	}
	if read := without(p.Credentials, p.left); len(read) > 0 {
		notes = append(notes, fmt.Sprintf("git's configuration has credentials, which can be read inside: %s; git credential-store or another helper keeps them elsewhere", list(read)))
	}
	return notes
}

// without returns all but those that are in some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// list returns the first of paths for a sentence, and how many more there are.
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

// reveal returns the flag that gives a file the level.
func reveal(path string, level perm.Level) string {
	rule := "/" + perm.Quote(path) + "=" + level.String()
	return "--reveal '" + strings.ReplaceAll(rule, "'", `'\''`) + "'"
}
