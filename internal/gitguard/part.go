// Package gitguard decides which changes to files of a git directory a sandbox may make. Allowed
// are those after which git on the host executes, includes and reveals nothing that it did not
// before. It is pure: its arguments are names and contents.
//
// The server of the filtered tree asks it about every name of the level perm.Checked.
package gitguard

import (
	"iter"
	"slices"
	"strings"

	"wolffia/perm"
)

// A Part is what a file or directory is to git. The zero Part is Other.
type Part uint8

// The parts of a git directory; gitrepository-layout(5).
const (
	Other        Part = iota // no change is allowed
	Config                   // config, config.worktree: replaced, with checked content
	Alternates               // objects/info/alternates: as Config
	Todo                     // the instructions of a rebase or a sequence of picks: as Config
	Commondir                // commondir of a linked worktree: written once, with checked content
	Link                     // a file named .git: as Commondir
	Hooks                    // the directory hooks
	Sample                   // a file in hooks that git does not execute
	Lock                     // a file that excludes other git processes
	Sequence                 // a file of a rebase, a sequence of picks or a bisect
	Strategy                 // the merge strategy of a rebase, a part of a program's name: as Commondir
	Rerere                   // MERGE_RR, the files that git rerere copies and writes: as Config, and always empty
	Options                  // the options of a sequence of picks, with a strategy: as Config
	ApplyOptions             // the options of git am for git apply: as Commondir
	Author                   // the author of a commit in a rebase, which the shell of git before 2.34 executes: as Config
	BisectNames              // the paths of a bisect, which it executes too: as Commondir
	OwnConfig                // config.worktree of a linked worktree: as Config, and as Commondir in a new worktree
)

// sequences are the directories of Sequence files.
var sequences = []string{"rebase-merge", "rebase-apply", "sequencer"}

// PartOf returns what the file or directory at path, to which perm.GitRules give the level
// Checked, is to git. Of several possible parts it returns the one that allows the least.
func PartOf(path string) Part {
	names := strings.Split(path, "/")
	last := len(names) - 1
	name := names[last]
	git := last // index of the first name below the innermost .git
	for git > 0 && !strings.HasSuffix(names[git-1], ".git") {
		git--
	}
	above := names[git:last]
	if git > 0 {
		above = outsideRefs(above)
	}
	isLinked := len(above) >= 2 && above[len(above)-2] == "worktrees"
	switch {
	case name == "config.worktree" && isLinked:
		return OwnConfig
	case name == "config", name == "config.worktree":
		return Config
	case name == "commondir":
		if isLinked {
			return Commondir
		}
		return Other
	case name == "MERGE_RR":
		return Rerere
	case name == "alternates":
		return Alternates
	case name == ".git":
		return Link
	case name == "hooks":
		return Hooks
	case slices.Contains(above, "hooks"):
		if above[len(above)-1] == "hooks" && strings.HasSuffix(name, ".sample") {
			return Sample
		}
		return Other
	case name == "git-rebase-todo", name == "todo" && last > 0 && names[last-1] == "sequencer":
		return Todo
	case name == "strategy" && last > 0 && (names[last-1] == "rebase-merge" || names[last-1] == "rebase-apply"):
		return Strategy
	case name == "opts" && last > 0 && names[last-1] == "sequencer":
		return Options
	case name == "apply-opt" && last > 0 && names[last-1] == "rebase-apply":
		return ApplyOptions
	case name == "author-script" && last > 0 && names[last-1] == "rebase-merge":
		return Author
	case name == "BISECT_NAMES":
		return BisectNames
	case strings.Contains(path+"/", "/rebase-merge/rewritten/"):
		return Other // by which git before 2.34 takes a rebase for one with --preserve-merges
	case strings.HasSuffix(name, ".lock"):
		return Lock
	case strings.HasPrefix(name, "BISECT_"), slices.Contains(sequences, name), slices.ContainsFunc(above, func(s string) bool { return slices.Contains(sequences, s) }):
		return Sequence
	}
	return Other
}

// outsideRefs returns the directories above a file in a git directory, without those whose names are parts of the name of a ref or of
// a linked worktree.
func outsideRefs(above []string) []string {
	if len(above) > 1 && above[0] == "worktrees" {
		return append([]string{"worktrees", "*"}, outsideRefs(above[2:])...)
	}
	if len(above) > 0 && perm.IsRefs(above[0]) {
		return above[:1]
	}
	return above
}

