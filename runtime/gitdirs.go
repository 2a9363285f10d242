package runtime

// A GitDirs says whose the git directories are that a sandbox sees in its codebase.
type GitDirs string

// The git directories.
const (
	// GitPrivate: each name .git is the sandbox's own copy. Commits, and moves of branches, cross
	// to the host's repository and back, as the host's git has checked them: see
	// [Workspace].SyncGit. With FilterStatic so is each .git that the host has at a start; one
	// that comes later is the host's. A codebase with FilterNone, or with CopyOnWrite, has none.
	GitPrivate GitDirs = ""
	// GitInPlace: they are the host's own, and the rules alone say what a sandbox may change in
	// them. What it writes there, git on the host may execute.
	GitInPlace GitDirs = "in-place"
	// GitReadOnly: they are the host's own, and at most readable: the host's git cannot take over
	// commits.
	GitReadOnly GitDirs = "read-only"
)

// A GitReport is what a SyncGit did.
type GitReport struct {
	// Lines are for the user: what was rewritten or deleted, and what stays on its side, and why.
	// Most reports have none. Names in them are the sandbox's: quote them before printing.
	Lines []string
	// Pending is the reason why something stays inside that would be lost with the sandbox, such
	// as an operation of git that is in progress; empty: nothing would be.
	Pending string
}

// checkGitDirs checks whose the git directories are.
func checkGitDirs(c *SandboxConfig, bad problem) {
	if c.GitDirs != GitPrivate && c.GitDirs != GitInPlace && c.GitDirs != GitReadOnly {
		bad("git directories %q: they can be %q, %q, or left out (the sandbox's own)", c.GitDirs, GitInPlace, GitReadOnly)
	}
}
