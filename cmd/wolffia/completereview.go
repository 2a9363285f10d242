package main

import (
	"context"
	"slices"
	"strings"

	"wolffia/local"
	"wolffia/runtime"
)

// reviews reports whether a command is about the changes of a sandbox, and takes more than its name.
func reviews(path string) bool {
	return path == "diff" || path == "apply" || path == "discard" || strings.HasPrefix(path, "snapshot ")
}

// completeReview completes what follows the name of a sandbox: paths that have changed, or a
// snapshot.
func (a *app) completeReview(ctx context.Context, path string, args []string) []string {
	ref, given := args[0], args[1:]
	switch path {
	case "diff", "apply", "discard":
		return a.changedPaths(ctx, ref, given)
	case "snapshot restore", "snapshot rm":
		if path == "snapshot rm" || len(given) == 0 {
			return a.snapshotNames(ctx, ref, given)
		}
	}
	return nil
}

// changedPaths returns the changes of a sandbox but for git's own and those that are given. The names are the
// sandbox's, and a shell obeys what is completed: one with another character than those of most
// names is left out.
func (a *app) changedPaths(ctx context.Context, ref string, given []string) (out []string) {
	all := listed(ctx, a, func(ctx context.Context, rt *local.Runtime) ([]runtime.Change, error) {
		return rt.Changes(ctx, ref, runtime.ChangesOptions{})
	})
	all, _ = withoutGit(all)
	for i := range all {
		c := &all[i]
		if plainPath(c.Path) && !slices.Contains(given, c.Path) {
			out = append(out, c.Path+"\t"+string(c.Kind))
		}
	}
	return out
}

// plainPath reports whether a path has only characters that no shell and no option parser gives a meaning.
func plainPath(p string) bool {
	for _, c := range []byte(p) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("/._-+@", rune(c)) {
			return false
		}
	}
	return p != "" && p[0] != '-'
}

// snapshotNames returns the snapshots of a sandbox but for those that are given.
func (a *app) snapshotNames(ctx context.Context, ref string, given []string) (out []string) {
	all := listed(ctx, a, func(ctx context.Context, rt *local.Runtime) ([]runtime.Snapshot, error) {
		return rt.Snapshots(ctx, ref)
	})
	for _, s := range all {
		if !slices.Contains(given, s.Name) {
			out = append(out, s.Name+"\t"+age(s.CreatedAt))
		}
	}
	return out
}
