package perm

import (
	"slices"
	"strings"
)

// gitChecked are the parts of a git directory that make the host user's git run
// programs or read files elsewhere, and the locks between git on the host and git
// inside; gitrepository-layout(5).
var gitChecked = []string{
	"config", "config.worktree",
	"hooks", // also a file or a link in the place of the directory
	"commondir",
	"objects/info/alternates",
	"{rebase-merge,rebase-apply,sequencer,BISECT_*}",
	"{*,refs/**/*,objects/info/alternates}.lock",
	"MERGE_RR", // paths of files that git rerere copies, and writes
}

// gitHidden are copies of files of the working tree that git on the host makes, following links, and what
// programs around git keep in a git directory in clear: the keys of git-crypt, and git-annex's passwords of remotes.
var gitHidden = []string{"rr-cache/*/postimage*", "git-crypt/keys", "annex/creds"}

// gitRead are the older forms of a remote's configuration, and files in a git directory
// that programs around git execute: lazygit, the filters of transcrypt, and what Sapling's
// configuration names. In the git directory of a submodule no pattern tells them from refs and from other submodules:
// there the server of the tree keeps them from being made (gitguard.Aside).
var gitRead = []string{"remotes/*", "branches/*", "lazygit.yml", "crypt", "sl/config"}

// gitPlaces are the places of git directories in a git directory: itself, those of its
// submodules, whose names can have slashes, those of its linked worktrees, and those of the
// submodules of a linked worktree.
var gitPlaces = []string{"", "modules/**/", "worktrees/*/", "worktrees/*/modules/**/"}

// GitRules returns the rules that keep a sandbox from changing what the host user's
// git would execute: at most Checked, at PrioritySecret, on hooks, configuration and
// other special files of each git directory in dirs. These are paths relative to the
// root, such as "deploy", of git directories that exist; "." is the root itself, as a
// bare repository. Special bytes in them match only themselves. The rules only limit:
// a path that other rules hide stays hidden.
//
// They do not cover what a repository's configuration points to elsewhere, such
// as a core.hooksPath or an include in the working tree.
func GitRules(dirs []string) []Rule {
	var rules []Rule
	for _, dir := range dirs {
		prefix := "/" + Quote(strings.Trim(dir, "/")) + "/"
		if prefix == "//" || prefix == "/./" {
			prefix = "/"
		}
		rules = append(rules, gitRules(prefix, "git repository "+dir)...)
	}
	return rules
}

// AnyGitRules returns the rules of GitRules for every directory whose name ends in
// ".git", at any depth and whether or not it exists; for every file and link with such
// a name, which leads git to such a directory; and for git's lock files.
func AnyGitRules() []Rule {
	rules := gitRules("*.git/", anyGit)
	return append(rules,
		gitRule("*.git", File, Checked, anyGit),
		gitRule(".git/**/*.lock", File, Checked, anyGit))
}

// NamesGit reports whether AnyGitRules apply to the git directory at the path dir.
func NamesGit(dir string) bool {
	names := strings.Split(dir, "/")
	for i, name := range names {
		if strings.HasSuffix(name, ".git") && isGitPlace(names[i+1:]) {
			return true
		}
	}
	return false
}

// isGitPlace reports whether a path below a git directory is one of gitPlaces.
func isGitPlace(names []string) bool {
	switch {
	case len(names) == 0:
		return true
	case names[0] == "modules":
		return len(names) > 1 && !slices.ContainsFunc(names[2:], IsRefs)
	case names[0] == "worktrees" && len(names) == 2:
		return true
	}
	return names[0] == "worktrees" && len(names) > 3 && isGitPlace(names[2:])
}

// IsRefs reports whether a directory called name in a git directory has the names of refs. Below modules it may be a part of
// a submodule's name, of which nothing in the path tells.
func IsRefs(name string) bool { return name == "refs" || name == "logs" }

// anyGit is the Source of AnyGitRules.
const anyGit = "any git repository"

func gitRules(prefix, source string) (rules []Rule) {
	for _, place := range gitPlaces {
		for _, part := range gitChecked {
			rules = append(rules, gitRule(prefix+place+part, Glob, Checked, source))
		}
		for _, part := range gitHidden {
			rules = append(rules, gitRule(prefix+place+part, Glob, None, source))
		}
	}
	for _, place := range []string{"", "worktrees/*/"} {
		for _, part := range gitRead {
			rules = append(rules, gitRule(prefix+place+part, Glob, Read, source))
		}
		// No link in the place of the directory.
		rules = append(rules, gitRule(prefix+place+"{remotes,branches,sl}", File, Read, source))
	}
	return rules
}

func gitRule(pattern string, kind Kind, level Level, source string) Rule {
	return Rule{Pattern: pattern, Type: kind, Level: level, AtMost: true, Priority: PrioritySecret, Source: source}
}
