package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// Remove deletes a volume, with what is in it. ErrNotFound: it does not exist.
// ErrConflict: sandboxes have it, which may be stopped.
func (s *Store) Remove(ctx context.Context, name string) error {
	gone, release, err := s.detach(ctx, name, func(*Entry) error { return nil })
	if err != nil {
		return err
	}
	defer release()
	return s.erase(gone)
}

// detach takes a volume that no sandbox has out of use, if check has nothing against it. It
// returns the new name of its directory, which no other process erases until release is
// called.
func (s *Store) detach(ctx context.Context, name string, check func(*Entry) error) (gone string, release func(), err error) {
	if _, err := os.Lstat(filepath.Join(s.path, name)); !runtime.IsVolumeName(name) || errors.Is(err, fs.ErrNotExist) {
		return "", nil, missing(name)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	e, err := s.Get(name)
	if err != nil {
		return "", nil, err
	}
	if len(e.Sandboxes) > 0 {
		return "", nil, runtime.Errorf(runtime.ErrConflict, "volume %q is used by sandbox %s: remove it first, with wolffia rm", name, strings.Join(e.Sandboxes, ", "))
	}
	if err := check(e); err != nil {
		return "", nil, err
	}
	release, err = s.claim(name)
	if err != nil {
		return "", nil, storeError(err)
	}
	gone = going + runtime.NewID()
	if err := os.Rename(filepath.Join(s.path, name), filepath.Join(s.path, gone)); err != nil {
		release()
		return "", nil, storeError(err)
	}
	step.Reached("volume: detached")
	return gone, release, nil
}

// claim locks the record in a directory, so that only this process erases it.
// filelock.ErrHeld: another process does. A directory without a record needs no claim: it
// is almost gone, or damaged.
func (s *Store) claim(dir string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.path, dir, record), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	return filelock.Try(f, 0, 1)
}

// erase deletes a directory that detach or sweep has claimed: the record, which shows the
// claim, after the data.
func (s *Store) erase(dir string) error {
	err := rmtree.RemovePath(filepath.Join(s.path, dir), "data")
	step.Reached("volume: data gone")
	if err == nil {
		err = rmtree.RemovePath(s.path, dir)
	}
	return storeError(err)
}

// sweep deletes what killed processes have left.
func (s *Store) sweep(ctx context.Context) error {
	if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// else a directory that is being made would look like one that was left
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	names, err := os.ReadDir(s.path)
	var errs []error
	for _, n := range names {
		if strings.HasPrefix(n.Name(), coming) { // small
			errs = append(errs, rmtree.RemovePath(s.path, n.Name()))
		}
	}
	unlock()
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), going) {
			continue
		}
		release, err := s.claim(n.Name())
		if errors.Is(err, filelock.ErrHeld) {
			continue
		}
		if err == nil {
			err = s.erase(n.Name())
			release()
		}
		errs = append(errs, err)
	}
	return storeError(errors.Join(append(errs, err)...))
}

// PruneOptions say which volumes Prune removes.
type PruneOptions struct {
	All bool // all that no sandbox has
	// also caches that no sandbox was created or started with for so long; 0: no
	Older time.Duration
	// instead caches with a key, the longest unused first, until those that are left have at most
	// so many bytes; 0: no
	Size   int64
	DryRun bool // remove nothing
}

// The caches with a key are pruned by MaxSize, at most once in trimPause. One counts as leastSize
// if it has less, so that there are 2560 at most: a key that no later sandbox has leaves one behind.
const (
	MaxSize   = 10 << 30
	trimPause = time.Hour
	leastSize = 4 << 20
)

// Due reports whether caches with a key are to be pruned by size now, and notes that they are.
// A first call only notes it. The directory exists.
func (s *Store) Due(now time.Time) bool {
	stamp := filepath.Join(s.path, trimmed)
	st, err := os.Lstat(stamp)
	if err == nil && now.Sub(st.ModTime()).Abs() < trimPause {
		return false
	}
	f, err2 := os.OpenFile(stamp, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err2 != nil || errors.Join(f.Close(), os.Chtimes(stamp, now, now)) != nil {
		return false
	}
	return err == nil
}

// excess returns the names of the caches with a key to remove, so that at most size bytes are
// left. Those that sandboxes have count, and stay.
func (s *Store) excess(entries []*Entry, size int64) map[string]bool {
	keyed := slices.DeleteFunc(slices.Clone(entries), func(e *Entry) bool { return e.Key == "" })
	slices.SortFunc(keyed, func(a, b *Entry) int { return b.UsedAt.Compare(a.UsedAt) })
	over := map[string]bool{}
	var total int64
	for _, busy := range []bool{true, false} {
		for _, e := range keyed {
			if len(e.Sandboxes) > 0 != busy {
				continue
			}
			if u, err := s.Usage(e.Name); err == nil { // else it is about to go
				total += max(u.Bytes, leastSize)
			}
			over[e.Name] = !busy && total > size
		}
	}
	return over
}

// errKept is why detach leaves a volume alone.
var errKept = errors.New("not to be pruned")

// Prune removes the volumes that no sandbox has and whose codebase no longer exists, those
// that o adds, and what killed processes have left. It returns the volumes that it has
// removed, also with an error; nil options are the zero value.
func (s *Store) Prune(ctx context.Context, o *PruneOptions) ([]*Entry, error) {
	if o == nil {
		o = &PruneOptions{}
	}
	removed := []*Entry{}
	entries, err := s.List()
	if err != nil {
		return removed, err
	}
	now := time.Now()
	over := map[string]bool{}
	if o.Size > 0 {
		over = s.excess(entries, o.Size)
	}
	check := func(e *Entry) error {
		if !over[e.Name] && (o.Size > 0 || !o.selects(e, gone(e.Codebase), now)) {
			return errKept
		}
		return nil
	}
	var errs []error
	for _, e := range entries {
		if len(e.Sandboxes) > 0 || check(e) != nil {
			continue
		}
		if !o.DryRun {
			dir, release, err := s.detach(ctx, e.Name, check)
			if errors.Is(err, errKept) || errors.Is(err, runtime.ErrConflict) || errors.Is(err, runtime.ErrNotFound) {
				continue // meanwhile
			}
			if err == nil {
				err = s.erase(dir)
				release()
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
		}
		removed = append(removed, e)
	}
	if !o.DryRun {
		errs = append(errs, s.sweep(ctx))
	}
	return removed, errors.Join(errs...)
}

// selects decides whether a volume that no sandbox has is pruned. orphan says that its
// codebase no longer exists.
func (o *PruneOptions) selects(e *Entry, orphan bool, now time.Time) bool {
	switch {
	case o.All, orphan:
		return true
	case e.Problem != "" || e.Cache == "" || o.Older <= 0:
		return false
	}
	return now.Sub(e.UsedAt) >= o.Older
}

// gone reports whether a codebase no longer exists; false for none, and if that is unknown.
func gone(codebase string) bool {
	if codebase == "" {
		return false
	}
	_, err := os.Lstat(codebase)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
