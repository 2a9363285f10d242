package hint

import (
	"os"
	"path"
	"strings"

	"wolffia/internal/shellword"
)

// partHint says how to show a sandbox the repository in which git found none, if the codebase
// is a part of one. text is what git has printed. Else it returns an empty string.
func partHint(text, codebase string, create bool) string {
	if codebase == "" || !strings.Contains(text, "fatal: not a git repository") {
		return ""
	}
	own, err := os.Lstat(path.Join(codebase, ".git"))
	if err == nil && own.IsDir() {
		return "" // it is hidden, or damaged
	}
	for dir := codebase; dir != "/"; {
		dir = path.Dir(dir)
		if _, err := os.Lstat(path.Join(dir, ".git")); err == nil {
			s := startDiagnosis{create: create}
			return "the codebase is a part of the repository " + dir + ", which the sandbox does not show: to show it, " + s.with("--codebase "+shellword.Quote(dir))
		}
	}
	if err != nil {
		return ""
	}
	if own.Mode()&os.ModeSymlink != 0 {
		return "the codebase's .git is a symbolic link to what the sandbox does not show: git inside works with a directory .git, so move the repository there"
	}
	return "the codebase is a linked working tree, and the sandbox does not show its repository: use --worktree BRANCH with that"
}
