package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"wolffia/perm"
)

// WorktreeDir is the directory, at the top of a codebase, with the working trees of git that
// sandboxes have to themselves. A sandbox can change only its own there: so nothing that a
// sandbox does can lead the host's git elsewhere when it makes one, or removes one.
const WorktreeDir = ".wolffia"

// WorktreeName returns the name below WorktreeDir of the working tree for a branch: that of
// FormerWorktreeName and, if it differs from the branch's, a part of the branch's checksum.
func WorktreeName(branch string) string {
	name := FormerWorktreeName(branch)
	if name == worktreePrefix+branch {
		return name
	}
	sum := sha256.Sum256([]byte(branch))
	return name + "-" + hex.EncodeToString(sum[:4])
}

const worktreePrefix = "worktree-"

// FormerWorktreeName returns the name that the working tree for a branch once had. Several
// branches have the same: a byte that is not a letter or digit of ASCII, a dot, "_" or "-" becomes
// a "-".
func FormerWorktreeName(branch string) string {
	return worktreePrefix + strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r) {
			return r
		}
		return '-'
	}, branch)
}

// otherWorktrees is the source of the rule for WorktreeDir.
const otherWorktrees = "working trees of other sandboxes"

// worktrees returns the rules for the entries of WorktreeDir and, if own is not empty, rules that
// keep a sandbox to its own working tree there and to git's files. The directory itself can then
// be neither removed, because it has a file, nor renamed, because other rules would apply below
// it.
func worktrees(own string) []perm.Rule {
	others := perm.Rule{
		Pattern: "/" + WorktreeDir + "/*", Except: own, Level: perm.Read, AtMost: true,
		Priority: perm.PrioritySecret, Source: otherWorktrees,
	}
	if own == "" {
		return []perm.Rule{others}
	}
	rest := others
	rest.Pattern, rest.Except, rest.Source = "/*", "{.git,"+WorktreeDir+"}", "the sandbox's own working tree is elsewhere"
	return []perm.Rule{others, rest}
}
