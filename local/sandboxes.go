package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/audit"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/local/conns"
	"wolffia/local/defaults"
	"wolffia/local/kept"
	"wolffia/local/pool"
	"wolffia/local/reposync"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// sandboxes is the part of a Runtime that creates, starts, stops, lists and removes sandboxes.
type sandboxes struct {
	*catalog
	engines   *engines
	completer *completer
	starter   *starter
	reviews   *reviews
	pooled    *pooledSandboxes
	gits      *reposync.Syncer
	log       *slog.Logger // may be nil
}

// StateDir returns the absolute path of the state directory.
func (s *sandboxes) StateDir() string { return s.dir.Path() }

// Binary returns the absolute path of the wolffia program, which is started for each sandbox.
func (s *sandboxes) Binary() string { return s.wolffia }

// Name implements [runtime.Runtime].
func (s *sandboxes) Name() string { return s.backends[0].Name() }

// Create implements [runtime.Runtime].
func (s *sandboxes) Create(ctx context.Context, config *runtime.SandboxConfig) (*runtime.Sandbox, error) {
	return s.create(ctx, config, nil)
}

// create is Create; fill is as for statedir.Dir.Create. A sandbox with a fill was not started ahead.
func (s *sandboxes) create(ctx context.Context, config *runtime.SandboxConfig, fill func(*statedir.Record) error) (*runtime.Sandbox, error) {
	c := recordOf(config)
	limits, release, err := s.completer.complete(ctx, c)
	if err != nil {
		return nil, err
	}
	defer release()
	rules, err := s.rulesText.of(c)
	if err != nil {
		return nil, err
	}
	draft := statedir.Draft{Config: c, Rules: rules}
	claim := func() (*runtime.Sandbox, error) { return s.pooled.claim(ctx, draft, limits) }
	if config.ID != "" {
		claim = func() (*runtime.Sandbox, error) { return s.pooled.claimReserved(ctx, draft, limits) }
	}
	if fill == nil {
		if sandbox, err := claim(); sandbox != nil || err != nil {
			return sandbox, err
		}
	}
	if err := s.starter.checkPrograms(c); err != nil {
		return nil, err
	}
	s.tidy(ctx) // a name may become free
	detach, err := s.starter.useVolumes(ctx, c)
	if err != nil {
		return nil, err
	}
	defer detach()
	rec, caller, err := s.dir.Create(draft, func(rec *statedir.Record) error {
		if err := defaults.CanCopy(rec, c); err != nil || fill == nil {
			return err
		}
		return fill(rec)
	})
	if err != nil {
		return nil, err
	}
	step.Reached("create: done")
	return s.pooled.created(rec, c, caller, limits)
}

// Stop implements [runtime.Runtime].
func (s *sandboxes) Stop(ctx context.Context, sandboxID string) error {
	rec, c, err := s.header(sandboxID)
	if err != nil {
		return err
	}
	if statedir.PauseOf(rec.Run()).SinceMS > 0 { // else git inside could not be asked, and no program would end by itself
		_ = conns.AskPause(ctx, rec, boot.OpResume)
	}
	s.gits.BeforeStop(ctx, rec, c)
	if err := s.takeChanges(ctx, rec, c); err != nil {
		return err
	}
	if err := s.starter.stop(ctx, rec, c, boot.StopGrace); err != nil || !limited(&c.SandboxConfig) && !kept.Exists(rec) {
		return err
	}
	lock, err := rec.TryLock()
	if err != nil {
		return nil // destroyed or started again meanwhile
	}
	if limited(&c.SandboxConfig) {
		err = unlimit(rec)
	}
	return errors.Join(err, kept.Forget(rec), lock.Unlock(), lock.Close())
}

// takeChanges takes the changes of a sandbox that has a copy of its codebase elsewhere, which ends
// with it.
func (s *sandboxes) takeChanges(ctx context.Context, rec *statedir.Record, c *statedir.Config) error {
	backend := s.backend(c.Runtime)
	if backend == nil || backend.Place != launch.Elsewhere || !c.CopyOnWrite {
		return nil
	}
	if state, _, err := rec.State(); err != nil || !state.Runs() {
		return err
	}
	take := boot.Request{Op: boot.OpReview, Review: &boot.Review{Do: boot.ReviewExchange}}
	_, err := conns.AskWith(ctx, rec, &take, nil, boot.ReviewLimit)
	if err != nil && connects(rec) {
		return fmt.Errorf("%w: stop would lose its changes since the last diff; wolffia rm -f gives them up", err)
	}
	return nil
}

// lateLimit is how long Destroy continues once its caller's context has ended.
const lateLimit = 10 * time.Second

// later returns a context that ends lateLimit after ctx does. The caller calls release.
func later(ctx context.Context) (_ context.Context, release func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { // ends with the call, too
		select {
		case <-time.After(lateLimit):
			cancel()
		case <-late.Done():
		}
	})
	return late, func() {
		stop()
		cancel()
	}
}

