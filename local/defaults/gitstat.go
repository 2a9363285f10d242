package defaults

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/hostgit"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// monitorAnyGit is a variable of the environment, for tests: the monitor is there whatever git is.
const monitorAnyGit = "WOLFFIA_GIT_MONITOR"

// GitMonitor gives git inside the tree server as its file system monitor, unless c says
// otherwise, or git inside may be one that is wrong with it. What c has for git outranks it.
func GitMonitor(c *statedir.Config) {
	if !HasPrivateGit(c) || !c.Serves() || c.NoGitMonitor {
		return
	}
	hosts := c.Rootfs == "" && c.Image == "" // else it is not known which git is inside
	if os.Getenv(monitorAnyGit) == "" && !(hosts && hostgit.Monitors()) {
		return
	}
	if c.Git == nil {
		c.Git = new(runtime.GitConfig)
	}
	if !strings.Contains(c.Git.Config, launch.GitMonitor) { // as in a fork
		c.Git.Config = launch.GitMonitor + c.Git.Config
	}
}

// HasPrivateGit reports whether the git directories of a sandbox with this configuration are its
// own.
func HasPrivateGit(c *statedir.Config) bool {
	return c.GitDirs == runtime.GitPrivate && c.CodebasePath != "" && c.Filter != runtime.FilterNone && !c.CopyOnWrite
}

// Git gives git inside launch.GitMinimal where the owners or inode numbers shown inside
// are not the host's, which a repository's index has: git would read each file to find out
// whether it has changed, and so would git on the host after it. What c has for git outranks it.
func Git(c *statedir.Config, hostInodes bool) {
	if hostInodes && !otherOwner(c) {
		return
	}
	if c.Git == nil {
		if hostInodes && c.DroppedUID == 0 {
			// a pooled sandbox has a configuration of git or none, for any owner of the
			// codebase that it gets; root has no pooled sandboxes
			return
		}
		c.Git = new(runtime.GitConfig)
	}
	if !strings.Contains(c.Git.Config, launch.GitMinimal) { // as in a fork
		c.Git.Config = launch.GitMinimal + c.Git.Config
	}
}

// otherOwner reports whether the codebase shows the sandbox's user as the owner in place of its
// own.
func otherOwner(c *statedir.Config) bool {
	var st unix.Stat_t
	return c.Root || c.CodebasePath != "" && unix.Stat(c.CodebasePath, &st) == nil && (int(st.Uid) != c.UID || int(st.Gid) != c.GID)
}
