package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fields"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/sys/step"
	"wolffia/local/conns"
	"wolffia/local/defaults"
	"wolffia/local/pool"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// What is asked of pools, and what is known of them.
type (
	Pool          = pool.Pool
	PoolOptions   = pool.Options
	PooledSandbox = pool.Sandbox

	pools = pool.Manager // the part of a Runtime
)

const (
	DefaultPoolIdle = pool.DefaultIdle
	MaxPoolSize     = pool.MaxSize
)

// pooledSandboxes claims sandboxes that were started ahead, and activates them.
type pooledSandboxes struct {
	*catalog
	starter *starter
	fillers *pool.Fillers
}

// anyCodebase is the codebase of a template, and of a pooled sandbox that gets its codebase when
// it is claimed. It is never opened.
const anyCodebase = "/"

// A poolStarter starts the sandboxes of pools.
type poolStarter struct {
	*catalog
	*pooledSandboxes
	sandboxes *sandboxes
}

// Template completes the configuration of a pool, and returns it with its shape. The configuration
// need not name a codebase, unless the pooled sandboxes have their tree. ErrUnsupported: no pooled
// sandbox can serve such a configuration.
func (s poolStarter) Template(ctx context.Context, config *runtime.SandboxConfig, tree bool) (template *statedir.Config, shape string, err error) {
	if tree && config.CodebasePath == "" {
		return nil, "", runtime.Errorf(runtime.ErrInvalid, "pooled sandboxes with their tree need a codebase, and the configuration has none")
	}
	c := recordOf(config)
	// the shape does not cover its rules; a pooled sandbox compiles them ahead for the claimants
	// that have the same
	given := c.SandboxConfig
	fields.Clear(&c.SandboxConfig, fields.Claim)
	c.CodebasePath, c.NoGitMonitor = given.CodebasePath, given.NoGitMonitor
	_, release, err := s.sandboxes.completer.complete(ctx, c)
	if err != nil {
		return nil, "", err
	}
	defer release()
	c.ID, c.Env, c.Cwd, c.Permissions = "", nil, "", given.Permissions
	if !tree && c.Kubernetes == nil {
		c.CodebasePath = anyCodebase
	}
	if err := defaults.Filter(c, s.backend(c.Runtime)); err != nil {
		return nil, "", err
	}
	defaults.GitMonitor(c) // a pooled sandbox without a codebase had no filter before
	if shape = s.sandboxes.pooled.shapeOf(c); shape == "" {
		return nil, "", errNotPoolable()
	}
	if tree {
		text, err := s.rulesText.of(c)
		if err != nil {
			return nil, "", err
		}
		shape = treeShape(shape, c.CodebasePath, text)
	}
	return c, shape, nil
}

// errNotPoolable returns the error for a configuration that no pooled sandbox can serve.
func errNotPoolable() error {
	return runtime.Errorf(runtime.ErrUnsupported,
		"a sandbox of this kind cannot be started ahead: not for root, in a container engine, with a codebase in a pod, with %s, --volume, --home, a named --cache, --filter static or none, or a mount in the codebase",
		strings.Join(fields.Flags(fields.Cold), ", "))
}

// rlimits is how many kinds of limits a process has (getrlimit(2)). Its children inherit them.
const rlimits = 16

