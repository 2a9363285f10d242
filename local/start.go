package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/cause"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/cleanup"
	"wolffia/internal/sys/step"
	"wolffia/internal/sys/userns"
	"wolffia/local/conns"
	"wolffia/local/defaults"
	"wolffia/local/kept"
	"wolffia/local/reposync"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/volume"
)

// How long a sandbox may take to start, unless the context ends first. An engine may have to
// import the image of wolffia's own first.
const (
	startLimit       = time.Minute
	engineStartLimit = 3 * time.Minute
	// Elsewhere a node may have to be added, an image pulled, and the codebase sent.
	remoteStartLimit = 10*time.Minute + boot.ReviewLimit
)

// A starter starts and stops the processes of sandboxes, and holds what lives as long as they do.
type starter struct {
	*catalog
	conns   *conns.Conns
	images  *store.Store // of backends without images of their own
	volumes *volume.Store
	gits    *reposync.Syncer

	// Of sandboxes that are bound to this process: closing a file of bound, which is
	// there from Create on, says that the process has ended; closing one of alive, which
	// is there from Start on, ends the sandbox.
	bound, alive *conns.Table[*os.File]
}

// startLimit returns how long the sandbox may take to start.
func (p *plan) startLimit() time.Duration {
	switch {
	case p.shim.Elsewhere:
		return remoteStartLimit
	case p.keeper != "":
		return engineStartLimit
	}
	return startLimit
}

// Start implements [runtime.Runtime]. A sandbox that was a pooled sandbox runs already, and is
// given what is its own.
func (s *sandboxes) Start(ctx context.Context, sandboxID string) error {
	rec, c, err := s.find(sandboxID)
	if err != nil {
		return err
	}
	if started, err := s.pooled.startClaimed(ctx, rec, c); started || err != nil {
		return err
	}
	lock, err := lockToStart(ctx, rec)
	if err != nil {
		return err
	}
	step.Reached("start: lock taken")
	// From here on, the configuration changes only together with the running sandbox.
	if _, c, err = s.find(rec.ID()); err == nil {
		err = renew(rec, c)
	}
	if err != nil {
		return errors.Join(err, lock.Unlock(), lock.Close())
	}
	return s.starter.launch(ctx, rec, c, lock, nil)
}

// ownProc returns an error if /proc has not the processes of this one's PID namespace. What is
// started there would not be found by its number, and bubblewrap would end half-way.
func ownProc() error {
	if self, _ := os.Readlink("/proc/self"); self != strconv.Itoa(os.Getpid()) {
		return runtime.Errorf(runtime.ErrUnavailable, "/proc is not that of this PID namespace: mount it with unshare --mount-proc, or mount -t proc proc /proc")
	}
	return nil
}