// Destroy implements [runtime.Runtime].
func (s *sandboxes) Destroy(ctx context.Context, sandboxID string) error {
	ctx, cancel := later(ctx)
	defer cancel()
	rec, c, err := s.header(sandboxID)
	switch {
	case err == nil:
	case errors.Is(err, runtime.ErrUnavailable) && runtime.IsID(sandboxID):
		rec, c = s.dir.Record(sandboxID), unknownConfig() // its processes still name the sandbox
	case errors.Is(err, runtime.ErrNotFound) && runtime.IsID(sandboxID):
		if lost, lerr := s.engines.destroyLost(ctx, sandboxID); lost {
			return lerr
		}
		s.tidy(ctx) // it may be half removed
		return errors.Join(err, s.dir.KillLost(sandboxID, boot.KillLimit))
	default:
		return err
	}
	if err := rec.RenewLock(); err != nil {
		return err
	}
	if err := s.starter.stop(ctx, rec, c, 0); err != nil {
		return err
	}
	if !rec.Pooled().WasPooled() { // who replaces it tidies
		defer s.tidy(ctx)
	}
	step.Reached("destroy: stopped")
	settled, err := rec.LockConfig(ctx, boot.KillLimit)
	if err != nil {
		return err
	}
	defer settled()
	lock, release, err := s.lockStopped(ctx, rec, c)
	if err != nil {
		return err
	}
	defer release()
	step.Reached("destroy: locks taken")
	unfinished := errors.Join(s.reviews.finishApply(ctx, rec, c, lock), finishMoves(rec, c), s.gits.Settle(ctx, rec, c))
	if unfinished != nil && (ctx.Err() != nil || runtime.Exhausted(unfinished)) {
		return unfinished // the next call may succeed
	}
	if err := s.engines.clean(ctx, rec, c); err != nil {
		return err
	}
	s.forget(rec.ID())
	s.gits.Forget(rec.ID())
	s.starter.bound.Close(rec.ID())
	return errors.Join(kept.Wake(rec), rec.Remove(), unfinished)
}

// lockStopped takes the lock of a sandbox that was stopped, so that no process starts it, and stops
// what another process has started meanwhile. release unlocks it. lock is for finishApply; nil
// without a copied codebase: it takes another descriptor, and who has few may have none left.
func (s *sandboxes) lockStopped(ctx context.Context, rec *statedir.Record, c *statedir.Config) (lock *statedir.Lock, release func(), err error) {
	for end := time.Now().Add(boot.KillLimit); ; {
		if c.CopyOnWrite {
			lock, err = rec.TryLock()
			release = func() { _ = errors.Join(lock.Unlock(), lock.Close()) }
		} else {
			release, err = rec.TryLockAll()
		}
		if !errors.Is(err, runtime.ErrConflict) || time.Now().After(end) {
			return lock, release, err
		}
		if err := s.starter.stop(ctx, rec, c, 0); err != nil {
			return nil, nil, err
		}
	}
}

// unknownConfig stands for a configuration that is damaged: it has no ID.
func unknownConfig() *statedir.Config { return &statedir.Config{UID: os.Geteuid()} }

// Get implements [runtime.Runtime].
func (s *sandboxes) Get(_ context.Context, sandboxID string) (*runtime.Sandbox, error) {
	rec, c, err := s.header(sandboxID)
	if err != nil {
		return nil, err
	}
	return describe(rec, c, rec.State)
}

