package fusefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// Rules decide what a sandbox may do with each name. A *perm.Policy is such.
// They are asked concurrently and must always give the same answer.
type Rules interface {
	// Root returns the state of the root directory.
	Root() perm.State

	// RootLevel returns the level of the root directory.
	RootLevel() perm.Level

	// Enter returns the state of the directory called name in one of state s.
	Enter(s perm.State, name string) perm.State

	// Child returns the level of the entry called name in a directory of
	// state s; dir says whether the entry is a directory.
	Child(s perm.State, name string, dir bool) perm.Level

	// Constant reports whether all that is or may be below a directory of
	// state s has one level, and which.
	Constant(s perm.State) (perm.Level, bool)

	// Checks reports whether git repositories are guarded.
	Checks() bool
}

var _ Rules = (*perm.Policy)(nil)

// An Owner is whom all objects are presented as belonging to. The numbers are
// those of the user namespace in which the tree was mounted.
type Owner struct{ UID, GID uint32 }

// Options say what is served. Root and Rules are required.
type Options struct {
	// Root is a descriptor of the directory that is the root of the tree;
	// O_PATH is enough. Serve makes its own copy.
	Root int

	// Rules decide about each name.
	Rules Rules

	// Owner is whom all objects belong to in the tree.
	Owner Owner

	// Shown is the absolute path of the tree to those inside. Paths below it can be
	// written into files with which git finds repositories; with "", none that is absolute.
	Shown string

	// Timeout is how long the kernel may believe what it was told where changes
	// made outside of the tree are not noticed, and so how late they may be
	// seen; 0 is a second.
	Timeout time.Duration

	// FDs is the number of descriptors that are kept open for later use;
	// 0 is half of the process's limit, at most 65536.
	FDs int

	// Quota is how many bytes of the disk may be added through the tree while
	// it is served; what is deleted is taken off again. Beyond it operations
	// fail with EDQUOT. 0 is no limit.
	Quota int64

	// Memory is about how many bytes the server should take, for what the kernel knows
	// and for requests; 0 is a GiB. It is no limit: names that are in use are kept, and
	// before Linux 6.18 all names that the kernel keeps.
	Memory int64

	// NoWatch does not look out for changes that are made outside of the tree:
	// they are seen after Timeout, and not much sooner, and the kernel asks
	// again for everything after each Timeout. Without it, that is so for
	// directories only that cannot be watched (see fanotify(7)).
	NoWatch bool

	// Logger is told of failures of the server itself; nil discards.
	Logger *slog.Logger

	// Denied is called at each refusal, by several goroutines at once, and
	// must not block; nil ignores them. What the kernel itself refuses, by
	// the presented modes, is reported as far as the caller's system call can
	// be read in /proc and tells what it wanted.
	Denied func(Denial)
}

// watchedTimeout is Timeout where changes made outside are noticed as they
// are made. It is not for ever because of those that nobody is told of.
const watchedTimeout = time.Minute

// A Server answers for one mounted tree. It is safe for concurrent use.
type Server struct {
	tree *tree
	rdev uint64        // the device
	done chan struct{} // closed when the last request is answered

	closing sync.Once
}

// Serve answers for the tree that was mounted with dev, until it is unmounted
// or Close is called. It returns when the kernel's first message is answered.
// dev belongs to Serve in any case: it is closed by it. ctx limits the wait
// for the kernel, not the life of the Server.
func Serve(ctx context.Context, dev *os.File, opts *Options) (_ *Server, err error) {
	defer dev.Close()
	t, err := newTree(opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.watch.discard()
			t.close()
		}
	}()
	if err := awaitInit(ctx, dev); err != nil {
		return nil, err
	}
	// The device has a copy of its own: dev's number is dev's.
	if t.dev.fd, err = unix.FcntlInt(dev.Fd(), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return nil, fmt.Errorf("copy the descriptor: %w", err)
	}
	s := &Server{tree: t, done: make(chan struct{})}
	var st unix.Stat_t
	if err = unix.Fstat(t.dev.fd, &st); err == nil {
		s.rdev = st.Rdev
		err = t.dev.greet()
	}
	if err != nil {
		unix.Close(t.dev.fd)
		return nil, err
	}
	go t.inval.run() // ends at t.notes.close below
	if t.watch != nil {
		go t.watch.run() // ends at t.watch.close below
	}
	go func() { // ends when the tree is unmounted or Close called
		defer close(s.done)
		t.dev.serve()
		t.watch.close()
		t.inval.close()
		unix.Close(t.dev.fd)
		t.close()
	}()
	return s, nil
}

