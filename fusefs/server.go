package fusefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/device"
	"wolffia/internal/sys/beneath"
	"wolffia/perm"
)

// Rules decide the level of each name. Their methods are called concurrently and must always
// return the same results, as those of *perm.Policy, which has their documentation.
type Rules interface {
	Root() perm.State
	RootLevel() perm.Level
	Enter(s perm.State, name string) perm.State
	Child(s perm.State, name string, dir bool) perm.Level
	Constant(s perm.State) (l perm.Level, ok bool)
}

var _ Rules = (*perm.Policy)(nil)

// An Owner is the presented owner of all objects. The numbers are those of the user namespace
// in which the tree was mounted.
type Owner struct{ UID, GID uint32 }

// Options are options of Serve. Root and Rules are required.
type Options struct {
	// Root is a descriptor of the directory that is the root of the tree; O_PATH is
	// enough. Serve duplicates it.
	Root int

	// Rules decide the level of each name.
	Rules Rules

	// Owner is the presented owner of all objects.
	Owner Owner

	// Unguarded lets a sandbox make in the working tree what git on the host would take for a git
	// directory, or hang at.
	Unguarded bool
	// Chown lets a sandbox with several users change the owner of a file, without effect: tar and
	// rsync give up otherwise. All files belong to the host's user.
	Chown bool
	// HostModes presents the permissions of the host's files, without set-id bits, whatever the
	// server or a level allows: a file that Owner could not open may fail to open only when it is
	// used.
	HostModes bool

	// Git keeps git directories apart from the host's; nil serves the host's by the rules.
	Git *Git

	// Copy keeps changes out of Root; nil makes them in Root.
	Copy *Copy

	// MoveTemps are names in Root of directories that move to other rules: cow.MoveTemps. What a
	// killed server leaves has these names; files in it have other names too. Empty ones are
	// random.
	MoveTemps [2]string

	// Timeout is how long the kernel may cache names and attributes where changes by the
	// host are not noticed, and so how late those may show; 0 is a second.
	Timeout time.Duration

	// FDs is the number of descriptors in the cache; 0 is half of the process's limit, at
	// most 65536.
	FDs int

	// Quota is how many bytes of the disk may be added through the tree while it is served;
	// deleted bytes are subtracted. With Copy it is how many bytes the upper layer may take,
	// including the bytes that it has already. Beyond it operations fail with EDQUOT. 0 is no
	// limit.
	Quota int64

	// Memory is about how many bytes the server should take for nodes and requests; 0 is
	// a GiB. It is exceeded by names in use, and before Linux 6.18 by all names that the
	// kernel caches.
	Memory int64

	// NoWatch disables the notice of changes by the host (fanotify(7)): they show after
	// Timeout, and the kernel asks again for everything after each Timeout. Without
	// NoWatch this is so only for directories that cannot be watched.
	NoWatch bool

	// Logger receives failures of the server itself; nil discards them.
	Logger *slog.Logger

	// Denied is called at each refusal, by several goroutines at once, and must not block. It may
	// be nil. Refusals by the kernel itself, because of the presented modes, are included if /proc
	// shows the caller's system call and the level that its arguments need.
	Denied func(Denial)

	// Ask has accesses wait for a person instead of refusing them; nil refuses them.
	Ask *Ask

	// OnSequentialLookup is called when lookups outnumber reads by lookupsPerRead: a process walks
	// the tree by name. Listing the tree in advance then saves a message for each name. It is
	// called once, and once more after each time that the kernel has backing.Forgotten all names.
	// It must not block. It may be nil.
	OnSequentialLookup func()

	// OnHostChange is called at the first change of a visible name by the host, and again at the
	// first one after [Server.DropHostChanges], or the last batch of [Server.HostChanges]. It must
	// not block. If it returns false, it is called at the next change too. It may be nil.
	OnHostChange func() bool
}

// watchedTimeout is Timeout where changes by the host are noticed. It is finite because of the
// changes that a watcher misses.
const watchedTimeout = time.Hour

// A Server answers the requests of one mounted tree. It is safe for concurrent use.
type Server struct {
	tree *tree
	done chan struct{} // closed when the last request is answered
}

// Wait blocks until the tree is unmounted and the last request answered.
func (s *Server) Wait() { <-s.done }

