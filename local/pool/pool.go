// Package pool keeps pools of sandboxes that were started ahead, which other packages start or claim.
package pool

import (
	"context"
	"errors"
	"maps"
	"math"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/filelock"
	"wolffia/runtime"
)

const (
	// DefaultIdle is how long a pool lives without use if Options do not say.
	DefaultIdle = 30 * time.Minute
	// MaxSize is the largest size of a pool.
	MaxSize = 1000
)

// Options are the options of a pool.
type Options struct {
	// Size is how many pooled sandboxes the pool keeps ready: 1 to MaxSize.
	Size int
	// IdleTimeout is how long a pooled sandbox waits for its user, and how long the pool lives
	// after its last use. 0 means DefaultIdle. It is at least a second.
	IdleTimeout time.Duration
	// Shell has each pooled sandbox start the shell of its first session ahead: bash, if the
	// sandbox has it. A session with the pool's environment and working directory gets it. A
	// process that starts before any session ends it.
	Shell bool
	// Tree has each pooled sandbox serve its codebase by its rules before it is claimed, and fill
	// the kernel's caches: the first use of a large tree is as fast as the second. The
	// configuration must then name the codebase, and codebase and rules are a part of the pool's
	// shape. A pooled sandbox takes 1 to 2 kB of memory for each name in the codebase.
	Tree bool
}

// A Pool keeps a number of sandboxes that were started ahead. Create claims one of them for each
// configuration of the pool's shape.
type Pool struct {
	Shape   string                // names the pool: sixteen of 0-9a-f
	Runtime string                // name of the backend
	Config  runtime.SandboxConfig // that the pool was started with, completed
	Size    int                   // how many it keeps ready
	Ready   int                   // how many are ready now
	Claimed int64                 // how many were claimed since the pool was started
	// IdleTimeout, which is never 0, Shell and Tree are as in Options.
	IdleTimeout time.Duration
	Shell, Tree bool
	StartedAt   time.Time
	UsedAt      time.Time // of the last claim, or else StartedAt
	Problem     string    // why the last refill failed; empty: it did not
}

// EndsAt returns when the pool ends if no sandbox is claimed before.
func (p *Pool) EndsAt() time.Time { return p.UsedAt.Add(p.IdleTimeout) }

// A Sandbox is a sandbox that was started ahead, and that no Create has claimed.
type Sandbox struct {
	ID      string
	Shape   string        // of the configurations that it serves
	Runtime string        // name of its backend
	Since   time.Time     // when it was started
	Left    time.Duration // until its idle timeout ends it, unless it is claimed
}

// A Starter starts pooled sandboxes.
type Starter interface {
	// Template completes the configuration of a pool, and returns it with its shape.
	Template(ctx context.Context, config *runtime.SandboxConfig, tree bool) (template *statedir.Config, shape string, err error)
	// Start starts a pooled sandbox for configurations of the shape of template.
	Start(ctx context.Context, template *statedir.Config, shape string, opts *Options) (id string, err error)
	// PooledSandboxes returns those that no Create has claimed, of all shapes.
	PooledSandboxes() ([]Sandbox, error)
	// TerminatePooled terminates one, unless it was claimed.
	TerminatePooled(ctx context.Context, id string) error
}

// A Manager starts, fills and stops the pools of a state directory. It is safe for concurrent use.
type Manager struct {
	dir
	starter Starter
}

// New returns the pools of a state directory, whose sandboxes starter starts.
func New(d *statedir.Dir, starter Starter) *Manager { return &Manager{dirOf(d), starter} }

// List returns the pools of a state directory, sorted by shape. It removes those whose idle
// timeout is over.
func List(d *statedir.Dir) ([]*Pool, error) { return dirOf(d).Pools() }

