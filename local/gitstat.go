package local

import (
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/statedir"
	"wolffia/runtime"
)

// gitStat has git take a file for unchanged whatever its owner and inode number: it compares times
// and sizes only (git-config(1)).
const gitStat = "[core]\n\tcheckStat = minimal\n"

// completeGit gives git inside gitStat where the owners or inode numbers shown inside are not the
// host's, which a repository's index has: git would read each file to find out whether it has
// changed, and so would git on the host after it. What c has for git outranks it.
func completeGit(c *statedir.Config, ownKernel bool) {
	if !ownKernel && !otherOwner(c) {
		return
	}
	if c.Git == nil {
		if !ownKernel && c.DroppedUID == 0 {
			return // a spare has a configuration of git or none, whoever owns the codebase that it gets; root has no spares
		}
		c.Git = new(runtime.GitConfig)
	}
	if !strings.HasPrefix(c.Git.Config, gitStat) { // as in a fork
		c.Git.Config = gitStat + c.Git.Config
	}
}

// otherOwner reports whether the codebase shows the sandbox's user as the owner in place of its own.
func otherOwner(c *statedir.Config) bool {
	var st unix.Stat_t
	return c.CodebasePath != "" && unix.Stat(c.CodebasePath, &st) == nil && (int(st.Uid) != c.UID || int(st.Gid) != c.GID)
}