// shapeOf returns the shape of c, which is completed: the name of what a pooled sandbox must have
// been started with to serve c. It is empty if no pooled sandbox can. Beside the configuration the
// shape covers what a sandbox's processes inherit from the process that starts it.
func (s *pooledSandboxes) shapeOf(c *statedir.Config) string {
	backend := s.backend(c.Runtime)
	shape := statedir.Shape(c, !backend.Can.Has(launch.HostProcesses))
	// a pod has its codebase from the start
	if shape == "" || backend.Place == launch.Elsewhere && c.CodebasePath != "" {
		return ""
	}
	var program unix.Stat_t
	if unix.Stat(s.wolffia, &program) != nil {
		return ""
	}
	h := sha256.New()
	fmt.Fprintln(h, shape, program.Dev, program.Ino, program.Size, program.Mtim.Nano())
	hashInherited(h)
	if c.Network == runtime.NetworkFiltered { // the shim has them for the hosts of headers
		fmt.Fprintln(h, os.Getenv("SSL_CERT_FILE"), os.Getenv("SSL_CERT_DIR"))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// hashInherited writes to h what a sandbox's processes inherit from the caller: limits, niceness,
// processors and the OOM score. Go's runtime has raised the caller's own limit of open files to
// the hard one.
func hashInherited(h io.Writer) {
	for resource := range rlimits {
		var limit unix.Rlimit
		if unix.Getrlimit(resource, &limit) == nil {
			fmt.Fprintln(h, limit.Cur, limit.Max)
		}
	}
	nice, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	var processors unix.CPUSet
	_ = unix.SchedGetaffinity(0, &processors)
	score, _ := os.ReadFile("/proc/self/oom_score_adj") // proc_pid_oom_score_adj(5)
	fmt.Fprintln(h, nice, processors, string(score))
}

// treeShape returns the shape of pooled sandboxes that have their tree. It covers codebase and
// rules, which are JSON. shape is the shape of pooled sandboxes without the tree.
func treeShape(shape, codebase string, rules []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %q %s", shape, codebase, rules)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// shapesOf returns the shapes of the pooled sandboxes that can serve c, the best first.
func (s *pooledSandboxes) shapesOf(c statedir.Draft) []string {
	shape := s.shapeOf(c.Config)
	if shape == "" {
		return nil
	}
	return []string{treeShape(shape, c.CodebasePath, c.Rules), shape}
}

// Start starts a pooled sandbox for configurations of the shape of template. Both come from
// [poolStarter.Template].
func (s poolStarter) Start(ctx context.Context, template *statedir.Config, shape string, opts *pool.Options) (id string, err error) {
	c := *template
	c.ID, c.CreatedAt = runtime.NewID(), time.Now().UnixMilli()
	backend := s.backend(c.Runtime)
	if backend == nil {
		return "", runtime.Errorf(runtime.ErrInvalid, "runtime %q is not available: this runtime has %s",
			c.Runtime, strings.Join(launch.Names(s.backends), ", "))
	}
	release, err := s.sandboxes.completer.useImage(ctx, backend, &c)
	if err != nil {
		return "", err
	}
	defer release()
	s.sandboxes.tidy(ctx) // a claim does not tidy
	recorded := c
	recorded.Permissions = nil // 36 kB that no process reads: the claimant sends its rules
	rec, lock, err := s.dir.CreatePooled(&statedir.PooledRecord{Config: recorded, Shape: shape, Since: c.CreatedAt, Idle: opts.IdleTimeout.Milliseconds()})
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_, rerr := s.sandboxes.pooled.removeIncomplete(c.ID)
			err = errors.Join(err, rerr)
		}
	}()
	step.Reached("pooled: lock taken")
	if err := defaults.CanCopy(rec, &c); err != nil {
		return "", errors.Join(runtime.WithClass(runtime.ErrUnavailable, err), lock.Unlock(), lock.Close())
	}
	pooled := &boot.Pooled{IdleMS: opts.IdleTimeout.Milliseconds(), Published: rec.Pooled().PublishedPath(shape), Tree: opts.Tree}
	if opts.Shell {
		pooled.Shell = &boot.Shell{Env: defaults.Environment(&c, nil), Dir: cwd(&c, "")}
	}
	if err := s.sandboxes.starter.launch(ctx, rec, &c, lock, pooled); err != nil {
		return "", err
	}
	if err := rec.Pooled().Publish(shape); err != nil {
		return "", errors.Join(runtime.WithClass(runtime.ErrUnavailable, err), terminate(ctx, rec))
	}
	step.Reached("pooled: published")
	return c.ID, nil
}

// PooledSandboxes returns the pooled sandboxes that no Create has claimed, in no particular order.
func (s *pooledSandboxes) PooledSandboxes() ([]pool.Sandbox, error) {
	var all []pool.Sandbox
	published, err := s.dir.Published()
	if err != nil {
		return nil, err
	}
	for shape, ids := range published {
		for _, id := range ids {
			r, err := s.dir.Record(id).Pooled().Record()
			if err != nil {
				continue // it is claimed, or gone
			}
			since := time.UnixMilli(r.Since)
			left := time.Until(since.Add(time.Duration(r.Idle) * time.Millisecond))
			all = append(all, pool.Sandbox{ID: id, Shape: shape, Runtime: r.Config.Runtime, Since: since, Left: max(0, left)})
		}
	}
	return all, nil
}

// TerminatePooled terminates a pooled sandbox, and returns when its processes have ended. It does
// nothing if the sandbox was claimed, or does not exist.
func (s *pooledSandboxes) TerminatePooled(ctx context.Context, id string) error {
	if !runtime.IsID(id) {
		return runtime.Errorf(runtime.ErrInvalid, "%q is not the id of a sandbox", id)
	}
	rec := s.dir.Record(id)
	r, err := rec.Pooled().Record()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "record of pooled sandbox %s: %w", id, err)
	}
	if !rec.Pooled().Unpublish(r.Shape) {
		return nil // it is claimed
	}
	return s.discard(ctx, rec)
}

