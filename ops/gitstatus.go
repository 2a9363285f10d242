package ops

import (
	"context"
	"fmt"
	"strings"

	"wolffia/runtime"
)

// A GitStatus is a file of which git status says that no commit has it as it is.
type GitStatus struct {
	Path    string // below the top of the working tree; with a slash at its end a directory
	Deleted bool
}

// AskGitStatus asks git in a sandbox about the working tree around dir, a directory inside; empty
// means that of the configuration. args are more options of git status. Names come from inside. An
// error also means that git has failed.
func AskGitStatus(ctx context.Context, rt runtime.Executor, id, dir string, args ...string) ([]GitStatus, error) {
	r, err := rt.Exec(ctx, id, &runtime.Command{
		Command: append([]string{"git", "--no-optional-locks", "status", "--porcelain", "-z", "--no-renames"}, args...),
		Cwd:     dir, MaxOutput: maxGitStatus,
	})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("git status in %s: exit code %d", dir, r.ExitCode)
	}
	if err != nil {
		return nil, err
	}
	return gitStatus(string(r.Stdout)), nil
}

// maxGitStatus bounds the answer, in bytes.
const maxGitStatus = 1 << 20

// gitStatus parses what git status --porcelain -z --no-renames prints: XY NAME for each file
// (git-status(1)).
func gitStatus(text string) (all []GitStatus) {
	for line := range strings.SplitSeq(text, "\x00") {
		if len(line) > 3 {
			all = append(all, GitStatus{Path: line[3:], Deleted: strings.Contains(line[:2], "D")})
		}
	}
	return all
}
