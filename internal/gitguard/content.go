package gitguard

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"wolffia/internal/gitconfig"
	"wolffia/perm"
)

// MaxSize is the maximum size of a checked file, in bytes.
const MaxSize = 1 << 20

// Written returns what is written where a sandbox replaces p by text. The records of rerere stay empty, whatever git
// inside puts there: it would end with an error in the middle of a merge or rebase if they were refused.
func (p Part) Written(text string) string {
	if p == Rerere {
		return ""
	}
	return text
}

// Content returns the reason to refuse text as the content of file, which is p; nil to allow it.
// file is relative to the root of the tree, which is at root inside, such as "/workspace".
func (p Part) Content(file, root, text string) error {
	switch p {
	case Commondir:
		if strings.TrimSuffix(text, "\n") == "../.." {
			return nil
		}
		return errors.New("the common directory of a worktree must be ../.. and nothing else")
	case OwnConfig:
		return copied(file, text)
	case Link:
		return link(file, root, text)
	case Alternates:
		return alternates(file, root, text)
	case Todo:
		return todo(text)
	case Strategy:
		return strategy(strings.TrimSuffix(text, "\n"))
	case Options:
		return options(text)
	case ApplyOptions:
		return applyOptions(strings.TrimSuffix(text, "\n"))
	case Author:
		if isAuthor(text) {
			return nil
		}
		return errors.New("git before 2.34 on the host would execute it: it has lines of the form GIT_AUTHOR_NAME='...' only")
	case BisectNames:
		if _, ok := quotedWords(strings.TrimSuffix(text, "\n")); ok {
			return nil
		}
		return errors.New("git before 2.34 on the host would execute it: it has words in quotation marks only")
	case Rerere:
		if text == "" {
			return nil
		}
		return errors.New("git rerere on the host would copy and write the files that it names")
	}
	return errors.New("the file cannot be written inside")
}

// Begins reports whether text may be the beginning of a content of p that Content allows, which git
// ends with a line end. It may be a content that Content refuses.
func (p Part) Begins(root, text string) bool {
	begins := func(whole string) bool { return strings.HasPrefix(whole, text) || strings.HasPrefix(text, whole) }
	switch {
	case p == OwnConfig:
		return !strings.HasSuffix(text, "\n")
	case strings.Contains(text, "\n"):
		return false
	case p == Commondir:
		return strings.HasPrefix("../..", text)
	case p == Strategy:
		return strategy(text) == nil
	case p == ApplyOptions, p == BisectNames:
		return !hasControl(text)
	case p == Link:
		target, ok := strings.CutPrefix(text, "gitdir: ")
		if !ok {
			return begins("gitdir: ")
		}
		text = target
		return !hasControl(target) && (!strings.HasPrefix(target, "/") || root != "" && begins(strings.TrimSuffix(root, "/")+"/"))
	}
	return false
}

// copied checks the configuration that git worktree add copies for a new worktree. Paths and remotes could mean something
// else there.
func copied(file, text string) error {
	all, err := gitconfig.Parse(text)
	if err != nil {
		return err
	}
	for i := range all {
		if _, has := all[i].Sub(); has {
			return fmt.Errorf("%s cannot be copied for a worktree inside", all[i].Name)
		}
	}
	return (&Change{File: file, New: text}).Check()
}

// link checks a .git file: its target must be a git directory by its name, in the tree.
func link(file, root, text string) error {
	target, ok := strings.CutPrefix(strings.TrimRight(text, "\n"), "gitdir: ")
	if !ok {
		return errors.New("a file named .git can only be one line, gitdir: PATH")
	}
	ways, err := below(path.Dir(file), root, target)
	if err != nil {
		return err
	}
	dir := last(ways)
	switch {
	case file == ".git":
		return errors.New("the codebase itself has its repository in .git: a file of that name could lead its remotes out of it")
	case !perm.NamesGit(dir):
		return fmt.Errorf("gitdir %q is not a directory named *.git, nor one of the modules or worktrees of a git directory", target)
	case path.Base(dir) == ".git":
		return fmt.Errorf("gitdir %q is the repository of another working tree: use git worktree add", target)
	}
	return nil
}