// Serve answers the requests of the tree that was mounted with dev, until it is unmounted. It
// returns when the kernel's first message is answered. Serve closes dev in any case. ctx limits
// the wait for the kernel, not the life of the Server.
func Serve(ctx context.Context, dev *os.File, opts *Options) (*Server, error) {
	t, err := newTree(opts)
	if err != nil {
		_ = dev.Close()
		return nil, err
	}
	return t.serve(ctx, dev)
}

// serve is Serve for a tree, which it closes after an error.
func (t *tree) serve(ctx context.Context, dev *os.File) (_ *Server, err error) {
	defer dev.Close()
	defer func() {
		if err != nil {
			t.git.stop()
			t.watch.close()
			t.close()
		}
	}()
	if err := awaitInit(ctx, dev); err != nil {
		return nil, err
	}
	// The device has a descriptor of its own, since Serve closes dev when it returns.
	fd, err := unix.FcntlInt(dev.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("copy the descriptor: %w", err)
	}
	if err := t.kernel.dev.Greet(fd, t.respond.proto); err != nil {
		unix.Close(fd)
		return nil, err
	}
	s := &Server{tree: t, done: make(chan struct{})}
	reserved := make(chan struct{})
	go func() { // ends within some RCU grace periods; the tree is served meanwhile
		defer close(reserved)
		t.fds.reserve(t.Proc)
	}()
	go t.inval.run() // ends at t.inval.close below
	go func() {      // ends when the tree is unmounted
		defer close(s.done)
		t.kernel.dev.Serve()
		t.levels.rulesMu.Lock()
		t.ended = true // see Attach
		t.levels.rulesMu.Unlock()
		t.git.stop()
		t.watch.close()
		t.inval.close()
		t.kernel.dev.Close()
		<-reserved
		t.close()
	}()
	return s, nil
}

// fuseOptions returns go-fuse's options, for the reply to the kernel's first message.
func fuseOptions(logger *slog.Logger) *fuse.MountOptions {
	return &fuse.MountOptions{
		Name:                 "wolffia",
		MaxWrite:             device.MaxWrite,
		MaxBackground:        64,
		EnableSymlinkCaching: true,

		ExtraCapabilities: fuse.CAP_NO_OPENDIR_SUPPORT | fuse.CAP_NO_EXPORT_SUPPORT |
			fuse.CAP_HAS_EXPIRE_ONLY | fuse.CAP_REQUEST_TIMEOUT,
		// With passthrough reads and writes would not pass the gate, each use of a file would need
		// a message to open it, and it counts as a stacked file system: no overlay could be
		// mounted on top.
		DisabledCapabilities: fuse.CAP_PASSTHROUGH,
		Logger:               slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		PanicHandler:         func(v any) fuse.Status { return panicked(logger, v) },
	}
}

// panicked logs the panic v of a request, and returns the request's status.
func panicked(logger *slog.Logger, v any) fuse.Status {
	logger.Error("a request failed", "panic", v, "stack", string(debug.Stack()))
	return fuse.EIO
}

// awaitInit waits until the kernel has sent its first message.
func awaitInit(ctx context.Context, dev *os.File) error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	defer func() {
		if !stop() {
			<-woken
		}
		unix.Close(wake)
	}()
	fds := []unix.PollFd{{Fd: int32(dev.Fd()), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("wait for the kernel: %w", err)
		case fds[1].Revents != 0:
			return fmt.Errorf("wait for the kernel: %w", ctx.Err())
		case fds[0].Revents&unix.POLLIN != 0:
			return nil
		default:
			return errors.New("wait for the kernel: the descriptor does not belong to a mounted tree")
		}
	}
}