// StartPool starts a pool of sandboxes of config's shape, and returns when they are ready. A
// process of its own, the filler, replaces claimed sandboxes until the pool was not used for its
// idle timeout, or StopPool ends the pool. The Runtime that claims a sandbox, or finds none ready,
// starts the filler. A pool of this shape that exists gets the new options. Its sandboxes with
// other options, and those with less than half of their time left, are replaced.
//
// Settings that a claim sets do not matter: labels, name, environment, working directory and
// lifetime; without opts.Tree also rules and codebase, which may be missing. After an error there
// is no pool. ErrUnsupported: sandboxes of this configuration cannot be started ahead; the error
// says why. ErrInvalid: the options are out of range.
func (s *Manager) StartPool(ctx context.Context, config *runtime.SandboxConfig, opts Options) (*Pool, error) {
	if opts.Size < 1 || opts.Size > MaxSize {
		return nil, runtime.Errorf(runtime.ErrInvalid, "a pool of %d pooled sandboxes: it must be 1 to %d", opts.Size, MaxSize)
	}
	if opts.IdleTimeout == 0 {
		opts.IdleTimeout = DefaultIdle
	}
	if opts.IdleTimeout < time.Second || opts.IdleTimeout > math.MaxInt64/2 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "idle timeout %v of a pool: it must be at least 1s", opts.IdleTimeout)
	}
	template, shape, err := s.starter.Template(ctx, config, opts.Tree)
	if err != nil {
		return nil, err
	}
	d := s.dir
	if err := d.ensure(); err != nil {
		return nil, err
	}
	release, err := d.lock(ctx, shape)
	if err != nil {
		return nil, err
	}
	r := &record{Config: template.SandboxConfig, Size: opts.Size, IdleMS: opts.IdleTimeout.Milliseconds(), Shell: opts.Shell, Tree: opts.Tree, StartedAt: time.Now().UnixMilli()}
	if !opts.Tree {
		r.Config.CodebasePath = "" // any
	}
	before, _ := d.read(shape)
	if err = d.renew(shape); err == nil {
		err = d.write(shape, r)
	}
	if err == nil {
		err = s.terminateOutdated(ctx, shape, before, r)
	}
	if err == nil {
		err = s.fill(ctx, shape, goruntime.GOMAXPROCS(0), nil)
	}
	release()
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPoolLimit)
		defer cancel()
		return nil, errors.Join(err, s.stopPool(undo, shape))
	}
	return s.pool(shape)
}

// StartPooled starts a pooled sandbox for configurations like config, which need not name a
// codebase, and returns its ID. The first [runtime.Runtime].Create with such a configuration claims it;
// until then it is not a sandbox. Unclaimed, it ends after the time idle. ErrUnsupported: such a
// sandbox cannot be started ahead.
func (s *Manager) StartPooled(ctx context.Context, config *runtime.SandboxConfig, idle time.Duration) (id string, err error) {
	template, shape, err := s.starter.Template(ctx, config, false)
	if err != nil {
		return "", err
	}
	return s.starter.Start(ctx, template, shape, &Options{IdleTimeout: idle})
}

// PoolShape returns the shape of the pool that StartPool makes of the same arguments. It starts
// nothing. ErrUnsupported: such sandboxes cannot be started ahead.
func (s *Manager) PoolShape(ctx context.Context, config *runtime.SandboxConfig, opts Options) (shape string, err error) {
	_, shape, err = s.starter.Template(ctx, config, opts.Tree)
	return shape, err
}

// Pools returns the pools of the state directory, sorted by shape. It removes those whose idle
// timeout is over.
func (d dir) Pools() ([]*Pool, error) {
	shapes, err := d.shapes()
	if err != nil {
		return nil, err
	}
	var all []*Pool
	for _, shape := range shapes {
		p, err := d.pool(shape)
		switch {
		case errors.Is(err, runtime.ErrNotFound):
			continue
		case err != nil:
			p = &Pool{Shape: shape, Problem: err.Error()}
		case time.Now().After(p.EndsAt()) && d.expire(shape):
			continue
		}
		all = append(all, p)
	}
	return all, nil
}