// discard terminates a pooled sandbox that this process has claimed, and removes it.
func (s *pooledSandboxes) discard(ctx context.Context, rec *statedir.Record) error {
	if err := terminate(ctx, rec); err != nil {
		return err
	}
	_, err := s.removeIncomplete(rec.ID())
	return err
}

// removeIncomplete removes what a killed process has left of a sandbox, pooled or not.
func (s *pooledSandboxes) removeIncomplete(id string) (removed bool, err error) {
	return s.dir.RemoveIncomplete(id, func(rec *statedir.Record) error {
		r, err := rec.Pooled().Record()
		if err != nil {
			r = &statedir.PooledRecord{Config: *unknownConfig()}
		}
		return errors.Join(killParts(rec, &r.Config), unlimit(rec))
	})
}

// claim makes a pooled sandbox the sandbox with the configuration c, which is completed. It
// returns nil if no pooled sandbox fits. It does not start the sandbox: Start does that.
func (s *pooledSandboxes) claim(ctx context.Context, c statedir.Draft, limits *limiting) (*runtime.Sandbox, error) {
	if !s.dir.HasPools() {
		return nil, nil
	}
	if !s.starter.volumes.Touch(c.Volumes) {
		return nil, nil // the pooled sandbox would have one that was removed
	}
	shapes := s.shapesOf(c)
	for _, shape := range shapes {
		rec, caller, err := s.dir.Claim(c, shape)
		if err != nil {
			return nil, s.abandonClaim(ctx, rec, err)
		}
		if rec == nil {
			continue
		}
		s.fillers.Claimed(shape)
		return s.created(rec, c.Config, caller, limits)
	}
	for _, shape := range shapes {
		s.fillers.Missed(shape)
	}
	return nil, nil
}

// abandonClaim terminates a pooled sandbox that was claimed for a sandbox which could not be
// recorded for the reason err. rec is nil if none was claimed. It returns err, with the error of
// the termination, if any.
func (s *pooledSandboxes) abandonClaim(ctx context.Context, rec *statedir.Record, err error) error {
	if rec != nil {
		err = errors.Join(err, s.discard(ctx, rec))
	}
	return err
}

// created returns a sandbox that is recorded, with caller as of [statedir.Dir.Create], and notes
// what its start will need.
func (s *pooledSandboxes) created(rec *statedir.Record, c *statedir.Config, caller *os.File, limits *limiting) (*runtime.Sandbox, error) {
	if caller != nil {
		s.starter.bound.Put(c.ID, caller)
	}
	s.remember(c, rec.Stamp(), limits)
	return describe(rec, c, func() (runtime.State, string, error) { return runtime.StateCreated, "", nil })
}

// startClaimed starts a sandbox whose pooled sandbox was claimed, and reports whether it did. If
// started is false, the sandbox has no pooled sandbox any more, or never had one, and is started
// like others.
func (s *pooledSandboxes) startClaimed(ctx context.Context, rec *statedir.Record, c *statedir.Config) (started bool, err error) {
	// what is in run/ of root's sandboxes is not to be trusted
	if c.DroppedUID != 0 || !rec.Pooled().IsPooled() {
		return false, nil
	}
	life, err := conns.Unexpired(rec, c)
	if err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if conn, hold, err := s.activate(rec, c, life); err == nil {
		s.starter.conns.Put(rec.ID(), conn)
		if hold != nil {
			s.starter.alive.Put(rec.ID(), hold)
		}
		step.Reached("start: ready")
		return true, nil
	}
	return false, unlessBusy(terminate(ctx, rec))
}