// alternates checks a list of other object directories: they must be in the tree, and be those of git directories by their
// names, whose own lists are checked as well.
func alternates(file, root, text string) error {
	objects := path.Dir(path.Dir(file))
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '"' {
			return fmt.Errorf("alternate %s: write it without quotation marks", line)
		}
		ways, err := below(objects, root, line)
		if err != nil {
			return fmt.Errorf("alternate: %w", err)
		}
		if dir := last(ways); path.Base(dir) != "objects" || !perm.NamesGit(path.Dir(dir)) {
			return fmt.Errorf("alternate: %q is not the directory objects of one named .git or *.git", line)
		}
	}
	return nil
}

// harmless are the instructions of a rebase that execute no command; git-rebase(1).
var harmless = []string{
	"p", "pick", "r", "reword", "e", "edit", "s", "squash", "f", "fixup", "d", "drop", "l", "label",
	"t", "reset", "m", "merge", "b", "break", "u", "update-ref", "noop", "revert",
}

// isMark reports whether c can be core.commentChar, and begins no instruction: it is printable, and no letter or digit.
func isMark(c byte) bool {
	return c > ' ' && c != 0x7f && !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
}

// todo checks the instructions of a rebase.
func todo(text string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimLeft(line, " \t\r\n")
		if line == "" || isMark(line[0]) {
			continue // a comment, or to a git with another core.commentChar an error
		}
		word := line[:strings.IndexAny(line+"\n", " \t\r\n")]
		if !slices.Contains(harmless, word) {
			return fmt.Errorf("git on the host would execute instruction %q of the rebase: run it inside, after the rebase", word)
		}
	}
	return nil
}

// strategy checks the name of a merge strategy: git executes git-merge-NAME, and a NAME with a slash relative to the
// working tree.
func strategy(name string) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return fmt.Errorf("git on the host would execute git-merge-%s as the merge strategy", name)
	}
	return nil
}

// options checks the options of a sequence of picks, which have the form of a configuration.
func options(text string) error {
	all, err := gitconfig.Parse(text)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Name == "options.strategy" {
			if err := strategy(s.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// isAuthor reports whether a text is what git writes of an author: the name, the address and the time, each in quotation marks.
func isAuthor(text string) bool {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, "=")
		words, ok := quotedWords(" " + strings.TrimSuffix(value, "\n"))
		if !ok || len(words) != 1 || !slices.Contains([]string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"}, name) {
			return false
		}
	}
	return true
}

// applyFlags are the options of git am that it passes to git apply and that only say how patches are read; with = at the
// end, a value follows. --reject is not among them: git before 2.39.3 writes the rejected parts through links.
var applyFlags = []string{
	"--ignore-space-change", "--no-ignore-space-change", "--ignore-whitespace", "--no-ignore-whitespace",
	"--whitespace=", "--directory=", "--exclude=", "--include=", "-C", "-p",
}

// applyOptions checks the options that git am passes to git apply.
func applyOptions(text string) error {
	words, ok := quotedWords(text)
	if i := slices.IndexFunc(words, func(word string) bool { return !appliesHere(word) }); i >= 0 {
		text, ok = words[i], false
	}
	if !ok {
		return fmt.Errorf("git am on the host would pass %q to git apply: only options that say how patches are read are allowed", text)
	}
	return nil
}

// quotedWords returns the words in a text as sq_quote_argv of git writes them: each in quotation marks behind a blank, but for
// quotation and exclamation marks in them, which are behind a backslash. ok is false if it is another text.
func quotedWords(text string) (words []string, ok bool) {
	for rest := text; rest != ""; {
		if rest, ok = strings.CutPrefix(rest, " '"); !ok {
			return nil, false
		}
		word := ""
		for {
			part, after, closed := strings.Cut(rest, "'")
			if !closed || hasControl(part) {
				return nil, false
			}
			word, rest = word+part, after
			if !strings.HasPrefix(rest, `\''`) && !strings.HasPrefix(rest, `\!'`) {
				break
			}
			word, rest = word+rest[1:2], rest[3:]
		}
		words = append(words, word)
	}
	return words, true
}

// appliesHere reports whether an option of git apply is one of applyFlags, with a path in the working tree if it has one.
func appliesHere(word string) bool {
	return slices.ContainsFunc(applyFlags, func(flag string) bool {
		value, is := strings.CutPrefix(word, flag)
		switch {
		case !is:
			return false
		case flag == "-C", flag == "-p":
			return value != "" && strings.Trim(value, "0123456789") == ""
		case strings.HasSuffix(flag, "="):
			return value != "" && value[0] != '/' && !slices.Contains(strings.Split(value, "/"), "..")
		}
		return value == ""
	})
}

// hasControl reports whether s has ASCII control characters.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c == 0x7f })
}
