package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"wolffia/local"
	"wolffia/runtime"
)

// unapplied returns an error if a sandbox that does not run has changes that were not applied, or snapshots, or something that git has not
// taken over, or if that cannot be told.
func unapplied(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox) error {
	if s.State == runtime.StateRunning {
		return nil
	}
	if !s.CopyOnWrite {
		return unsynced(ctx, rt, s)
	}
	all, err := rt.Changes(ctx, s.ID, runtime.ChangesOptions{})
	if err != nil {
		return runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s may have changes that were not applied, and they cannot be listed: %[2]w; wolffia rm -f %[1]s", s.ContainerName(), err)
	}
	own, git := withoutGit(all)
	switch {
	case len(own) > 0:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s has %[2]s not applied: wolffia diff %[1]s; rm -f %[1]s", s.ContainerName(), changesText(len(own)))
	case git && !noCommits(ctx, rt, s, all):
		return runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s may have commits that were not applied: wolffia apply --git --dry-run %[1]s; rm -f %[1]s", s.ContainerName())
	}
	snapshots, err := rt.Snapshots(ctx, s.ID)
	if err == nil && len(snapshots) > 0 {
		err = runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s has %[2]s: wolffia snapshot ls %[1]s; rm -f %[1]s", s.ContainerName(), counted(len(snapshots), "snapshot"))
	}
	return err
}

// hasSnapshots reports whether a sandbox has snapshots, and true if that cannot be told; false for one that is gone.
func hasSnapshots(ctx context.Context, rt *local.Runtime, id string) bool {
	all, err := rt.Snapshots(ctx, id)
	return len(all) > 0 || err != nil && !errors.Is(err, runtime.ErrNotFound)
}

// noCommits reports whether the host has all commits of a sandbox with these changes. If git inside does not say it is
// not known.
func noCommits(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, all []runtime.Change) bool {
	n, below, err := commitsIn(ctx, rt, s, all)
	return err == nil && n+below == 0
}

// commitsIn is commitsOf for a sandbox that need not run: for git inside it is started and stopped again.
func commitsIn(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, all []runtime.Change) (n, below int, err error) {
	if s.State == runtime.StateRunning {
		return commitsOf(ctx, rt, s, all)
	}
	if err := rt.Start(ctx, s.ID); err != nil {
		return 0, 0, err
	}
	n, below, err = commitsOf(ctx, rt, s, all)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyLimit)
	defer cancel()
	return n, below, errors.Join(err, rt.Stop(stopping, s.ID))
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
func changesText(n int) string { return counted(n, "change") }

// counted returns a number and a noun.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