// activate has a pooled sandbox become the sandbox with the configuration c, and returns the
// connection to it. If the sandbox is bound to its caller, closing hold ends the sandbox.
func (s *pooledSandboxes) activate(rec *statedir.Record, c *statedir.Config, life *statedir.Lifetime) (conn *conns.Conn, hold *os.File, err error) {
	rules, err := s.rulesText.of(c)
	if err == nil && c.PrivateGit {
		err = rec.Git().Make(c)
	}
	if err != nil {
		return nil, nil, err
	}
	var files []*os.File
	defer func() { closeAll(files) }()
	for _, open := range []func() (*os.File, error){
		boot.ActivateRules:  func() (*os.File, error) { return boot.SealedFile(rules) },
		boot.ActivateConfig: rec.OpenConfig,
	} {
		f, err := open()
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	if c.BoundToCaller {
		alive, end, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		files, hold = append(files, alive), end
	}
	header := *c
	header.Permissions, header.Env = nil, nil // the shim does not use them
	if c.Kubernetes == nil {
		header.Labels = nil
	}
	sock, direct, err := requestPooled(rec, &boot.PooledRequest{Op: boot.OpActivate, Config: &header, Lifetime: life}, files...)
	if err != nil {
		_ = hold.Close() // nil is fine
		return nil, nil, err
	}
	if direct == nil {
		return conns.New(rec, sock), hold, nil
	}
	return conns.Join(sock, direct), hold, nil
}

// requestPooled sends a request to a pooled sandbox. Once the shim has agreed, it returns the
// connection to the shim, and one to PID 1, which may be nil. The caller closes both.
func requestPooled(rec *statedir.Record, r *boot.PooledRequest, files ...*os.File) (sock *rawsock.Socket, direct *os.File, err error) {
	sock, err = dialPooled(rec)
	if err != nil {
		return nil, nil, err
	}
	late := time.AfterFunc(boot.ActivateLimit, func() { _ = sock.Close() })
	defer late.Stop()
	var answer boot.Report
	if err = boot.SendPooled(sock, r, files...); err == nil {
		step.Reached("pooled: asked")
		answer, direct, err = boot.ReceivePooledAnswer(sock)
	}
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		_ = direct.Close() // nil is fine
		return nil, nil, errors.Join(err, sock.Close())
	}
	return sock, direct, nil
}

// dialPooled connects to the socket of a pooled sandbox's shim.
func dialPooled(rec *statedir.Record) (*rawsock.Socket, error) {
	path := statedir.PooledSocket(rec.Run())
	if len(path) >= len(unix.RawSockaddrUnix{}.Path) {
		dir, err := unix.Open(rec.Run(), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		defer unix.Close(dir)
		path = fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path))
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return rawsock.SocketOf(fd), nil
}

// terminate ends a pooled sandbox, and returns when its processes have ended. If the sandbox was
// claimed, its record stays, and it can be started. ErrConflict: the pooled sandbox is active, or
// the sandbox was started without it.
func terminate(ctx context.Context, rec *statedir.Record) error {
	sock, _, err := requestPooled(rec, &boot.PooledRequest{Op: boot.OpEnd})
	if err == nil {
		err = sock.Close()
	}
	if runtime.Class(err) == runtime.ErrConflict {
		return err
	}
	for end := time.Now().Add(boot.ActivateLimit); time.Now().Before(end); {
		if rec.HasSocket() { // a pooled sandbox has no such socket
			return runtime.Errorf(runtime.ErrConflict, "sandbox %s was started by another process", rec.ID())
		}
		if rec.WaitUnlocked(ctx, settleInterval) == nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return errors.Join(rec.Processes().Shim().Kill(boot.KillLimit), rec.WaitUnlocked(ctx, boot.KillLimit))
}

// ensureTerminated terminates the pooled sandbox that waits for the start of a sandbox, if there
// is one, so that the sandbox's lock says whether the sandbox runs.
func ensureTerminated(ctx context.Context, rec *statedir.Record, c *statedir.Config) error {
	if c.DroppedUID != 0 || !rec.Pooled().IsPooled() {
		return nil
	}
	return unlessBusy(terminate(ctx, rec))
}
