package attach

import (
	"context"
	"fmt"
	"strings"
	"time"

	"wolffia/ops"
	"wolffia/wire"
)

// leftLimit bounds the question what would be lost.
const leftLimit = 2 * time.Second

// leftNote returns a line about what a sandbox has outside of its codebase and loses with its end;
// empty if there is nothing, or it does not answer.
func (c *Client) leftNote(ctx context.Context, id string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leftLimit)
	defer cancel()
	home, left, err := c.rt.Left(ctx, id)
	if err != nil {
		return ""
	}
	var paths []wire.LeftPath
	for _, l := range left {
		if l.Worktree {
			paths = append(paths, c.uncommitted(ctx, id, string(l.Path))...)
		} else {
			paths = append(paths, l)
		}
	}
	return leftText(home, paths)
}

// uncommitted returns the files of a working tree that no commit has; all of it if git does not
// say. Commits are in the repository of the codebase.
func (c *Client) uncommitted(ctx context.Context, id, dir string) (paths []wire.LeftPath) {
	all, err := ops.AskGitStatus(ctx, c.rt, id, dir)
	if err != nil {
		return []wire.LeftPath{{Path: wire.Path(dir)}}
	}
	for _, s := range all {
		if !s.Deleted {
			paths = append(paths, wire.LeftPath{Path: wire.Path(dir + "/" + s.Path)})
		}
	}
	return paths
}

// leftText is leftNote for what is in a home directory.
func leftText(home string, left []wire.LeftPath) string {
	if len(left) == 0 {
		return ""
	}
	var names []string
	for _, l := range left[:min(len(left), maxNamed)] {
		name := string(l.Path)
		if rest, in := strings.CutPrefix(name, home+"/"); in {
			name = "~/" + rest
		}
		if l.Dir {
			name += fmt.Sprintf("/ (%d files)", l.Files)
		}
		names = append(names, name)
	}
	if more := len(left) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return "lost with the sandbox, since it is outside of the codebase: " + strings.Join(names, ", ") +
		"; to keep the home directory for later sandboxes: --home NAME"
}
