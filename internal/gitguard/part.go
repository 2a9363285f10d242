// Package gitguard decides which changes to the files of a git directory a sandbox may make:
// those after which git on the host executes, includes and reveals nothing that it did not
// before. It is pure: it knows names and contents, and touches no file.
//
// The server of the filtered tree asks it about every name of the level perm.Checked.
package gitguard

import (
	"slices"
	"strings"
)

// A Part says what a file or directory is to git. The zero Part is Other.
type Part uint8

// The parts of a git directory; gitrepository-layout(5).
const (
	Other      Part = iota // nothing that a change is known for: none is allowed
	Config                 // config, config.worktree: replaced by a file that is checked
	Alternates             // objects/info/alternates: likewise
	Todo                   // the instructions of a rebase, or of a sequence of picks: likewise
	Commondir              // commondir of a linked worktree: written once, and checked
	Link                   // a file named .git: likewise
	Hooks                  // the directory hooks
	Sample                 // a file in it that git does not execute
	Lock                   // a file that keeps other processes of git out
	Sequence               // what a rebase, a sequence of picks or a bisect keeps
)

// sequences are the directories of Sequence.
var sequences = []string{"rebase-merge", "rebase-apply", "sequencer"}

// PartOf returns what the file or directory at path is to git, of which perm.GitRules say that
// it is special. What can be several is what allows the least.
func PartOf(path string) Part {
	names := strings.Split(path, "/")
	last := len(names) - 1
	name := names[last]
	git := 0 // where the names below the innermost .git begin
	for i := last - 1; i >= 0; i-- {
		if strings.HasSuffix(names[i], ".git") {
			git = i + 1
			break
		}
	}
	above := names[git:last]
	switch {
	case name == "config", name == "config.worktree":
		return Config
	case name == "commondir":
		if n := len(above); n >= 2 && above[n-2] == "worktrees" {
			return Commondir
		}
		return Other
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
	case strings.HasSuffix(name, ".lock"):
		return Lock
	case slices.Contains(sequences, name), strings.HasPrefix(name, "BISECT_"):
		return Sequence
	case slices.ContainsFunc(above, func(s string) bool { return slices.Contains(sequences, s) }):
		return Sequence
	}
	return Other
}

// Begins reports whether a directory called name is where a rebase or the like is kept,
// rather than one within it.
func Begins(name string) bool { return slices.Contains(sequences, name) }

// Makes reports whether a file or, if dir is set, directory that is p can be made.
func (p Part) Makes(dir bool) bool {
	switch p {
	case Hooks:
		return dir
	case Sequence:
		return true
	case Sample, Lock, Commondir, Link:
		return !dir
	}
	return false
}

// Writes reports whether what was made inside can be written freely.
func (p Part) Writes() bool { return p == Sample || p == Lock || p == Sequence }

// Once reports whether the content is written in one piece, which Content checks.
func (p Part) Once() bool { return p == Commondir || p == Link }

// Replaced reports whether the file comes into being by a rename only, with a content that Config
// or Content has checked.
func (p Part) Replaced() bool { return p == Config || p == Alternates || p == Todo }

// essential are the names without which a directory is no git directory, to git, libgit2 or
// JGit.
var essential = []string{"HEAD", "objects", "refs", "reftable", "commondir"}

// Essential reports whether an entry called name is one that makes a git directory of a directory.
func Essential(name string) bool { return slices.Contains(essential, name) }

// Complete reports whether a directory that has the entries that has tells of is a git
// directory to git, libgit2 or JGit, whatever is in them.
func Complete(has func(name string) bool) bool {
	return has("HEAD") && (has("commondir") || has("objects") && (has("refs") || has("reftable")))
}