// launch plans what to start for a sandbox or, if pooled sandbox is not nil, for one without a
// user; launches that, and awaits that it is ready. If it fails, nothing is left. It takes over
// the lock.
func (s *starter) launch(ctx context.Context, rec *statedir.Record, c *statedir.Config, lock *statedir.Lock, pooled *boot.Pooled) (err error) {
	defer func() {
		if err != nil {
			_ = lock.Unlock() // no other process has it any more
		}
		_ = lock.Close() // shim and tree server have copies
		if errors.Is(err, runtime.ErrUnavailable) {
			err = cause.Explain("", err)
		}
	}()
	if err := ownProc(); err != nil {
		return err
	}
	life, err := conns.Unexpired(rec, c)
	if err != nil {
		return err
	}
	detach, err := s.useVolumes(ctx, c)
	if err != nil {
		return err
	}
	detach() // the record keeps them
	s.trim(c)
	_ = finishMoves(rec, c) // what stays is said when the sandbox goes
	if c.PrivateGit {
		if err := rec.Git().Make(c); err != nil {
			return err
		}
		// what cannot be put right is said when git directories arrive or the sandbox goes
		_ = s.gits.Settle(ctx, rec, c)
	}
	limits, err := s.limits(rec, c)
	if err != nil {
		return err
	}
	using, err := s.programs(c)
	defer using.close()
	if err != nil {
		return err
	}
	if using.image, err = s.lowers(ctx, c, using.set); err != nil {
		return err
	}
	p, err := s.plan(rec, c, life, limits, using.paths)
	if err != nil {
		return err
	}
	p.shim.CopyHooks = p.shim.CopyHooks && pooled == nil // a claimant has other rules
	if p.shim.Pooled = pooled; p.tree != nil && pooled != nil {
		p.tree.Pooled, p.tree.Blank = true, !pooled.Tree
	}
	if p.shim.Volumes, err = s.volumesDir(c); err != nil {
		return err
	}
	memory, err := kept.Open(rec, c)
	if err != nil {
		return err
	}
	defer closeAll(memory)
	p.shim.HasMemory = memory != nil && pooled == nil
	d, err := p.open(rec, lock, using, memory)
	defer func() { closeAll(d.all) }()
	if err != nil {
		return err
	}
	if len(p.shim.Image) > 0 {
		if p.shim.InDoubt, err = endEarlier(rec, c); err != nil {
			return err
		}
	}

	s.conns.Close(rec.ID()) // to an earlier shim, which may live on if the lock was replaced
	var undo cleanup.Stack
	defer undo.Unwind(&err)
	if !rec.HasSocket() {
		// of a shim that is ready when it is killed: the sandbox would count as dead
		undo.Add(rec.RemoveSocket)
	}
	parts, err := p.launch(rec, d, &undo)
	if err != nil {
		return err
	}
	var conn *conns.Conn // nil: it is a pooled sandbox
	if pooled == nil {
		if conn, err = conns.Early(rec, d.client, p.startLimit()); err != nil {
			return err
		}
		undo.Add(conn.Close)
	}
	if p.shim.SendsImage {
		if err := sendImage(d.image, p.shim.Image, parts.shim.PID()); err != nil {
			return err
		}
	}
	version, err := await(ctx, d.progress, p.startLimit(), func(ctx context.Context, pid int) error {
		if !p.shim.Held {
			return runtime.Errorf(runtime.ErrUnavailable, "the shim waits for limits, and the sandbox has none")
		}
		return limits.enter(ctx, rec, s.dir.Path(), parts.shim.PID(), pid, parts.servers, c.DroppedUID, d.barrier)
	})
	if err != nil && p.shim.HasMemory {
		err = fmt.Errorf("%w; wolffia stop %s gives its kept memory up", err, rec.ID())
	}
	if err != nil {
		return limits.blame(err)
	}
	step.Reached("start: ready")
	if err := parts.record(rec, p, version); err != nil {
		return err
	}
	undo.Release()
	if conn != nil {
		s.conns.Keep(rec.ID(), conn)
	}
	if p.shim.HasMemory {
		_ = kept.ForgetUsed(rec) // what stays goes with the next start
	}
	if c.BoundToCaller {
		s.alive.Put(rec.ID(), d.takeHold())
	}
	return nil
}

// renew makes of a sandbox's record what the next start needs: it gives up that the sandbox ends
// with its caller, if that has ended and the sandbox was kept all the same, and gives one of an
// earlier version git directories of its own. The caller holds the sandbox's lock.
func renew(rec *statedir.Record, c *statedir.Config) error {
	free, err := unbound(rec, c)
	if err != nil {
		return err
	}
	next := *c // others may read c meanwhile
	if !c.PrivateGit && perm.GitUnguarded(c.Permissions) != "" {
		next.GitDirs = runtime.GitInPlace
	}
	next.PrivateGit = defaults.HasPrivateGit(&next)
	next.Permissions = gitRules(&next, c.Permissions)
	if !free && c.PrivateGit == next.PrivateGit && slices.Equal(c.Permissions, next.Permissions) {
		return nil
	}
	next.BoundToCaller = c.BoundToCaller && !free
	*c = next
	return rec.SetConfig(c)
}

// unbound reports whether a sandbox that does not run was kept when the caller that it is bound to
// ended.
func unbound(rec *statedir.Record, c *statedir.Config) (bool, error) {
	switch {
	case !c.BoundToCaller:
		return false, nil
	case c.CopyOnWrite:
		state, _, err := rec.StateLocked()
		return err == nil && (state != runtime.StateCreated || rec.HasChanges()), err
	case !c.PrivateGit || reposync.Unsynced(rec, c) == "":
		return false, nil
	}
	lives, err := rec.HasCaller()
	return !lives && err == nil, err
}

// limits returns how the limits of a sandbox are to be kept, nil if there are none to keep,
// and removes what an earlier start has left of them.
func (s *starter) limits(rec *statedir.Record, c *statedir.Config) (*limiting, error) {
	planned := s.takeLimits(rec.ID())
	backend := s.backend(c.Runtime)
	if !limited(&c.SandboxConfig) || !backend.Can.Has(launch.HostCgroup) {
		return nil, nil
	}
	if err := unlimit(rec); err != nil {
		return nil, err
	}
	if planned != nil {
		return planned, nil
	}
	return planLimits(&c.SandboxConfig, backend.Can.Has(launch.OwnKernel))
}