// List implements [runtime.Runtime].
func (s *sandboxes) List(ctx context.Context) ([]*runtime.Sandbox, error) {
	ids, err := s.dir.IDs()
	if err != nil {
		return nil, err
	}
	looked := make([]*found, len(ids))
	// a configuration has tens of kB of rules
	if err := pool.SideBySide(len(ids), goruntime.GOMAXPROCS(0), func(i int) (err error) {
		rec := s.dir.Record(ids[i])
		removeStale(filepath.Join(statedir.Cow(rec.Run()), statedir.CowSnapshots))
		looked[i], err = s.look(rec, rec.State)
		return err
	}); err != nil {
		return nil, err
	}
	all := []*runtime.Sandbox{}
	for i, id := range ids {
		f := looked[i]
		if f.reapable(time.Now()).unasked() {
			// What is over is about to go, even if another process still uses it.
			if p, err := s.reap(ctx, id, reason.unasked); p != nil || err == nil && f.expired != "" {
				continue
			}
		}
		if f.sandbox != nil {
			all = append(all, f.sandbox)
		}
	}
	slices.SortFunc(all, func(a, b *runtime.Sandbox) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// describe returns what is known of the sandbox of rec; state returns what it does.
func describe(rec *statedir.Record, c *statedir.Config, state func() (runtime.State, string, error)) (*runtime.Sandbox, error) {
	is, why, err := state()
	if err != nil {
		return nil, err
	}
	s := outline(rec, c)
	s.State, s.Reason, s.IdleAction, s.Ask = is, why, c.IdleAction, c.Ask
	if is == runtime.StateDead {
		letDie(rec)
	}
	s.WakesOnUse = is == runtime.StatePaused && statedir.PauseOf(rec.Run()).Idle ||
		is == runtime.StateHibernated
	life, err := rec.Lifetime(c)
	if err != nil {
		return nil, err
	}
	if life != nil {
		now := statedir.Now()
		s.ExpiresAt, s.IdleTimeout, s.Expired = life.Deadline(now), life.IdleTimeout(), rec.Expired(life, now)
		s.Reason = cmp.Or(s.Reason, s.Expired.Reason())
	}
	return s, nil
}

// outline returns what the configuration says of the sandbox of rec.
func outline(rec *statedir.Record, c *statedir.Config) *runtime.Sandbox {
	return &runtime.Sandbox{
		ID: rec.ID(), Name: c.Name, Runtime: c.Runtime,
		Labels: maps.Clone(c.Labels), CreatedAt: time.UnixMilli(c.CreatedAt),
		CodebaseID: c.CodebaseID, CodebasePath: c.CodebasePath, Filter: defaults.FilterOf(c), CopyOnWrite: c.CopyOnWrite, Elsewhere: c.Kubernetes != nil, Image: c.Image, MountPoint: c.MountPointOrDefault(),
		Network: defaults.NetworkOf(c), UID: c.UID, GID: c.GID, Root: c.Root, RunAs: userOf(c.RunAs),
		User: c.User, Home: cmp.Or(c.Env["HOME"], rootfs.Home(c)), Resources: c.Resources,
	}
}

// Details are all that is known of a sandbox.
type Details struct {
	runtime.Sandbox
	Config runtime.SandboxConfig // as Create has completed it: the caller's own copy
	// Version is that of the program that a running sandbox's shim runs; "" if it is unknown.
	Version string
	Tree    *TreeState           // nil unless the sandbox runs and has a codebase
	Limits  *runtime.LimitsState // nil unless the sandbox runs and has limits
}

// Inspect returns all that is known of a sandbox. It waits a few seconds at most for the
// answer of one that runs.
func (s *sandboxes) Inspect(ctx context.Context, sandboxID string) (*Details, error) {
	rec, c, err := s.find(sandboxID)
	if err != nil {
		return nil, err
	}
	if err := c.RequireRules(); err != nil {
		return nil, err
	}
	sandbox, err := describe(rec, c, rec.State)
	if err != nil {
		return nil, err
	}
	d := &Details{Sandbox: *sandbox, Config: apartFrom(&c.SandboxConfig)}
	if d.State.Runs() {
		d.Limits, d.Version = s.limitsState(rec, c), rec.Processes().ShimVersion()
		if c.CodebasePath != "" && c.Filter != runtime.FilterNone {
			d.Tree = treeState(ctx, rec, c)
		}
	}
	return d, nil
}

// DiskUsage returns how many bytes of the disk a sandbox's directory in the state directory takes:
// its changes of the codebase, its home, its logs. What the caller cannot read, such as the files
// of other users inside with Root, counts as 0. all is false if ctx ended before all was counted,
// or if a tree is too deep.
func (s *sandboxes) DiskUsage(ctx context.Context, sandboxID string) (bytes int64, all bool, err error) {
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return 0, false, err
	}
	return rec.DiskUsage(ctx)
}

// Version returns the version of wolffia that has started a running sandbox; "": it is unknown.
func (s *sandboxes) Version(sandboxID string) string {
	return s.dir.Record(sandboxID).Processes().ShimVersion()
}

// Log opens the log of a sandbox's shim, guest and backend. The caller closes it. Its
// content is hostile: quote it before printing.
func (s *sandboxes) Log(sandboxID string) (*os.File, error) {
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(rec.Log(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, runtime.Errorf(runtime.ErrNotFound, "sandbox %s has no log: it was deleted, and the next start makes one", rec.ID())
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "log of sandbox %s: %w", rec.ID(), err)
	}
	return f, nil
}

// Audit opens the logs of the accesses that a sandbox's tree has denied and of what its network
// has refused, whether the sandbox runs or not. What a running one denied before the call is in
// the log, unless the disk takes longer than a second or the process that writes does not answer.
// alive names a file that exists as long as the sandbox does, for [audit.Logs.Follow]. The caller
// closes the logs.
func (s *sandboxes) Audit(ctx context.Context, sandboxID string) (log *audit.Logs, alive string, err error) {
	rec, c, err := s.header(sandboxID)
	if err != nil {
		return nil, "", err
	}
	if c.Serves() || c.Network == runtime.NetworkFiltered {
		// without an answer the log is as it is
		_, _ = conns.Ask(ctx, rec, &boot.Request{Op: boot.OpAudit}, boot.StatsLimit+time.Second)
	}
	log, err = audit.OpenAll(statedir.Audit(rec.Run()), statedir.NetworkAudit(rec.Run()))
	if err != nil {
		return nil, "", runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", rec.ID(), err)
	}
	return log, rec.ConfigFile(), nil
}
