// Package review shows, applies or discards what a sandbox has changed.
package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/history"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/fusefs/cow"
	"wolffia/local"
	"wolffia/runtime"
)

// The exit codes of apply beside 0 and exitFailed. Scripts rely on them.
const (
	exitConflict = 1
	exitDenied   = 2
)

// A Reviewer shows, applies and discards what sandboxes have changed.
type Reviewer struct {
	*host.Host
	rt *local.Runtime
}

// New returns a Reviewer of the sandboxes of rt.
func New(h *host.Host, rt *local.Runtime) *Reviewer { return &Reviewer{h, rt} }

// record adds to the history what was done with changes.
func (rv *Reviewer) record(kind string, s *runtime.Sandbox, n int, paths []string) {
	if n == 0 {
		return
	}
	dir, _ := os.Getwd()
	err := history.Add(rv.rt.StateDir(), history.Entry{
		Kind: kind, Time: time.Now(), Dir: dir, Codebase: s.CodebasePath, Sandbox: s.ID, Changes: n, Paths: paths,
	})
	if err != nil {
		rv.Warn("write the history: %v; WOLFFIA_HISTORY=off leaves it out", err)
	}
}

// apply has changes made on the host, and recorded.
func (rv *Reviewer) apply(
	ctx context.Context, s *runtime.Sandbox, o runtime.ApplyOptions,
) (*runtime.ApplyResult, error) {
	defer rv.During("apply the changes")()
	res, err := rv.rt.Apply(ctx, s.ID, o)
	if res != nil && !o.DryRun {
		rv.record(history.KindApply, s, len(res.Applied), pathsOf(res.Applied))
	}
	return res, err
}

// letters are those of git diff --name-status, and m for permissions.
var letters = map[runtime.ChangeKind]string{
	runtime.ChangeAdded: "A", runtime.ChangeModified: "M", runtime.ChangeDeleted: "D",
	runtime.ChangeRenamed: "R", runtime.ChangeType: "T", runtime.ChangeMode: "m",
}

// isGits reports whether a change is of git's own files, which are never applied as files.
func isGits(c *runtime.Change) bool {
	for name := range strings.SplitSeq(c.Path, "/") {
		if cow.IsGit(name) {
			return true
		}
	}
	return false
}

// WithoutGit returns the changes but those of git's own files, and whether there were such.
func WithoutGit(all []runtime.Change) (rest []runtime.Change, git bool) {
	for i := range all {
		if isGits(&all[i]) {
			git = true
		} else {
			rest = append(rest, all[i])
		}
	}
	return rest, git
}

// shownPath returns the path of a change as it is shown, with the one before a rename.
func shownPath(c *runtime.Change) string {
	name := cow.Quote(c.Path)
	if c.Type == runtime.TypeDirectory && c.Kind != runtime.ChangeRenamed {
		name += "/"
	}
	if c.From != "" {
		return cow.Quote(c.From) + " -> " + name
	}
	return name
}

// trouble returns why a change cannot be applied; empty if it can.
func trouble(c *runtime.Change) string {
	return cmp.Or(c.Unapplied, c.Denied, c.Conflict)
}

// printNames prints a line for each change: its letter, its path, and what keeps it from being
// applied.
func printNames(w io.Writer, all []runtime.Change) {
	for i := range all {
		c := &all[i]
		line := letters[c.Kind] + "\t" + shownPath(c)
		if why := trouble(c); why != "" {
			line += "\t(" + console.Printable(why) + ")"
		}
		fmt.Fprintln(w, line)
	}
}

// countText says how many changes of each kind there are, deletions included however many others
// there are: "3 changes: 1 added, 2 deleted".
func countText(all []runtime.Change) string {
	counts := map[runtime.ChangeKind]int{}
	for i := range all {
		counts[all[i].Kind]++
	}
	var parts []string
	for _, kind := range []runtime.ChangeKind{
		runtime.ChangeDeleted, runtime.ChangeModified, runtime.ChangeAdded, runtime.ChangeRenamed, runtime.ChangeType, runtime.ChangeMode,
	} {
		if n := counts[kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kindText[kind]))
		}
	}
	noun := "changes"
	if len(all) == 1 {
		noun = "change"
	}
	return fmt.Sprintf("%d %s: %s", len(all), noun, strings.Join(parts, ", "))
}

var kindText = map[runtime.ChangeKind]string{
	runtime.ChangeAdded: "added", runtime.ChangeModified: "modified", runtime.ChangeDeleted: "deleted",
	runtime.ChangeRenamed: "renamed", runtime.ChangeType: "of another type", runtime.ChangeMode: "of permissions",
}

// copiedSandbox returns a runtime and the sandbox that args begin with; the rest of them are paths
// in its codebase, see selected.
func copiedSandbox(ctx context.Context, h *host.Host, args []string) (rt *local.Runtime, s *runtime.Sandbox, paths []string, err error) {
	if rt, err = h.Open(""); err != nil {
		return nil, nil, nil, err
	}
	if s, err = rt.Get(ctx, args[0]); err != nil {
		return nil, nil, nil, err
	}
	paths, err = selected(s.CodebasePath, args[1:])
	return rt, s, paths, err
}

// selected returns the paths of a command line relative to the codebase; nil: all of it. A
// relative one begins at the codebase's top.
func selected(codebase string, paths []string) (out []string, err error) {
	for _, p := range paths {
		rel := path.Clean(p)
		if path.IsAbs(rel) {
			rel = strings.TrimPrefix(rel, strings.TrimSuffix(codebase, "/"))
			if rel == path.Clean(p) && codebase != "/" || rel != "" && rel[0] != '/' {
				return nil, runtime.Errorf(runtime.ErrInvalid, "%s is not in the codebase %s", p, codebase)
			}
			rel = path.Clean("." + rel)
		}
		switch {
		case rel == ".." || strings.HasPrefix(rel, "../"):
			return nil, runtime.Errorf(runtime.ErrInvalid, "%s is not in the codebase: paths begin at its top", p)
		case rel == ".":
			return nil, nil
		}
		out = append(out, rel)
	}
	return out, nil
}

// applyStatus returns the exit status for an error of Workspace.Apply, whose text was printed.
func applyStatus(err error) error {
	switch {
	case errors.Is(err, runtime.ErrConflict):
		return console.ExitStatus(exitConflict)
	case errors.Is(err, runtime.ErrDenied):
		return console.ExitStatus(exitDenied)
	}
	return err
}