// newTree returns the tree of opts, not served yet.
func newTree(opts *Options) (*tree, error) {
	t, err := emptyTree(opts)
	if err != nil {
		return nil, err
	}
	if err := t.setRoot(opts.Root, opts.Rules, opts); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// emptyTree returns the tree of opts without its root.
func emptyTree(opts *Options) (*tree, error) {
	t := &tree{RawFileSystem: fuse.NewDefaultRawFileSystem(), noWatch: opts.NoWatch, moveTemps: opts.MoveTemps}
	t.start, t.timeout = time.Now(), opts.Timeout
	t.gate = gatekeeper{&t.names, opts.Denied, newAsks(opts.Ask)}
	t.chowns = opts.Chown
	t.guard = worktreeGuard{&t.names, opts.Unguarded}
	t.attrs = attrs{&t.names, &t.kernel, opts.Owner, opts.Chown, opts.HostModes, t.gate.asks.writes()}
	t.contents.names, t.contents.gate, t.kernel.names = &t.names, &t.gate, &t.names
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if err := t.FS.Open(logger); err != nil {
		return nil, err
	}
	if opts.Quota > 0 {
		t.Quota = backing.NewQuota(opts.Quota)
	}
	t.inval = newInvalQueue(t.kernel.send, t.kernel.forgetAll)
	t.respond.tree, t.respond.proto = t, fuse.NewProtocolServer(t, fuseOptions(t.Logger))
	t.respond.echo = fuse.NewProtocolServer(echoTree{t}, fuseOptions(t.Logger))
	t.echoes = &echoes{names: &t.names, kernel: &t.kernel, report: opts.OnHostChange}
	t.kernel.sequential.report = opts.OnSequentialLookup
	nodes, handlers := shares(opts.Memory)
	t.kernel.maxNodes, t.kernel.dev = nodes, device.New(handlers, t.Logger, t.respond.answer)
	if a := t.gate.asks; a != nil {
		a.park, a.ended = t.kernel.dev.Park, t.kernel.dev.Ended
		t.kernel.dev.Patience = a.Limit
	}
	if t.timeout <= 0 {
		t.timeout = time.Second
	}
	fds := opts.FDs
	if fds <= 0 {
		fds = defaultFDs()
	}
	t.fds = newFDCache(fds)
	return t, nil
}

// setRoot sets the tree's root and rules. After an error the tree has no root, as before.
func (t *tree) setRoot(dir int, rules Rules, opts *Options) (err error) {
	if rules == nil {
		return errors.New("serve a tree: Options.Rules is nil")
	}
	root, errno := backing.OpenBeneath(dir, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if errno != 0 {
		return fmt.Errorf("open the root of the tree: %w", errno)
	}
	defer func() {
		if err != nil {
			unix.Close(root)
		}
	}()
	if err := beneath.CheckNames(root); err != nil {
		return fmt.Errorf("check the root of the tree: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(root, &fs); err != nil {
		return fmt.Errorf("find out the file system of the root of the tree: %w", err)
	}
	// An overlay copies a file when it is written, and the birth time becomes the copy's.
	t.BornKnown = fs.Type != unix.OVERLAYFS_SUPER_MAGIC
	upper := -1
	if opts.Copy != nil {
		if t.copied, upper, err = newUpperLayer(&t.names, opts); err != nil {
			return err
		}
		t.lower = &lowerLayer{names: &t.names, moved: map[*node]struct{}{}}
		defer func() {
			if err != nil {
				unix.Close(upper)
				unix.Close(t.copied.work)
				t.copied, t.lower = nil, nil
			}
		}()
	}
	obj, errno := t.Stat(backing.At{FD: root})
	if errno != 0 {
		return fmt.Errorf("stat the root of the tree: %w", errno)
	}
	if opts.Git != nil {
		if t.git, err = newPrivateGit(&t.names, opts.Git, obj); err != nil {
			return fmt.Errorf("open the private git directories: %w", err)
		}
		defer func() {
			if err != nil {
				t.git.close()
				t.git = nil
			}
		}()
		if t.git.mirrored() {
			if errno := t.git.loadRemovedDirs(t.git.store, ""); errno != 0 {
				return fmt.Errorf("read the private git directories: %w", errno)
			}
		}
	}
	n := newNode(obj)
	n.setLevel(max(rules.RootLevel(), perm.View), both(rules.Root()))
	if t.copied != nil {
		if err := t.copied.rootLayers(n, obj, upper); err != nil {
			return err
		}
	}
	t.table = newTable(n)
	t.levels.private = t.git != nil
	t.levels.set(rules)
	if t.copied != nil {
		t.lower.top, root = t.fds.add(n, useLower, root), upper
	}
	t.root = t.fds.add(n, usePath, root) // held until close, as copied.lower
	if t.copied != nil {
		t.Quota.Begin(t.copied.used())
	}
	if !opts.NoWatch && backing.LocalOnly(fs.Type) {
		t.watchRoot()
	}
	return nil
}

func defaultFDs() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(max(16, min(limit.Cur/2, 1<<16)))
}
