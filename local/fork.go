package local

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/step"
	"wolffia/local/kept"
	"wolffia/local/pool"
	"wolffia/runtime"
)

// Fork implements [runtime.Workspace].
func (s *sandboxes) Fork(ctx context.Context, sandboxID string, o runtime.ForkOptions) ([]*runtime.Sandbox, error) {
	return s.ForkAs(ctx, sandboxID, o, func(int, *runtime.SandboxConfig) {})
}

// ForkAs is Fork for sandboxes whose configurations edit changes; i counts them from 0. The labels
// are a copy, and nil if it has none.
func (s *sandboxes) ForkAs(
	ctx context.Context, sandboxID string, o runtime.ForkOptions, edit func(i int, c *runtime.SandboxConfig),
) (made []*runtime.Sandbox, err error) {
	count := max(o.Count, 1)
	if o.Count < 0 || count > runtime.MaxForks {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%d forks: at most %d can be made at once", o.Count, runtime.MaxForks)
	}
	rec, c, err := s.find(sandboxID)
	if err != nil {
		return nil, err
	}
	if err := c.RequireRules(); err != nil {
		return nil, err
	}
	release, err := hiding(ctx, rec)
	if err != nil {
		return nil, err
	}
	defer release()
	first, err := s.reviews.hidden(ctx, rec, c, &boot.Review{Do: boot.ReviewSnapshot}, o.Memory)
	if err != nil {
		return nil, err
	}
	step.Reached("fork: changes copied")
	snapshots := []string{first}
	defer func() { // what is left of them
		for _, name := range snapshots {
			_ = s.reviews.RemoveSnapshot(context.WithoutCancel(ctx), rec.ID(), name)
		}
	}()
	defer func() {
		if err != nil {
			for _, b := range made {
				err = errors.Join(err, s.Destroy(context.WithoutCancel(ctx), b.ID))
			}
			made = nil
		}
	}()
	for i := range count {
		snapshot := first // the last takes it
		if i < count-1 {
			if snapshot, err = s.reviews.hiddenCopy(ctx, rec, c, first); err != nil {
				return made, err
			}
			snapshots = append(snapshots, snapshot)
		}
		name := o.Name
		if name != "" && count > 1 {
			name += "-" + strconv.Itoa(i+1)
		}
		b, err := s.forkFrom(ctx, rec, c, snapshot, func(c *runtime.SandboxConfig) {
			c.Name = name
			edit(i, c)
		})
		if err != nil {
			return made, err
		}
		made = append(made, b)
	}
	return made, nil
}

// StartForks starts sandboxes, as many at the same time as there are processors. If one does not
// start it destroys all.
func (s *sandboxes) StartForks(ctx context.Context, all []*runtime.Sandbox) error {
	err := pool.SideBySide(len(all), goruntime.GOMAXPROCS(0), func(i int) error { return s.Start(ctx, all[i].ID) })
	if err != nil {
		for _, b := range all {
			err = errors.Join(err, s.Destroy(context.WithoutCancel(ctx), b.ID))
		}
	}
	return err
}

// hidden makes a snapshot whose name begins with forkPrefix, by the work r of the tree server or,
// with memory, of a sandbox that runs.
func (s *reviews) hidden(
	ctx context.Context, rec *statedir.Record, c *statedir.Config, r *boot.Review, memory bool,
) (string, error) {
	switch {
	case memory && kept.Is(statedir.Cow(rec.Run())): // it was not started since it was forked, or restored
		return s.hiddenNext(ctx, rec, c)
	case memory:
		return s.keepMemory(ctx, rec, c, false)
	}
	r.Name = forkPrefix + strings.ToLower(rand.Text())
	return r.Name, s.review(ctx, rec.ID(), r, nil)
}

// hiddenNext is hidden for what the next start of a sandbox begins with: its changes and a memory.
func (s *reviews) hiddenNext(ctx context.Context, rec *statedir.Record, c *statedir.Config) (name string, err error) {
	dir, err := kept.SnapshotsDir(rec)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if c.CopyOnWrite {
		name, err = s.hidden(ctx, rec, c, &boot.Review{Do: boot.ReviewSnapshot, Memory: true}, false)
	} else {
		name = forkPrefix + strings.ToLower(rand.Text())
		err = kept.Copy(rec, ".", statedir.CowSnapshots, name)
	}
	if err == nil && !kept.Is(filepath.Join(dir.Name(), name)) {
		err = errors.Join(rmtree.Remove(dir, name), runtime.Errorf(runtime.ErrConflict,
			"sandbox %s was started meanwhile: fork it again", rec.ID()))
	}
	return name, err
}

// hiddenCopy is hidden for a copy of a snapshot.
func (s *reviews) hiddenCopy(ctx context.Context, rec *statedir.Record, c *statedir.Config, of string) (string, error) {
	if c.CopyOnWrite {
		return s.hidden(ctx, rec, c, &boot.Review{Do: boot.ReviewSnapshot, From: of}, false)
	}
	name := forkPrefix + strings.ToLower(rand.Text())
	return name, kept.Copy(rec, statedir.CowSnapshots+"/"+of, statedir.CowSnapshots, name)
}

