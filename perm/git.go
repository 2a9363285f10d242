package perm

import "strings"

// gitGuarded are the parts of a git directory that make the host user's git run
// programs: hooks, configuration such as core.fsmonitor or core.pager, and
// commondir, a file that need not exist and sends git elsewhere for both.
var gitGuarded = []string{
	"hooks", // also a link, where there is no such directory
	"config",
	"config.worktree",
	"commondir",
	"worktrees/*/config.worktree",
	"worktrees/*/commondir",
	"modules/**/hooks",
	"modules/**/config",
	"modules/**/config.worktree",
	"modules/**/commondir",
}

// GitRules returns the rules that keep a sandbox from changing what the host
// user's git would execute: at most read, at PrioritySecret, on the hooks and
// the configuration of each git directory in dirs. These are paths relative to
// the root, such as ".git" or "vendor/x/.git", of git directories that exist;
// "." is the root itself, if that is a bare repository. Odd bytes in them match
// only themselves. The rules give nothing: what another rule hides or leaves
// less of stays so.
//
// They do not cover what a repository's configuration points to elsewhere, such
// as a core.hooksPath or an include in the working tree, and keep a sandbox from
// adding submodules and linked worktrees to these repositories.
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

// AnyGitRules returns the rules of GitRules for every directory named .git, wherever
// it is and whether or not it exists: for a codebase of which the repositories are not
// known. A new repository cannot be made then, nor cloned.
func AnyGitRules() []Rule { return gitRules(".git/", anyGit) }

// anyGit is the Source of AnyGitRules.
const anyGit = "any git repository"

func gitRules(prefix, source string) (rules []Rule) {
	for _, part := range gitGuarded {
		rules = append(rules, Rule{Pattern: prefix + part, Level: Read, AtMost: true, Priority: PrioritySecret, Source: source})
	}
	return rules
}