func (d dir) pool(shape string) (*Pool, error) {
	r, err := d.read(shape)
	if err != nil {
		return nil, err
	}
	p := &Pool{
		Shape: shape, Runtime: r.Config.Runtime, Config: r.Config, Size: r.Size, IdleTimeout: r.idle(), Shell: r.Shell, Tree: r.Tree,
		StartedAt: time.UnixMilli(r.StartedAt), Problem: r.Problem,
	}
	if p.Claimed, p.UsedAt = d.used(shape); p.UsedAt.Before(p.StartedAt) {
		p.UsedAt = p.StartedAt
	}
	ready, err := d.state.PublishedOf(shape)
	if err != nil {
		return nil, err
	}
	p.Ready = len(ready)
	return p, nil
}

// expire removes a pool whose idle timeout is over, and reports whether it did.
func (d dir) expire(shape string) bool {
	release, err := d.try(shape, fillPart)
	if err != nil {
		return false
	}
	defer release()
	r, err := d.read(shape)
	if err != nil {
		return false
	}
	_, used := d.used(shape)
	return r.over(used) && d.remove(shape) == nil
}

// stopPoolLimit is how long StartPool may take to undo what it did.
const stopPoolLimit = 30 * time.Second

// StopPool ends the pools of these shapes, and terminates their sandboxes; without shapes, all
// pools and all pooled sandboxes. Sandboxes that are claimed meanwhile stay. It returns when all
// processes of the pools have ended. A pool that does not exist is not an error.
func (s *Manager) StopPool(ctx context.Context, shapes ...string) error {
	var errs []error
	if len(shapes) == 0 {
		var err error
		if shapes, err = s.shapes(); err != nil {
			return err
		}
		published, err := s.state.Published() // also of pools that have ended
		shapes, errs = slices.AppendSeq(shapes, maps.Keys(published)), append(errs, err)
	}
	done := map[string]bool{}
	for _, shape := range shapes {
		if IsShape(shape) && !done[shape] {
			done[shape] = true
			errs = append(errs, s.stopPool(ctx, shape))
		}
	}
	return errors.Join(errs...)
}

func (s *Manager) stopPool(ctx context.Context, shape string) error {
	d := s.dir
	if err := d.remove(shape); err != nil { // first, so that a filler starts no more
		return err
	}
	if err := d.ensure(); err != nil {
		return err
	}
	release, err := d.lock(ctx, shape)
	if err != nil {
		return err
	}
	if err := d.remove(shape); err != nil { // a filler may have written it again
		release()
		return err
	}
	ids, err := s.state.PublishedOf(shape)
	err = errors.Join(err, s.terminateAll(ctx, ids))
	release() // first: a filler that has read the record before it was removed waits for this lock
	return errors.Join(err, d.awaitFiller(ctx, shape))
}

// terminateAll terminates pooled sandboxes, several at a time. It goes through all of them, also
// after an error.
func (s *Manager) terminateAll(ctx context.Context, ids []string) error {
	failed := make([]error, len(ids))
	_ = SideBySide(len(ids), goruntime.GOMAXPROCS(0), func(i int) error {
		failed[i] = s.starter.TerminatePooled(ctx, ids[i])
		return nil
	})
	return errors.Join(failed...)
}

// terminateOutdated terminates the sandboxes of a pool that was started again with other options,
// and those that have less than half of their time left. before is nil if the pool is new.
func (s *Manager) terminateOutdated(ctx context.Context, shape string, before, now *record) error {
	if before == nil {
		return nil
	}
	all, err := s.starter.PooledSandboxes()
	if err != nil {
		return err
	}
	changed := before.Shell != now.Shell || before.IdleMS != now.IdleMS
	var ids []string
	for _, pooled := range all {
		if pooled.Shape == shape && (changed || pooled.Left < now.idle()/2) {
			ids = append(ids, pooled.ID)
		}
	}
	return s.terminateAll(ctx, ids)
}

