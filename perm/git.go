package perm

import (
	"slices"
	"strings"
)

// gitSource is the Source of the rules for git directories that a sandbox sees in place.
const gitSource = "a repository of the host's: git on the host would execute what is written there"

// gitKeys are what a git directory has in clear and a sandbox must not read where it sees the
// directory in place: the keys of git-crypt, git-annex's passwords of remotes, and copies that git
// rerere makes of files of the working tree.
const gitKeys = "{git-crypt/keys,annex/creds,rr-cache/*/postimage*}"

// gitParts are the parts of a bare repository that is the root itself, where the rest of the tree
// may be working trees.
const gitParts = "/{HEAD,*_HEAD,ORIG_HEAD,config,config.worktree,commondir,gitdir,description,index,packed-refs,shallow,hooks,info," +
	"objects,refs,reftable,logs,modules,worktrees,branches,remotes,lfs,annex,git-crypt,rr-cache,MERGE_*,BISECT_*,rebase-*,sequencer,*.lock}"

// GuardsGit reports whether r keeps a sandbox from changing what git on the host would execute.
func (r *Rule) GuardsGit() bool { return r.Source == gitSource }

// AnyGitRules returns the presets' rules for entries whose name ends in ".git", but for ".git"
// itself: they are at most Read, since each is, or may become, a bare repository of the host's. In
// a ".git" that a sandbox sees in place the keys are hidden. An entry called ".git" has the level
// of any other name: at Write it is the sandbox's own.
func AnyGitRules() []Rule {
	rule := gitRule("*.git", Read)
	rule.Except = ".git"
	return []Rule{rule, gitRule("*.git/**/"+gitKeys, None)}
}

// GitRules returns the rules by which git directories of other names are at most Read. dirs are
// paths relative to the root; "." is the root itself as a bare repository, in which the names of
// git's own files are. Special bytes match only themselves.
func GitRules(dirs []string) (rules []Rule) {
	for _, dir := range dirs {
		if dir = strings.Trim(dir, "/"); dir == "." || dir == "" {
			rules = append(rules, gitRule(gitParts, Read), gitRule("/"+gitKeys, None))
		} else {
			rules = append(rules, gitRule("/"+Quote(dir), Read), gitRule("/"+Quote(dir)+"/**/"+gitKeys, None))
		}
	}
	return rules
}

// exceptNames excludes directories with these names, which are not git's, from rules. The first
// rule of AnyGitRules is one of rules.
func exceptNames(rules []Rule, names []string) {
	for i := range rules {
		if r := &rules[i]; r.Source == gitSource && r.Except == ".git" && len(names) > 0 {
			r.Except = "{.git," + strings.Join(names, ",") + "}"
		}
	}
}

// inPlace is the rule by which each ".git" that is the host's own is at most Read.
var inPlace = gitRule(".git", Read)

// GitInPlace returns rules, of a preset that guards git, for a tree in which each ".git" is the
// host's own: it is at most Read then, unless GitUnguarded says that the user wants it otherwise.
// Other rules are returned as they are.
func GitInPlace(rules []Rule) []Rule {
	guards := func(r Rule) bool { return r.Source == gitSource }
	if !slices.ContainsFunc(rules, guards) || slices.Contains(rules, inPlace) || GitUnguarded(rules) != "" {
		return rules
	}
	return append(slices.Clip(rules), inPlace)
}

// GitPrivate returns rules for a tree in which each ".git" is the sandbox's own: without the rule
// of GitInPlace, and with today's rules in the place of those that an earlier version has made for
// entries of git directories. Others are returned as they are.
func GitPrivate(rules []Rule) []Rule {
	const one = "git repository "
	var dirs []string
	earlier := false
	rest := slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool {
		dir, is := strings.CutPrefix(r.Source, one)
		if is && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		is = is || r.Source == "any git repository"
		earlier = earlier || is
		return is || r == inPlace
	})
	if earlier {
		rest = slices.Concat(rest, AnyGitRules(), GitRules(dirs))
	}
	return rest
}

// GitUnguarded returns the reason why rules give a sandbox the host's own git directories, in
// which it may change files that git on the host executes: a preset that does not guard git, or a
// reveal that names an entry called ".git". The reason is a sentence without its end; "" if rules
// do not.
func GitUnguarded(rules []Rule) string {
	const gives = " gives the sandbox the host's own .git: git on the host executes what it writes there"
	for _, r := range rules {
		switch i := slices.IndexFunc(presets, func(p presetRow) bool { return r.Source == "preset "+p.name }); {
		case i >= 0 && !presets[i].git:
			return r.Source + gives
		case r.Level == Write && !r.AtMost && r.Priority > PrioritySecret && r.Source != "" && r.namesGit():
			return "rule " + r.describe() + gives
		}
	}
	return ""
}

// namesGit reports whether the pattern of r has ".git" as a component.
func (r *Rule) namesGit() bool {
	return slices.ContainsFunc(r.Examples(), func(x Example) bool { return slices.Contains(strings.Split(x.Path, "/"), ".git") })
}

func gitRule(pattern string, level Level) Rule {
	return Rule{Pattern: pattern, Level: level, AtMost: true, Priority: PrioritySecret, Source: gitSource}
}
