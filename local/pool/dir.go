package pool

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// A record is what is recorded of a pool in the state directory: pools/SHAPE.json. The pool exists
// while the file does. Beside it, pools/SHAPE.claims has one byte for each sandbox that was
// claimed; its modification time is the pool's last use.
type record struct {
	Config runtime.SandboxConfig `json:"config"` // as Create has completed it
	Size   int                   `json:"size"`
	IdleMS int64                 `json:"idleMs"`
	// the shell of the first session is started ahead
	Shell bool `json:"shell,omitempty"`
	// Config's codebase is served ahead, by its rules
	Tree      bool   `json:"tree,omitempty"`
	StartedAt int64  `json:"startedAt"`         // ms since 1970
	Problem   string `json:"problem,omitempty"` // why the last refill failed
}

func (r *record) idle() time.Duration { return time.Duration(r.IdleMS) * time.Millisecond }

// over reports whether the idle timeout of a pool that was last used at used has passed.
func (r *record) over(used time.Time) bool { return time.Now().After(used.Add(r.idle())) }

// The parts of a shape's lock in pools/lock. Shapes that share a byte only wait for each other.
const (
	fillPart  = 0 // held while pooled sandboxes are started, and while the record changes
	watchPart = 1 // held by the filler, which replaces claimed sandboxes
)

const (
	poolSuffix   = ".json"
	claimsSuffix = ".claims"
)

// A dir is the directory with the records of the pools in a state directory. It need not
// exist.
type dir struct {
	state *statedir.Dir
	path  string
}

func dirOf(d *statedir.Dir) dir { return dir{d, filepath.Join(d.Path(), "pools")} }

func (d dir) record(shape string) string     { return filepath.Join(d.path, shape+poolSuffix) }
func (d dir) claimsFile(shape string) string { return filepath.Join(d.path, shape+claimsSuffix) }

// shapes returns the shapes of all pools, sorted.
func (d dir) shapes() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "list pools: %w", err)
	}
	var all []string
	for _, e := range entries {
		if shape, is := strings.CutSuffix(e.Name(), poolSuffix); is && IsShape(shape) {
			all = append(all, shape)
		}
	}
	slices.Sort(all)
	return all, nil
}

// IsShape reports whether s has the form of a shape.
func IsShape(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 16
}

// FindPool returns the shape of the pool that ref means: a shape, or a unique beginning of one.
// ErrNotFound, ErrInvalid: no pool, or several.
func (d dir) FindPool(ref string) (string, error) {
	all, err := d.shapes()
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(shape string) bool { return ref == "" || !strings.HasPrefix(shape, ref) })
	switch len(all) {
	case 0:
		return "", runtime.Errorf(runtime.ErrNotFound, "no pool %q: wolffia pool ls shows those there are", ref)
	case 1:
		return all[0], nil
	}
	return "", runtime.Errorf(runtime.ErrInvalid, "%q is the beginning of several shapes: %s", ref, strings.Join(all, ", "))
}

// read returns the record of a pool. [runtime.ErrNotFound]: there is no such pool.
func (d dir) read(shape string) (*record, error) {
	r := new(record)
	err := statefile.Read(d.record(shape), r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, runtime.Errorf(runtime.ErrNotFound, "no pool of shape %s", shape)
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "record of pool %s: %w; wolffia pool stop %s removes it", shape, err, shape)
	}
	return r, nil
}

// write makes a pool, or changes its record. The caller has its fillPart.
func (d dir) write(shape string, r *record) error {
	if err := statefile.Write(d.record(shape), r); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "record of pool %s: %w", shape, err)
	}
	return nil
}

// remove ends a pool; its sandboxes stay. A pool that does not exist is not an error.
func (d dir) remove(shape string) error {
	for _, path := range []string{d.record(shape), d.claimsFile(shape)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return runtime.Errorf(runtime.ErrUnavailable, "remove pool %s: %w", shape, err)
		}
	}
	return nil
}

// countClaim counts a claim, and reports whether the pool exists.
func (d dir) countClaim(shape string) bool {
	f, err := os.OpenFile(d.claimsFile(shape), os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	_, err = f.Write([]byte{'\n'})
	return errors.Join(err, f.Close()) == nil
}

// used returns how many sandboxes of a pool were claimed, and the time of the last claim, or else
// of the pool's start.
func (d dir) used(shape string) (claimed int64, last time.Time) {
	st, err := os.Lstat(d.claimsFile(shape))
	if err != nil {
		return 0, time.Time{}
	}
	return st.Size(), st.ModTime()
}

// renew sets the time of a pool's last use to now.
func (d dir) renew(shape string) error {
	f, err := os.OpenFile(d.claimsFile(shape), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err == nil {
		now := time.Now()
		err = errors.Join(os.Chtimes(d.claimsFile(shape), now, now), f.Close())
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "record of pool %s: %w", shape, err)
	}
	return nil
}

// ensure makes the directory.
func (d dir) ensure() error {
	if err := statedir.EnsureDir(d.path, 0o700, 0o077); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "directory of pools %s: %w", d.path, err)
	}
	return nil
}

// offset returns the byte of a part of a shape's lock.
func offset(shape string, part int64) int64 {
	b, err := hex.DecodeString(shape)
	if err != nil || len(b) < 8 {
		return part
	}
	return int64(binary.BigEndian.Uint64(b)>>2)&^1 | part
}

func (d dir) openLock() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(d.path, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lock pools: %w", err)
	}
	return f, nil
}

// lock takes the fillPart of a shape's lock as soon as it is free.
func (d dir) lock(ctx context.Context, shape string) (release func(), err error) {
	return d.wait(ctx, shape, fillPart)
}

// awaitFiller waits until the filler of a pool that was removed has ended.
func (d dir) awaitFiller(ctx context.Context, shape string) error {
	release, err := d.wait(ctx, shape, watchPart)
	if err == nil {
		release()
	}
	return err
}

// wait takes a part of a shape's lock as soon as it is free.
func (d dir) wait(ctx context.Context, shape string, part int64) (release func(), err error) {
	f, err := d.openLock()
	if err != nil {
		return nil, err
	}
	if release, err = filelock.Wait(ctx, f, unix.F_WRLCK, offset(shape, part), 1); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lock pool %s: %w", shape, err)
	}
	return release, nil
}

// try takes a part of a shape's lock. filelock.ErrHeld: another process, or another goroutine
// of this one, has it.
func (d dir) try(shape string, part int64) (release func(), err error) {
	f, err := d.openLock()
	if err != nil {
		return nil, err
	}
	return filelock.Try(f, offset(shape, part), 1)
}

// watched reports whether a filler runs, in this process or another one.
func (d dir) watched(shape string) bool {
	f, err := d.openLock()
	if err != nil {
		return false
	}
	defer f.Close()
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: offset(shape, watchPart), Len: 1}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l) == nil && l.Type != unix.F_UNLCK
}
