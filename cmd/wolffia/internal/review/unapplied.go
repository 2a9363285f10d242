package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/runtime"
)

// Unapplied returns an error if a sandbox that does not run has changes that were not applied,
// snapshots, kept memory, or something that git has not taken over, or if that cannot be told.
func (rv *Reviewer) Unapplied(ctx context.Context, s *runtime.Sandbox) error {
	if s.State.Runs() {
		return nil
	}
	if rv.rt.HasMemory(s.ID) { // first: git inside is asked below, which has the sandbox go on
		return runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s has kept memory, from which its next start goes on: wolffia start %[1]s, or wolffia stop %[1]s to give it up; rm -f %[1]s", s.ContainerName())
	}
	if !s.CopyOnWrite {
		return cmp.Or(rv.unsynced(ctx, s), rv.noSnapshots(ctx, s))
	}
	all, err := rv.rt.Changes(ctx, s.ID, runtime.ChangesOptions{})
	if err != nil {
		return runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s may have changes that were not applied, and they cannot be listed: %[2]w; wolffia rm -f %[1]s", s.ContainerName(), err)
	}
	own, git := WithoutGit(all)
	switch {
	case len(own) > 0:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s has %[2]s not applied: wolffia diff %[1]s; rm -f %[1]s", s.ContainerName(), changesText(len(own)))
	case git && !rv.noCommits(ctx, s, all):
		return runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s may have commits that were not applied: wolffia apply --git --dry-run %[1]s; rm -f %[1]s", s.ContainerName())
	}
	return rv.noSnapshots(ctx, s)
}

// noSnapshots returns an error if a sandbox has snapshots, or if that cannot be told.
func (rv *Reviewer) noSnapshots(ctx context.Context, s *runtime.Sandbox) error {
	snapshots, err := rv.rt.Snapshots(ctx, s.ID)
	if errors.Is(err, runtime.ErrInvalid) { // it can have none
		return nil
	}
	if err == nil && len(snapshots) > 0 {
		err = runtime.Errorf(runtime.ErrConflict, "sandbox %[1]s has %[2]s: wolffia snapshot ls %[1]s; rm -f %[1]s", s.ContainerName(), console.Counted(len(snapshots), "snapshot"))
	}
	return err
}

// hasSnapshots reports whether a sandbox has snapshots, and true if that cannot be told; false for
// one that was removed.
func (rv *Reviewer) hasSnapshots(ctx context.Context, id string) bool {
	all, err := rv.rt.Snapshots(ctx, id)
	return len(all) > 0 || err != nil && !errors.Is(err, runtime.ErrNotFound)
}

// noCommits reports whether the host has all commits of a sandbox with these changes. If git
// inside does not say it is not known.
func (rv *Reviewer) noCommits(ctx context.Context, s *runtime.Sandbox, all []runtime.Change) bool {
	n, below, err := rv.commitsIn(ctx, s, all)
	return err == nil && n+below == 0
}

// commitsIn is commitsOf for a sandbox that need not run.
func (rv *Reviewer) commitsIn(ctx context.Context, s *runtime.Sandbox, all []runtime.Change) (n, below int, err error) {
	undo, err := rv.run(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	n, below, err = rv.commitsOf(ctx, s, all)
	undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), DestroyLimit)
	defer cancel()
	return n, below, errors.Join(err, undo(undoing))
}

// run has a sandbox run, for git inside. undo has it stopped, paused or hibernating again, if it was.
func (rv *Reviewer) run(ctx context.Context, s *runtime.Sandbox) (undo func(context.Context) error, err error) {
	switch s.State {
	case runtime.StateRunning:
		return func(context.Context) error { return nil }, nil
	case runtime.StatePaused:
		return func(ctx context.Context) error { return rv.rt.Pause(ctx, s.ID) }, rv.rt.Resume(ctx, s.ID)
	}
	end := rv.rt.Stop
	if rv.rt.HasMemory(s.ID) {
		end = rv.rt.Hibernate
	}
	return func(ctx context.Context) error { return end(ctx, s.ID) }, rv.rt.Start(ctx, s.ID)
}

// A ChangeCount is how much a sandbox with cow has changed.
type ChangeCount struct {
	Count   int    `json:"count"` // but git's own files
	Bytes   int64  `json:"bytes"` // of the new content
	Problem string `json:"problem,omitempty"`
}

// countLimit is how long inspect waits for the changes of a sandbox.
const countLimit = 5 * time.Second

func (rv *Reviewer) CountChanges(ctx context.Context, id string) *ChangeCount {
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	all, err := rv.rt.Changes(ctx, id, runtime.ChangesOptions{})
	if err != nil {
		return &ChangeCount{Problem: err.Error()}
	}
	own, _ := WithoutGit(all)
	n := &ChangeCount{Count: len(own)}
	for i := range own {
		n.Bytes += own[i].Size
	}
	return n
}

// Text puts the count on one line.
func (n *ChangeCount) Text(id string) string {
	switch {
	case n.Problem != "":
		return "unknown: " + n.Problem
	case n.Count == 0:
		return "none"
	}
	return fmt.Sprintf("%d, %d bytes: wolffia diff %s", n.Count, n.Bytes, id)
}

// changesText says how many changes there are.
func changesText(n int) string { return console.Counted(n, "change") }