// forkFrom makes a sandbox with the parts of a snapshot, which it takes.
func (s *sandboxes) forkFrom(
	ctx context.Context, rec *statedir.Record, c *statedir.Config, snapshot string, edit func(c *runtime.SandboxConfig),
) (*runtime.Sandbox, error) {
	config := apartFrom(&c.SandboxConfig)
	config.ID, config.Name, config.BoundToCaller = "", "", false
	config.Publish = nil // the parent has the host's ports
	// such as whose it is
	maps.DeleteFunc(config.Labels, func(k, _ string) bool { return strings.HasPrefix(k, "wolffia.") })
	edit(&config)
	from := filepath.Join(statedir.Cow(rec.Run()), statedir.CowSnapshots, snapshot)
	// The fork has its changes before it exists: one without them would look complete.
	return s.create(ctx, &config, func(fork *statedir.Record) error { return adopt(fork, from, c.CopyOnWrite) })
}

// adopt makes the changes of a new sandbox those in a directory, which it takes.
func adopt(rec *statedir.Record, from string, copied bool) error {
	cow, err := kept.Dir(rec)
	if err != nil {
		return err
	}
	defer cow.Close()
	for _, name := range statedir.CowParts {
		err := unix.Rename(filepath.Join(from, name), filepath.Join(cow.Name(), name))
		needed := copied && (name == statedir.CowUpper || name == statedir.CowLog)
		if err != nil && (needed || !errors.Is(err, unix.ENOENT)) {
			return runtime.Errorf(runtime.ErrUnavailable, "give sandbox %s its changes: %w", rec.ID(), err)
		}
		step.Reached("fork: one more adopted")
	}
	return nil
}

// Snapshot implements [runtime.Workspace].
func (s *reviews) Snapshot(
	ctx context.Context, sandboxID, name string, o runtime.SnapshotOptions,
) (*runtime.Snapshot, error) {
	if !statedir.ValidSnapshot(name) {
		return nil, runtime.Errorf(runtime.ErrInvalid, "snapshot %q: a name has up to 64 letters, digits, dots, dashes and underscores, of which the first is a letter or digit", name)
	}
	var err error
	if o.Memory {
		err = s.snapshotMemory(ctx, sandboxID, name)
	} else {
		err = s.review(ctx, sandboxID, &boot.Review{Do: boot.ReviewSnapshot, Name: name}, nil)
	}
	if err != nil {
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
	return &runtime.Snapshot{Name: name, CreatedAt: info.ModTime(), Memory: o.Memory}, nil
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
			_, err := os.Lstat(filepath.Join(dir, e.Name(), statedir.CowMemory))
			all = append(all, runtime.Snapshot{Name: e.Name(), CreatedAt: info.ModTime(), Memory: err == nil})
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
	if !c.CopyOnWrite && s.canKeepMemory(c) != nil {
		return "", runtime.Errorf(runtime.ErrInvalid, "sandbox %s works on the host's directory itself: it has no snapshots; create it with --cow", rec.ID())
	}
	return filepath.Join(statedir.Cow(rec.Run()), statedir.CowSnapshots), nil
}

// Restore implements [runtime.Workspace].
func (s *reviews) Restore(ctx context.Context, sandboxID, name string) error {
	rec, c, err := s.find(sandboxID)
	if err != nil {
		return err
	}
	state, _, err := rec.State()
	if err == nil && state.Runs() {
		return stopFirst(rec)
	}
	if !c.CopyOnWrite && s.canKeepMemory(c) == nil {
		return s.restoreMemory(rec, name)
	}
	return s.review(ctx, sandboxID, &boot.Review{Do: boot.ReviewRestore, Name: name}, nil)
}

// stopFirst is the error of Restore for a sandbox that runs.
func stopFirst(rec *statedir.Record) error {
	return runtime.Errorf(runtime.ErrConflict,
		"sandbox %s runs: what it has cannot be replaced: wolffia stop %[1]s", rec.ID())
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

// hiding begins a call that makes hidden snapshots of a sandbox. Until release, which is called once,
// removeStale removes none.
func hiding(ctx context.Context, rec *statedir.Record) (release func(), err error) {
	dir, err := kept.SnapshotsDir(rec)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	removeStale(dir.Name())
	if release, err = filelock.FlockShared(ctx, dir.Name()); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "snapshots of sandbox %s: %w", rec.ID(), err)
	}
	return release, nil
}

// removeStale removes from a directory of snapshots the hidden ones that callers that were killed
// have left, unless a call goes on.
func removeStale(dir string) {
	entries, _ := os.ReadDir(dir) // it may not be there yet
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return !isRandom(e.Name(), forkPrefix) && !isRandom(e.Name(), keptPrefix)
	})
	if len(entries) == 0 {
		return
	}
	release, err := filelock.TryFlock(dir)
	if err != nil {
		return
	}
	defer release()
	for _, e := range entries {
		_ = rmtree.RemovePath(dir, e.Name()) // else the next call does
	}
}

// isRandom reports whether a name is the prefix and a text of rand.Text.
func isRandom(name, prefix string) bool {
	random, ok := strings.CutPrefix(name, prefix)
	return ok && len(random) == len(rand.Text()) && strings.Trim(strings.ToUpper(random), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
