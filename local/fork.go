package local

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// Fork implements [runtime.Workspace]. The changes are copied to a snapshot, which becomes those
// of the new sandbox.
func (s *sandboxes) Fork(ctx context.Context, sandboxID, name string) (*runtime.Sandbox, error) {
	return s.ForkAs(ctx, sandboxID, func(c *runtime.SandboxConfig) { c.Name = name })
}

// ForkAs is Fork for a sandbox whose configuration edit changes. It has no name unless edit gives
// it one. The labels are a copy, and nil if it has none.
func (s *sandboxes) ForkAs(ctx context.Context, sandboxID string, edit func(c *runtime.SandboxConfig)) (_ *runtime.Sandbox, err error) {
	rec, c, err := s.find(sandboxID)
	if err != nil {
		return nil, err
	}
	if err := c.RequireRules(); err != nil {
		return nil, err
	}
	removeStale(filepath.Join(statedir.Cow(rec.Run()), statedir.CowSnapshots), forkPrefix)
	snapshot := forkPrefix + strings.ToLower(rand.Text())
	if _, err := s.reviews.Snapshot(ctx, rec.ID(), snapshot); err != nil {
		return nil, err
	}
	step.Reached("fork: changes copied")
	defer func() { _ = s.reviews.RemoveSnapshot(ctx, rec.ID(), snapshot) }() // what is left of it
	config := c.SandboxConfig
	config.ID, config.Name, config.BoundToCaller = "", "", false
	config.Publish = nil // the parent has the host's ports
	config.Labels = maps.Clone(config.Labels)
	// such as whose it is
	maps.DeleteFunc(config.Labels, func(k, _ string) bool { return strings.HasPrefix(k, "wolffia.") })
	edit(&config)
	from := filepath.Join(statedir.Cow(rec.Run()), statedir.CowSnapshots, snapshot)
	// The fork has its changes before it exists: one without them would look complete.
	return s.create(ctx, &config, func(fork *statedir.Record) error { return adopt(fork, from) })
}

// adopt makes the changes of a new sandbox those in a directory, which it takes.
func adopt(rec *statedir.Record, from string) error {
	for _, name := range statedir.CowParts {
		err := unix.Rename(filepath.Join(from, name), filepath.Join(statedir.Cow(rec.Run()), name))
		if err != nil && (name != statedir.CowHosts || !errors.Is(err, unix.ENOENT)) {
			return runtime.Errorf(runtime.ErrUnavailable, "give sandbox %s its changes: %w", rec.ID(), err)
		}
		step.Reached("fork: one more adopted")
	}
	return nil
}

// Snapshot implements [runtime.Workspace].
func (s *reviews) Snapshot(ctx context.Context, sandboxID, name string) (*runtime.Snapshot, error) {
	if !statedir.ValidSnapshot(name) {
		return nil, runtime.Errorf(runtime.ErrInvalid, "snapshot %q: a name has up to 64 letters, digits, dots, dashes and underscores, of which the first is a letter or digit", name)
	}
	if err := s.review(ctx, sandboxID, &boot.Review{Do: boot.ReviewSnapshot, Name: name}, nil); err != nil {
		return nil, err
	}
	dir, err := s.snapshotsOf(sandboxID)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(filepath.Join(dir, name)) // its time is what Snapshots says
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return &runtime.Snapshot{Name: name, CreatedAt: info.ModTime()}, nil
}

// Snapshots implements [runtime.Workspace].
func (s *reviews) Snapshots(_ context.Context, sandboxID string) ([]runtime.Snapshot, error) {
	dir, err := s.snapshotsOf(sandboxID)
	if err != nil {
		return nil, err
	}
	removeGone(dir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	all := []runtime.Snapshot{}
	for _, e := range entries {
		if !statedir.ValidSnapshot(e.Name()) || !e.IsDir() || isRandom(e.Name(), forkPrefix) {
			continue
		}
		if info, err := e.Info(); err == nil { // an error: it was removed
			all = append(all, runtime.Snapshot{Name: e.Name(), CreatedAt: info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b runtime.Snapshot) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all, nil
}

// snapshotsOf returns the directory of a sandbox's snapshots, which need not exist.
func (s *reviews) snapshotsOf(sandboxID string) (string, error) {
	rec, c, err := s.header(sandboxID)
	if err != nil {
		return "", err
	}
	if !c.CopyOnWrite {
		return "", runtime.Errorf(runtime.ErrInvalid, "sandbox %s works on the host's directory itself: it has no snapshots; create it with --cow", rec.ID())
	}
	return filepath.Join(statedir.Cow(rec.Run()), statedir.CowSnapshots), nil
}

// Restore implements [runtime.Workspace].
func (s *reviews) Restore(ctx context.Context, sandboxID, name string) error {
	return s.review(ctx, sandboxID, &boot.Review{Do: boot.ReviewRestore, Name: name}, nil)
}

// RemoveSnapshot implements [runtime.Workspace].
func (s *reviews) RemoveSnapshot(_ context.Context, sandboxID, name string) error {
	dir, err := s.snapshotsOf(sandboxID)
	if err != nil {
		return err
	}
	if !statedir.ValidSnapshot(name) {
		return runtime.Errorf(runtime.ErrNotFound, "there is no snapshot %q", name)
	}
	removeGone(dir)
	gone := gonePrefix + rand.Text() // so that it is not restored half deleted
	err = unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, name), unix.AT_FDCWD, filepath.Join(dir, gone), unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOENT) {
		return runtime.Errorf(runtime.ErrNotFound, "there is no snapshot %s", name)
	}
	step.Reached("snapshot: taken away")
	if err == nil {
		err = rmtree.RemovePath(dir, gone)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "delete snapshot %s: %w", name, err)
	}
	return nil
}

// gonePrefix begins the names of snapshots that are being removed.
const gonePrefix = ".gone-"

// removeGone deletes snapshots whose removal was killed. Another process may be deleting one of
// them.
func removeGone(dir string) {
	entries, _ := os.ReadDir(dir) // it may not exist yet
	for _, e := range entries {
		if isRandom(e.Name(), gonePrefix) {
			_ = rmtree.RemovePath(dir, e.Name()) // else the next call does
		}
	}
}

// forkPrefix begins the names of snapshots that become the changes of a fork.
const forkPrefix = "fork-"

// removeStale removes from a directory what callers that were killed have left: names with that
// prefix and a text of rand.Text, and older than any call.
func removeStale(dir, prefix string) {
	const stale = 2 * boot.ReviewLimit
	entries, _ := os.ReadDir(dir) // it may not be there yet
	for _, e := range entries {
		info, err := e.Info()
		if !isRandom(e.Name(), prefix) || err != nil || time.Since(info.ModTime()) < stale {
			continue
		}
		_ = rmtree.RemovePath(dir, e.Name()) // else the next call does
	}
}

// isRandom reports whether a name is the prefix and a text of rand.Text.
func isRandom(name, prefix string) bool {
	random, ok := strings.CutPrefix(name, prefix)
	return ok && len(random) == len(rand.Text()) && strings.Trim(strings.ToUpper(random), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
