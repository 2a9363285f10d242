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
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A PooledSandbox is a sandbox that was started ahead, and has no user yet.
type PooledSandbox struct {
	ID      string
	Shape   string        // of the configurations that it serves
	Runtime string        // name of its backend
	Since   time.Time     // when it was started
	Left    time.Duration // until it ends by itself, unless it is taken
}

// pooledSandboxes gives sandboxes that were started ahead to their users.
type pooledSandboxes struct {
	*catalog
	starter *starter
	fillers *fillers
}

// anyCodebase is the codebase of a template and of a spare that gets one when it is taken. It is never opened.
const anyCodebase = "/"

// template completes a configuration that a pool was asked for, and returns it with its shape. The
// configuration need not name a codebase, unless its spares are to have their tree. ErrUnsupported: no spare can serve such a configuration.
func (s *pools) template(ctx context.Context, config *runtime.SandboxConfig, tree bool) (template *statedir.Config, shape string, err error) {
	if tree && config.CodebasePath == "" {
		return nil, "", runtime.Errorf(runtime.ErrInvalid, "spares with their tree need a codebase, and the configuration has none")
	}
	c := recordOf(config)
	given := c.SandboxConfig // its rules are not a part of the shape: those that most takers have, which a spare compiles ahead
	fields.Clear(&c.SandboxConfig, fields.Claim)
	c.CodebasePath, c.NoGitMonitor = given.CodebasePath, given.NoGitMonitor
	_, release, err := s.sandboxes.completer.complete(ctx, c)
	if err != nil {
		return nil, "", err
	}
	defer release()
	c.ID, c.Env, c.Cwd, c.Permissions = "", nil, "", given.Permissions
	if !tree {
		c.CodebasePath = anyCodebase
	}
	if err := completeFilter(c, s.backend(c.Runtime)); err != nil {
		return nil, "", err
	}
	monitorGit(c) // a spare without a codebase had no filter before
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

// errNotPoolable is the error for a configuration that no spare can serve.
func errNotPoolable() error {
	return runtime.Errorf(runtime.ErrUnsupported,
		"a sandbox of this kind cannot be started ahead: not for root, in a container engine, with %s, --filter static or none, or a mount in the codebase",
		strings.Join(fields.Flags(fields.Cold), ", "))
}

// rlimits is how many kinds of limits a process has (getrlimit(2)), which what it starts inherits.
const rlimits = 16

// shapeOf returns the name of what a spare must have been started with to serve c, which is completed; empty:
// none can. Beside the configuration that is what a sandbox's processes have of the one that starts it.
func (s *pooledSandboxes) shapeOf(c *statedir.Config) string {
	shape := statedir.Shape(c, !s.backend(c.Runtime).Can.Has(launch.HostProcesses))
	if shape == "" {
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

// hashInherited writes to h what a process inherits from the one that starts it, and a sandbox's processes so from the caller: limits,
// niceness, processors and how soon the kernel kills it for want of memory. Go's runtime has raised the caller's own limit of open files to the hard one.
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

// treeShape returns the shape of spares that have their tree: codebase and rules, which are JSON, are a part of it then. shape is that of
// spares without.
func treeShape(shape, codebase string, rules []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %q %s", shape, codebase, rules)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// shapesOf returns the shapes of the spares that can serve c, the best first.
func (s *pooledSandboxes) shapesOf(c statedir.Draft) []string {
	shape := s.shapeOf(c.Config)
	if shape == "" {
		return nil
	}
	return []string{treeShape(shape, c.CodebasePath, c.Rules), shape}
}

// StartPooled starts a sandbox that has no user yet, for configurations like config, which need not name a codebase,
// and returns its ID. [Runtime.Create] makes it the sandbox of the first of them that asks; until then it is none. It
// ends by itself when no one has for the time idle. ErrUnsupported: such a sandbox cannot be started ahead.
func (s *pools) StartPooled(ctx context.Context, config *runtime.SandboxConfig, idle time.Duration) (id string, err error) {
	template, shape, err := s.template(ctx, config, false)
	if err != nil {
		return "", err
	}
	return s.startPooled(ctx, template, shape, &PoolOptions{IdleTimeout: idle})
}

// startPooled starts a sandbox that has no user yet, for configurations of the shape of template, both of which are
// of [sandboxes.template].
func (s *pools) startPooled(ctx context.Context, template *statedir.Config, shape string, opts *PoolOptions) (id string, err error) {
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
	s.sandboxes.tidy(ctx) // takers do not
	recorded := c
	recorded.Permissions = nil // 36 kB that nobody reads: the user of the spare brings rules
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
	step.Reached("spare: lock taken")
	if err := canCopy(rec, &c); err != nil {
		return "", errors.Join(runtime.WithClass(runtime.ErrUnavailable, err), lock.Unlock(), lock.Close())
	}
	pooled := &boot.Pooled{IdleMS: opts.IdleTimeout.Milliseconds(), Published: rec.Pooled().PublishedPath(shape), Tree: opts.Tree}
	if opts.Shell {
		pooled.Shell = &boot.Shell{Env: environment(&c, nil), Dir: cwd(&c, "")}
	}
	if err := s.sandboxes.starter.launch(ctx, rec, &c, lock, pooled); err != nil {
		return "", err
	}
	if err := rec.Pooled().Publish(shape); err != nil {
		return "", errors.Join(runtime.WithClass(runtime.ErrUnavailable, err), terminate(ctx, rec))
	}
	step.Reached("spare: offered")
	return c.ID, nil
}

// PooledSandboxes returns the spares that wait for a user, in no particular order.
func (s *pooledSandboxes) PooledSandboxes() ([]PooledSandbox, error) {
	var all []PooledSandbox
	published, err := s.dir.Published()
	if err != nil {
		return nil, err
	}
	for shape, ids := range published {
		for _, id := range ids {
			r, err := s.dir.Record(id).Pooled().Record()
			if err != nil {
				continue // it is taken, or gone
			}
			since := time.UnixMilli(r.Since)
			left := time.Until(since.Add(time.Duration(r.Idle) * time.Millisecond))
			all = append(all, PooledSandbox{ID: id, Shape: shape, Runtime: r.Config.Runtime, Since: since, Left: max(0, left)})
		}
	}
	return all, nil
}

// TerminatePooled ends a spare, and returns when it is gone. One that was taken, or does not exist, is left alone.
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
		return runtime.Errorf(runtime.ErrUnavailable, "record of spare %s: %w", id, err)
	}
	if !rec.Pooled().Unpublish(r.Shape) {
		return nil // it is taken
	}
	return s.discard(ctx, rec)
}

// discard ends a spare that was claimed, and removes it.
func (s *pooledSandboxes) discard(ctx context.Context, rec *statedir.Record) error {
	if err := terminate(ctx, rec); err != nil {
		return err
	}
	_, err := s.removeIncomplete(rec.ID())
	return err
}

// removeIncomplete removes what a killed process has left of a sandbox, or of a spare.
func (s *pooledSandboxes) removeIncomplete(id string) (removed bool, err error) {
	return s.dir.RemoveIncomplete(id, func(rec *statedir.Record) error {
		r, err := rec.Pooled().Record()
		if err != nil {
			r = &statedir.PooledRecord{Config: *unknownConfig()}
		}
		return errors.Join(killParts(rec, &r.Config), unlimit(rec))
	})
}

// claim makes a spare the sandbox with the configuration c, which is completed; nil if there is none. The
// sandbox is not started: Start does that.
func (s *pooledSandboxes) claim(ctx context.Context, c statedir.Draft, limits *limiting) (*runtime.Sandbox, error) {
	if !s.dir.HasPools() {
		return nil, nil
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
		s.fillers.claimed(shape)
		return s.created(rec, c.Config, caller, limits)
	}
	for _, shape := range shapes {
		s.fillers.missed(shape)
	}
	return nil, nil
}

// abandonClaim ends the spare in box, which was claimed for a sandbox that could not be recorded for the reason err; nil: no spare was claimed. It
// returns err, with the error of ending the spare if there is one.
func (s *pooledSandboxes) abandonClaim(ctx context.Context, rec *statedir.Record, err error) error {
	if rec != nil {
		err = errors.Join(err, s.discard(ctx, rec))
	}
	return err
}

// created returns a sandbox that is recorded, with caller as of [statedir.Dir.Create], and notes what its start will need.
func (s *pooledSandboxes) created(rec *statedir.Record, c *statedir.Config, caller *os.File, limits *limiting) (*runtime.Sandbox, error) {
	if caller != nil {
		s.starter.bound.put(c.ID, caller)
	}
	s.remember(c, rec.Stamp(), limits)
	return describe(rec, c, func() (runtime.State, string, error) { return runtime.StateCreated, "", nil })
}

// startClaimed starts a sandbox that was a spare. It reports whether it did: if not, the spare is gone, or there was
// none, and the sandbox can be started as others.
func (s *pooledSandboxes) startClaimed(ctx context.Context, rec *statedir.Record, c *statedir.Config) (started bool, err error) {
	if c.DroppedUID != 0 || !rec.Pooled().IsPooled() { // what is in run/ of root's sandboxes is not to be trusted
		return false, nil
	}
	life, err := unexpired(rec, c)
	if err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if conn, hold, err := s.activate(rec, c, life); err == nil {
		s.starter.conns.put(rec.ID(), conn)
		if hold != nil {
			s.starter.alive.put(rec.ID(), hold)
		}
		step.Reached("start: ready")
		return true, nil
	}
	return false, unlessBusy(terminate(ctx, rec))
}

// activate asks a spare to be the sandbox with the configuration c, and returns the connection to it. If the
// sandbox is bound to its caller, that ends it by closing hold.
func (s *pooledSandboxes) activate(rec *statedir.Record, c *statedir.Config, life *statedir.Lifetime) (conn *connection, hold *os.File, err error) {
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
	header.Permissions, header.Labels, header.Env = nil, nil, nil // the shim does not use them
	sock, direct, err := requestPooled(rec, &boot.PooledRequest{Op: boot.OpActivate, Config: &header, Lifetime: life}, files...)
	if err != nil {
		_ = hold.Close() // nil is fine
		return nil, nil, err
	}
	if direct == nil {
		return newConnection(rec, sock), hold, nil
	}
	return connectionOf(sock, direct), hold, nil
}

// requestPooled sends a request to a spare, and returns the connection once it has agreed, and one to PID 1, which may be nil. The
// caller closes both.
func requestPooled(rec *statedir.Record, r *boot.PooledRequest, files ...*os.File) (sock *rawsock.Socket, direct *os.File, err error) {
	sock, err = dialPooled(rec)
	if err != nil {
		return nil, nil, err
	}
	late := time.AfterFunc(boot.ActivateLimit, func() { _ = sock.Close() })
	defer late.Stop()
	var answer boot.Report
	if err = boot.SendPooled(sock, r, files...); err == nil {
		step.Reached("spare: asked")
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

// dialPooled connects to the socket of a spare's shim.
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

// terminate ends a spare, and returns when it is gone. If it was claimed, the sandbox stays as one that is to be
// started. ErrConflict: it has a user, or the sandbox was started without it.
func terminate(ctx context.Context, rec *statedir.Record) error {
	sock, _, err := requestPooled(rec, &boot.PooledRequest{Op: boot.OpEnd})
	if err == nil {
		err = sock.Close()
	}
	if runtime.Class(err) == runtime.ErrConflict {
		return err
	}
	for end := time.Now().Add(boot.ActivateLimit); time.Now().Before(end); {
		if rec.HasSocket() { // which a spare has not
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

// ensureTerminated makes sure that a sandbox has no spare that waits to be started as it, so that its lock says whether it runs.
func ensureTerminated(ctx context.Context, rec *statedir.Record, c *statedir.Config) error {
	if c.DroppedUID != 0 || !rec.Pooled().IsPooled() {
		return nil
	}
	return unlessBusy(terminate(ctx, rec))
}
