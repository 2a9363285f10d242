// Package gitguard tells, by names, what git takes for a git directory. It is pure.
package gitguard

import "slices"

// essential are the names that git, libgit2 or JGit require in a git directory.
var essential = []string{"HEAD", "objects", "refs", "reftable", "commondir"}

// Essential reports whether an entry called name can make a directory a git directory.
func Essential(name string) bool { return slices.Contains(essential, name) }

// Complete reports whether git, libgit2 or JGit takes a directory for a git directory, whatever
// the content of its entries. has reports whether an entry exists.
func Complete(has func(name string) bool) bool {
	return has("HEAD") && (has("commondir") || has("objects") && (has("refs") || has("reftable")))
}