// A plan is what a start starts.
type plan struct {
	config *statedir.Config
	shim   boot.Params
	tree   *boot.TreeParams // nil: the sandbox has no tree server
	system *boot.TreeParams // what serves /usr for root inside over the host's system; nil: nothing
	keeper string           // name of its program; empty: no engine, and so no keeper
	// elsewhere says that PID 1 runs on another machine: the shim mounts nothing, and has no
	// namespaces.
	elsewhere bool
	// backend is the path of the program that the shim's launcher gets; empty: none.
	backend string
	limits  *limiting // nil: none
}

// plan decides what a start starts. It has no effects.
func (s *starter) plan(rec *statedir.Record, c *statedir.Config, life *statedir.Lifetime, limits *limiting, use paths) (*plan, error) {
	if err := c.RequireRules(); err != nil {
		return nil, err
	}
	tag, err := rec.Processes().Tag()
	if err != nil {
		return nil, err
	}
	backend := s.backend(c.Runtime)
	p := &plan{config: c, limits: limits, elsewhere: backend.Place == launch.Elsewhere, shim: boot.Params{
		ID: rec.ID(), Tag: tag, Run: rec.Run(), Mnt: rec.Mnt(), Config: *c, Guest: use.guest,
		CopyGuest: (c.DroppedUID != 0 || use.guest == "") && backend.Can.Has(launch.ShimMounts), Can: backend.Can,
	}}
	if backend.Place != launch.BesideShim {
		p.keeper, p.shim.KeeperDir, p.shim.StateDir = backend.Keeper, rec.Engine(), s.dir.Path()
		p.shim.Elsewhere = backend.Place == launch.Elsewhere
	} else {
		p.backend, p.shim.HasBackend = use.backend, use.backend != ""
	}
	if c.Filter != runtime.FilterStatic {
		p.shim.Config.Permissions = nil // only the tree server reads them, and reading takes time
	}
	p.shim.CopyHooks = backend.Can.Has(launch.ShimMounts) && copiesHooks(c)
	p.shim.Lifetime = life
	if len(use.image) > 0 {
		p.shim.Image, p.shim.SendsImage = use.image, c.DroppedUID != 0
	}
	if limits != nil {
		p.shim.Rlimits, p.shim.Held = limits.rlimits, limits.plan != nil
	}
	if c.OverHost() {
		p.system = &boot.TreeParams{Run: rec.Run(), Rules: []byte(systemRules), Codebase: "/usr", MountPoint: "/usr", UID: c.UID, GID: c.GID, System: true}
	}
	if !c.Serves() {
		return p, nil
	}
	p.tree, err = s.treeParams(rec, c)
	p.tree.Review = p.shim.Elsewhere
	return p, err
}

// systemRules let all of /usr be read.
const systemRules = `[{"pattern":"**","level":"read"}]`

// treeParams returns what a tree server gets of a sandbox.
func (s *starter) treeParams(rec *statedir.Record, c *statedir.Config) (*boot.TreeParams, error) {
	rules, err := s.rulesText.of(c)
	return &boot.TreeParams{
		Run: rec.Run(), Rules: rules, Codebase: c.CodebasePath, MountPoint: c.MountPointOrDefault(),
		UID: c.UID, GID: c.GID, HostIDs: !s.backend(c.Runtime).Can.Has(launch.ShimMounts), RootTree: c.RootTree,
		Root: c.Root, Copied: c.CopyOnWrite, Memory: c.Resources.Memory, Disk: c.Resources.Disk, Git: boot.TreeGitOf(c),
		Ask: c.Ask, AskLimit: c.AskLimitOrDefault(),
	}, err
}

// endEarlier ends what is left of an earlier start of a sandbox on an image, and waits
// until its mounts have ended: the sandbox's changes must not be mounted twice. inDoubt says
// that the processes of that start are not recorded.
func endEarlier(rec *statedir.Record, c *statedir.Config) (inDoubt bool, err error) {
	recorded, err := rec.Processes().EndParts(boot.KillLimit)
	if err == nil && !recorded {
		// of those that still have a command line
		err = rec.Processes().KillAll(c.UID, boot.KillLimit)
	}
	if err == nil {
		err = rec.Processes().ForgetShim() // or it would be claimed for the new start's
	}
	if err != nil {
		return false, runtime.Errorf(runtime.ErrUnavailable, "end what is left of an earlier start of sandbox %s: %w", rec.ID(), err)
	}
	return !recorded, nil
}