// fuseOptions returns how go-fuse is to speak to the kernel.
func fuseOptions(logger *slog.Logger) *fuse.MountOptions {
	return &fuse.MountOptions{
		Name:                 "wolffia",
		MaxWrite:             maxWrite,
		MaxBackground:        64,
		EnableSymlinkCaching: true,

		ExtraCapabilities: fuse.CAP_NO_OPENDIR_SUPPORT | fuse.CAP_NO_EXPORT_SUPPORT |
			fuse.CAP_HAS_EXPIRE_ONLY | fuse.CAP_REQUEST_TIMEOUT,
		// Passthrough would make the tree too deep for an overlay on top.
		DisabledCapabilities: fuse.CAP_PASSTHROUGH,
		Logger:               slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		PanicHandler: func(v any) fuse.Status {
			logger.Error("a request failed", "panic", v, "stack", string(debug.Stack()))
			return fuse.EIO
		},
	}
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
			return errors.New("wait for the kernel: the descriptor is of no mounted tree")
		}
	}
}

// newTree opens what the tree needs.
func newTree(opts *Options) (_ *tree, err error) {
	if opts.Rules == nil {
		return nil, errors.New("no rules")
	}
	t := &tree{
		rules: opts.Rules, owner: opts.Owner, shown: opts.Shown, timeout: opts.Timeout, report: opts.Denied,
		start: time.Now(), euid: uint32(os.Geteuid()), umask: ownUmask(), logger: opts.Logger,
	}
	if opts.Quota > 0 {
		t.quota = newQuota(opts.Quota)
	}
	t.inval = newInvalQueue(t.send, t.forgetAll)
	if t.logger == nil {
		t.logger = slog.New(slog.DiscardHandler)
	}
	var handlers int
	t.maxNodes, handlers = shares(opts.Memory)
	t.dev = &device{
		fd: -1, most: handlers, rulesMu: &t.rulesMu, logger: t.logger,
		proto: fuse.NewProtocolServer(t, fuseOptions(t.logger)),
	}
	if t.timeout <= 0 {
		t.timeout = time.Second
	}
	if opts.FDs > 0 {
		t.fds = newFDCache(opts.FDs)
	} else {
		t.fds = newFDCache(defaultFDs())
	}
	if t.proc, err = openProcFD(); err != nil {
		return nil, err
	}
	root, errno := openBeneath(opts.Root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if errno != 0 {
		unix.Close(t.proc)
		return nil, fmt.Errorf("open the root: %w", errno)
	}
	if err := CheckNames(root); err != nil {
		unix.Close(root)
		unix.Close(t.proc)
		return nil, fmt.Errorf("the root: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(root, &fs); err == nil {
		// An overlay copies a file that is written, and tells the birth of
		// the copy from then on.
		t.bornKnown = fs.Type != unix.OVERLAYFS_SUPER_MAGIC
	}
	obj, errno := t.stat(fdName{fd: root})
	if errno != 0 {
		unix.Close(root)
		unix.Close(t.proc)
		return nil, fmt.Errorf("stat the root: %w", errno)
	}
	n := newNode(obj)
	n.setLevel(max(t.rules.RootLevel(), perm.View), t.rules.Root())
	t.table = newTable(n)
	t.root = t.fds.add(n, usePath, root) // held until close
	if !opts.NoWatch {
		t.watchRoot()
	}
	return t, nil
}

// openProcFD opens the directory of this process's descriptors, through which
// a file is opened that is known by an O_PATH descriptor.
func openProcFD() (int, error) {
	fd, err := unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /proc/self/fd: %w", err)
	}
	var st unix.Statfs_t
	if err = unix.Fstatfs(fd, &st); err == nil && st.Type != unix.PROC_SUPER_MAGIC {
		err = errors.New("is not on a proc file system")
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("/proc/self/fd: %w", err)
	}
	return fd, nil
}

// ownUmask returns the umask of this process, all bits if it cannot be told.
// To ask the system call for it would change it for a moment, for all threads.
func ownUmask() uint32 {
	data, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(data)) {
			var mask uint32
			if _, err := fmt.Sscanf(line, "Umask: %o", &mask); err == nil {
				return mask
			}
		}
	}
	return 0o777
}

func defaultFDs() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(max(16, min(limit.Cur/2, 1<<16)))
}