// fill starts or terminates pooled sandboxes until the pool has its size. It uses so many workers,
// and calls pause before each start if pause is not nil. A pool that does not exist is not an
// error. The caller has the pool's fillPart.
func (s *Manager) fill(ctx context.Context, shape string, workers int, pause func() error) error {
	r, err := s.read(shape)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	have, err := s.state.PublishedOf(shape)
	if err != nil {
		return err
	}
	if len(have) > r.Size {
		return s.terminateAll(ctx, have[r.Size:])
	}
	if len(have) == r.Size {
		return nil
	}
	template, now, err := s.starter.Template(ctx, &r.Config, r.Tree)
	if err != nil {
		return err
	}
	if now != shape {
		return runtime.Errorf(runtime.ErrConflict, "pool %s: the host or the version of wolffia has changed since the pool was started: wolffia pool stop %s, and start it again", shape, shape)
	}
	return SideBySide(r.Size-len(have), workers, func(int) error {
		if pause != nil {
			if err := pause(); err != nil {
				return err
			}
		}
		if _, err := s.read(shape); errors.Is(err, runtime.ErrNotFound) {
			return nil // the pool was stopped meanwhile
		}
		_, err := s.starter.Start(ctx, template, shape, &Options{IdleTimeout: r.idle(), Shell: r.Shell, Tree: r.Tree})
		return err
	})
}

// SideBySide calls f for 0 to n-1, by so many goroutines, until one call fails. It returns the
// first error when all calls have returned.
func SideBySide(n, workers int, f func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range min(n, workers) {
		all.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// refill fills a pool for a filler, while a processor is idle, and records why it failed.
func (s *Manager) refill(ctx context.Context, shape string) error {
	d := s.dir
	release, err := d.lock(ctx, shape)
	if err != nil {
		return err
	}
	defer release()
	failed := s.fill(ctx, shape, 1, func() error { return waitForIdleCPU(ctx) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r, err := d.read(shape)
	if err != nil {
		return failed
	}
	problem := ""
	if failed != nil {
		problem = failed.Error()
	}
	if problem != r.Problem || failed != nil { // also for the time of the failure: fillers.missed
		r.Problem = problem
		return errors.Join(failed, d.write(shape, r))
	}
	return failed
}

// unlessHeld returns err, or nil if err says that another process has a lock.
func unlessHeld(err error) error {
	if errors.Is(err, filelock.ErrHeld) {
		return nil
	}
	return err
}

// keepRetry is how long after a failure KeepPool tries again.
const keepRetry = time.Minute

// KeepPool is StartPool for a program that lives long: the pool lasts until ctx ends, used or not.
// Then KeepPool ends the pool, and returns when all its processes have ended. If a start fails, it
// calls failed with the reason, unless failed is nil, and tries again a minute later. It returns
// an error that another try would not mend.
func (s *Manager) KeepPool(ctx context.Context, config *runtime.SandboxConfig, opts Options, failed func(error)) error {
	shape := ""
	for ctx.Err() == nil {
		wait := keepRetry
		p, err := s.StartPool(ctx, config, opts)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, runtime.ErrUnsupported), errors.Is(err, runtime.ErrInvalid):
			return err
		case err != nil:
			if failed != nil {
				failed(err)
			}
		default:
			shape, wait = p.Shape, s.untilNextEnds(p)
		}
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
		}
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPoolLimit)
	defer cancel()
	if shape == "" { // no StartPool has succeeded, but an older pool may exist
		var err error
		if shape, err = s.PoolShape(undo, config, opts); err != nil {
			return err
		}
	}
	return s.StopPool(undo, shape)
}

// untilNextEnds returns how long it takes until the idle timeout has ended a sandbox of a pool.
func (s *Manager) untilNextEnds(p *Pool) time.Duration {
	wait := p.IdleTimeout
	all, err := s.starter.PooledSandboxes()
	if err != nil {
		return min(wait, keepRetry)
	}
	for _, pooled := range all {
		if pooled.Shape == p.Shape {
			wait = min(wait, pooled.Left)
		}
	}
	return max(0, wait) + time.Second // so that it has ended
}