// openLog opens the log, which is made anew, with its directory, if it was deleted. The user that
// the sandbox runs as may have replaced it: by a FIFO, whose open would block, or by a hard link
// to another file.
func openLog(rec *statedir.Record, c *statedir.Config) (*os.File, error) {
	open := func() (*os.File, error) {
		return os.OpenFile(rec.Log(), os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	}
	log, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		if err = rec.MakeRun(c); err == nil {
			log, err = open()
		}
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "log of sandbox %s: %w", rec.ID(), err)
	}
	var st unix.Stat_t
	err = unix.Fstat(int(log.Fd()), &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errors.New("not a regular file")
	case st.Nlink > 1:
		err = errors.New("has a second name")
	}
	if err != nil {
		_ = log.Close()
		return nil, runtime.Errorf(runtime.ErrUnavailable, "log of sandbox %s: %w: remove it", rec.ID(), err)
	}
	return log, nil
}

// lockToStart takes the sandbox's lock. A sandbox that runs is ErrConflict; while one starts
// or ends, it waits.
func lockToStart(ctx context.Context, rec *statedir.Record) (*statedir.Lock, error) {
	for end := time.Now().Add(boot.KillLimit); ; {
		lock, err := rec.TryLock()
		if !errors.Is(err, runtime.ErrConflict) || ctx.Err() != nil || time.Now().After(end) {
			return lock, err
		}
		state, _, serr := rec.State()
		if serr != nil || state.Runs() && connects(rec) {
			return nil, errors.Join(err, serr)
		}
		_ = rec.WaitUnlocked(ctx, settleInterval)
	}
}

// connects reports whether a shim listens on the socket. Without that, a process that takes
// the lock of a killed shim for a moment could be claimed for the shim.
func connects(rec *statedir.Record) bool {
	sock, err := conns.Dial(rec)
	if err != nil {
		return false
	}
	_ = sock.Close()
	return true
}

var errSilent = errors.New("the shim ended without a report")

// longestVersion bounds what is recorded of a version, in bytes.
const longestVersion = 64

// await reads the reports of a start, up to a limit, until the shim is ready or has failed. It
// calls held with the process that waits at the start barrier, and returns the version of the
// shim's program.
func await(ctx context.Context, progress *os.File, limit time.Duration, held func(ctx context.Context, pid int) error) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = progress.SetReadDeadline(time.Unix(0, 0)) })
	defer stop()
	doing := "start"
	lines := bufio.NewScanner(io.LimitReader(progress, 1<<20))
	for lines.Scan() {
		if f, ok := userns.Failed(lines.Bytes()); ok {
			return "", stageError(f)
		}
		var r boot.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return "", runtime.Errorf(runtime.ErrUnavailable, "malformed report of the shim: %w", err)
		}
		switch {
		case r.Ready:
			return r.Version[:min(len(r.Version), longestVersion)], nil
		case r.Err() != nil:
			return "", r.Err()
		case r.Held != 0:
			if err := held(ctx, r.Held); err != nil {
				return "", err
			}
			continue
		}
		doing = r.Step
	}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return "", fmt.Errorf("the start was given up at the step: %s: %w", doing, err)
	}
	if err := ctx.Err(); err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "the sandbox did not start and was killed; it hung here: %s (%w)", doing, err)
	}
	return "", runtime.Errorf(runtime.ErrUnavailable, "%w, at the step: %s; wolffia logs may say more", errSilent, doing)
}

// copiesHooks reports whether a sandbox has a copy of rootfs.MadeHooks: its codebase has them, and
// may be written where they may be read only.
func copiesHooks(c *statedir.Config) bool {
	if c.CodebasePath == "" {
		return false
	}
	names, err := os.ReadDir(filepath.Join(c.CodebasePath, rootfs.MadeHooks))
	if err != nil {
		return false
	}
	rules, err := perm.Compile(c.Permissions)
	if err != nil || rules.RootLevel() != perm.Write || rules.Level(rootfs.MadeHooks, true) != perm.Read {
		return false
	}
	return !slices.ContainsFunc(names, func(d fs.DirEntry) bool {
		return rules.Level(rootfs.MadeHooks+"/"+d.Name(), false) < perm.Read
	})
}
