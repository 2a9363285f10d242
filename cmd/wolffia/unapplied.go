package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"wolffia/local"
	"wolffia/runtime"
)

// unapplied returns an error if a sandbox that does not run has changes that were not applied, or that cannot
// be told.
func unapplied(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox) error {
	if !s.CopyOnWrite || s.State == runtime.StateRunning {
		return nil
	}
	all, err := rt.Changes(ctx, s.ID, runtime.ChangesOptions{})
	if err != nil {
		return runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s may have changes that were not applied, and they cannot be listed: %[2]w; wolffia rm -f %[1]s", s.ContainerName(), err)
	}
	own, git := withoutGit(all)
	switch {
	case len(own) > 0:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s has %[2]s that were not applied: wolffia diff %[1]s; rm -f %[1]s", s.ContainerName(), changesText(len(own)))
	case git && !noCommits(ctx, rt, s):
		return runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s may have commits that were not applied: wolffia apply --git --dry-run %[1]s; rm -f %[1]s", s.ContainerName())
	}
	return nil
}

// noCommits reports whether the host has all commits of a sandbox that does not run. Git inside is asked, for
// which it is started and stopped again. If that fails it is not known.
func noCommits(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox) bool {
	if rt.Start(ctx, s.ID) != nil {
		return false
	}
	n, err := commitsOf(ctx, rt, s)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyLimit)
	defer cancel()
	return errors.Join(err, rt.Stop(stopping, s.ID)) == nil && n == 0
}

// A changeCount is how much a sandbox with cow has changed.
type changeCount struct {
	Count   int    `json:"count"` // but git's own files
	Bytes   int64  `json:"bytes"` // of the new content
	Problem string `json:"problem,omitempty"`
}

// countLimit is how long inspect waits for the changes of a sandbox.
const countLimit = 5 * time.Second

func countChanges(ctx context.Context, rt *local.Runtime, id string) *changeCount {
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	all, err := rt.Changes(ctx, id, runtime.ChangesOptions{})
	if err != nil {
		return &changeCount{Problem: err.Error()}
	}
	own, _ := withoutGit(all)
	n := &changeCount{Count: len(own)}
	for i := range own {
		n.Bytes += own[i].Size
	}
	return n
}

func (n *changeCount) text(id string) string {
	switch {
	case n.Problem != "":
		return "unknown: " + n.Problem
	case n.Count == 0:
		return "none"
	}
	return fmt.Sprintf("%d, %d bytes: wolffia diff %s", n.Count, n.Bytes, id)
}

// changesText says how many changes there are.
func changesText(n int) string {
	if n == 1 {
		return "1 change"
	}
	return fmt.Sprintf("%d changes", n)
}