// Makes reports whether p may be created, as a directory if dir is set, else as a file.
func (p Part) Makes(dir bool) bool {
	switch p {
	case Hooks:
		return dir
	case Sequence:
		return true
	case Sample, Lock, Commondir, Link, Strategy, ApplyOptions, BisectNames, OwnConfig:
		return !dir
	}
	return false
}

// Writes reports whether p, if created inside, may have any content.
func (p Part) Writes() bool { return p == Sample || p == Lock || p == Sequence }

// Once reports whether p is written once, in one piece that Content checks.
func (p Part) Once() bool {
	return p == Commondir || p == Link || p == Strategy || p == ApplyOptions || p == BisectNames || p == OwnConfig
}

// IsConfig reports whether p is a configuration.
func (p Part) IsConfig() bool { return p == Config || p == OwnConfig }

// Copied reports whether p, if it is not replaced, is made only in a git directory that was created inside.
func (p Part) Copied() bool { return p == OwnConfig }

// Begun reports whether p belongs to a rebase or a sequence of picks: it is made in one that was begun inside.
func (p Part) Begun() bool {
	return p == Sequence || p == Strategy || p == Options || p == ApplyOptions || p == Todo || p == Author
}

// Replaced reports whether p is created by a rename, and but for OwnConfig only so, with a content that Change.Check or
// Content checks.
func (p Part) Replaced() bool {
	return p.IsConfig() || p == Alternates || p == Todo || p == Options || p == Rerere || p == Author
}

// essential are the names that git, libgit2 or JGit require in a git directory.
var essential = []string{"HEAD", "objects", "refs", "reftable", "commondir"}

// Essential reports whether an entry called name can make a directory a git directory.
func Essential(name string) bool { return slices.Contains(essential, name) }

// Complete reports whether git, libgit2 or JGit takes a directory for a git directory, whatever
// the content of its entries. has reports whether an entry exists.
func Complete(has func(name string) bool) bool {
	return has("HEAD") && (has("commondir") || has("objects") && (has("refs") || has("reftable")))
}

// aside are the names in a git directory of what perm.GitRules make read-only, but below modules: directories, which git itself makes
// empty, and files.
var aside = []string{"remotes", "branches", "lazygit.yml", "crypt", "sl"}

// A Place is where a path is to the git directories of submodules.
type Place uint8

// The places, of which PlaceOf returns the last that is true.
const (
	Elsewhere  Place = iota
	ModuleRefs       // below the refs of one, or their logs
	Modules          // the directory modules of a git directory
	Module           // a git directory below it, a directory above one, or what is in one
)

// PlaceOf returns where path is. The git directory of a submodule whose name has refs or logs in it, but at its beginning,
// is no git directory to perm.NamesGit.
func PlaceOf(path string) (place Place) {
	for below := range belowModules(path) {
		switch {
		case len(below) == 0:
			place = max(place, Modules)
		case slices.ContainsFunc(below[1:], perm.IsRefs):
			place = max(place, ModuleRefs)
		default:
			place = Module
		}
	}
	return place
}

// Aside reports whether path would be, in the git directory of a submodule, an older form of a remote's configuration, or a
// file that programs around git execute; or a directory of these, if it is not new and empty.
func Aside(path string, empty bool) bool {
	for below := range belowModules(path) {
		i := slices.IndexFunc(below[min(1, len(below)):], func(name string) bool { return slices.Contains(aside, name) }) + 1
		if i > 0 && !slices.ContainsFunc(below[1:i], perm.IsRefs) && !(empty && i == len(below)-1) {
			return true
		}
	}
	return false
}

// belowModules returns the names in path that are below the directory modules of a git directory, for each that may be one.
func belowModules(path string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		names := strings.Split(path, "/")
		for i, name := range names {
			below := names[i+1:]
			if len(below) > 2 && below[0] == "worktrees" {
				below = below[2:]
			}
			if strings.HasSuffix(name, ".git") && len(below) > 0 && below[0] == "modules" && !yield(below[1:]) {
				return
			}
		}
	}
}

// OfWorktree reports whether path is an entry of the directory that a git directory has for a linked working tree.
func OfWorktree(path string) bool {
	names := strings.Split(path, "/")
	n := len(names)
	return n > 3 && names[n-3] == "worktrees" && strings.HasSuffix(names[n-4], ".git")
}
