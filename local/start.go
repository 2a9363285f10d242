package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/internal/boot"
	"wolffia/internal/child"
	"wolffia/internal/cleanup"
	"wolffia/internal/coredump"
	"wolffia/internal/statedir"
	"wolffia/internal/step"
	"wolffia/runtime"
)

// startLimit is how long a sandbox may take to start before it is given up,
// unless the context ends first.
const startLimit = 60 * time.Second

// programs are where the binaries are.
type programs struct {
	wolffia string // shim and tree server
	guest   string
	backend string // empty: its launcher finds it
	engine  bool   // backend is the keeper's program
	// ownKernel is launch.Backend.OwnKernel.
	ownKernel bool
	// stateDir is the path of the state directory.
	stateDir string
}

// A started shim is one that has said that it is ready.
type started struct {
	process statedir.Process
	alive   *os.File // closing it ends a sandbox that is bound to the caller; nil otherwise
}

// start starts shim and tree server for the sandbox in box and waits until the
// shim is ready. The configuration is asked for when nobody can change it any
// more without telling the sandbox. If start fails, both are gone.
func start(ctx context.Context, box *statedir.Box, config func() (*statedir.Config, error), bin programs, images *store.Store) (_ *started, err error) {
	lock, err := lockToStart(ctx, box)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Unlock() // nobody else has it any more
		}
		_ = lock.Close() // shim and tree server have copies
	}()
	step.Reached("start: lock taken")
	c, err := config()
	if err != nil {
		return nil, err
	}
	life, err := box.Lifetime(c)
	if err != nil {
		return nil, err
	}
	if why := box.Expired(life, statedir.Now()); why != "" {
		return nil, over(box, why)
	}
	var limits *limiting
	if c.Resources.Limited() && !bin.engine {
		if err := unlimit(box); err != nil { // what one that was killed has left
			return nil, err
		}
		if limits, err = planLimits(&c.Resources, bin.ownKernel); err != nil {
			return nil, err
		}
	}
	log, err := openLog(box)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "log of sandbox %s: %w", box.ID(), err)
	}
	defer log.Close()
	coredump.Permit() // the shim, which may have dropped privileges by then, could not
	b := boot.Params{ID: box.ID(), Run: box.Run(), Mnt: box.Mnt(), Config: *c, Guest: bin.guest, CopyGuest: c.DroppedUID != 0, OwnKernel: bin.ownKernel}
	configFile, err := box.OpenConfig()
	if err != nil {
		return nil, err
	}
	defer configFile.Close()
	guest, err := os.Open(bin.guest)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the guest binary: %w; it belongs beside wolffia", err)
	}
	defer guest.Close()
	backend := guest // any file: it is not used
	if bin.engine {
		b.Engine, b.StateDir, b.CopyGuest = box.Engine(), bin.stateDir, false
		if b.Guest, err = filepath.Abs(b.Guest); err != nil {
			return nil, err
		}
	} else if bin.backend != "" {
		if backend, err = os.Open(bin.backend); err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "the program of runtime %s: %w", c.Runtime, err)
		}
		defer backend.Close()
		b.HasBackend = true
	}
	forShim := b
	forShim.Lifetime = life
	forShim.Config.Permissions = nil // are the tree server's business, and take time to read
	self, err := os.Open(bin.wolffia)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the wolffia binary: %w", err)
	}
	defer self.Close()
	if c.ImageID != "" && !bin.engine {
		if _, err := images.Get(c.ImageID); err != nil {
			return nil, err
		}
		forShim.Image, forShim.SendsImage = images.Rootfs(c.ImageID), c.DroppedUID != 0
		if forShim.InDoubt, err = endEarlier(box, c); err != nil {
			return nil, err
		}
	}
	shimEnd, treeEnd, err := boot.ControlPair()
	if err != nil {
		return nil, err
	}
	defer shimEnd.Close()
	defer treeEnd.Close()
	progress, ready, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer progress.Close()
	defer ready.Close()
	kept, keeperEnd, err := boot.ControlPair()
	if err != nil {
		return nil, err
	}
	defer kept.Close()
	defer keeperEnd.Close()
	alive, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer alive.Close()

	var undo cleanup.Stack
	defer undo.Unwind(&err)
	undo.Add(hold.Close)

	var keeper *child.Child
	undo.Add(func() error { // it hears that the shim is gone, which comes before
		_ = kept.Close()
		if keeper == nil || boot.Within(boot.EndLimit+boot.KillLimit, keeper.Gone()) {
			return nil
		}
		return keeper.Kill()
	})
	files := []*os.File{lock.Shim, shimEnd, ready, alive, guest, configFile, backend, guest, kept}
	var imageOurs, imageShims *os.File
	if forShim.SendsImage {
		if imageOurs, imageShims, err = boot.ControlPair(); err != nil {
			return nil, err
		}
		defer imageOurs.Close()
		defer imageShims.Close()
		files[boot.FDImage-boot.FDLock] = imageShims
	}
	var open *os.File // lets the backend's program go
	if limits != nil {
		forShim.Rlimits, forShim.Held = limits.rlimits, limits.plan != nil
		undo.Add(func() error { return unlimit(box) }) // when all is dead
		if err := box.SetLimits(limits); err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "record the limits: %w", err)
		}
	}
	if forShim.Held {
		var gate *os.File
		if gate, open, err = os.Pipe(); err != nil {
			return nil, err
		}
		defer gate.Close()
		defer open.Close()
		files = append(files, gate)
	}
	// The shim first: it has the longer way to go.
	shim, err := spawn(self, log, []string{"wolffia", "shim", b.ID}, shimNamespaces(c), &forShim, files...)
	if err != nil {
		return nil, namespaceError(err)
	}
	undo.Add(func() error {
		err := shim.Kill()
		<-shim.Gone()
		// A bubblewrap whose parent was killed in the wrong moment waits for it
		// for ever: it is not bound to it yet.
		return errors.Join(err, box.KillAll(c.UID, boot.KillLimit))
	})
	// It may have ended again, as one whose time is over has, when we hear of it.
	process, unknown := statedir.ProcessOf(shim.PID())
	step.Reached("start: shim started")
	if bin.engine {
		if keeper, err = startKeeper(bin.backend, log, &forShim, lock.Tree, shimEnd, ready, keeperEnd); err != nil {
			return nil, err
		}
	}
	treePID := 0
	if c.CodebasePath != "" {
		tree, err := spawn(self, log, []string{"wolffia", "tree", b.ID}, treeCredential(c), &b, lock.Tree, treeEnd)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "start the tree server: %w", err)
		}
		treePID = tree.PID()
		undo.Add(tree.Kill)
	}
	step.Reached("start: all started")
	// Ours must be closed, or a process that is gone would not show.
	_ = errors.Join(ready.Close(), shimEnd.Close(), treeEnd.Close(), kept.Close(), keeperEnd.Close())
	if forShim.SendsImage {
		_ = imageShims.Close()
		if err := sendImage(imageOurs, images, c.ImageID, shim.PID()); err != nil {
			return nil, err
		}
	}

	held := func(ctx context.Context, pid int) error {
		if !forShim.Held {
			return runtime.Errorf(runtime.ErrUnavailable, "the shim waits for limits, and there are none")
		}
		return limits.enter(ctx, box, bin.stateDir, shim.PID(), pid, treePID, open)
	}
	if err := await(ctx, progress, held); err != nil {
		return nil, err
	}
	step.Reached("start: ready")
	if err = unknown; err == nil {
		var parts []statedir.Process
		if forShim.Image != "" {
			parts = statedir.Descendants(process.PID)
		}
		err = box.SetShim(&process, parts...)
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "record the sandbox: %w", err)
	}
	undo.Release()
	s := &started{process: process, alive: hold}
	if !c.BoundToCaller {
		_ = hold.Close()
		s.alive = nil
	}
	return s, nil
}

// endEarlier ends what is left of an earlier start of a sandbox on an image, and
// waits until its mounts are gone: the sandbox's changes must not be mounted
// twice. inDoubt says that nobody has recorded which processes that start had.
func endEarlier(box *statedir.Box, c *statedir.Config) (inDoubt bool, err error) {
	recorded, err := box.EndParts(boot.KillLimit)
	if err == nil && !recorded {
		err = box.KillAll(c.UID, boot.KillLimit) // of those that still have a command line
	}
	if err == nil {
		err = box.ForgetShim() // it says nothing of the start that begins
	}
	if err != nil {
		return false, runtime.Errorf(runtime.ErrUnavailable, "end what is left of an earlier start of sandbox %s: %w", box.ID(), err)
	}
	return !recorded, nil
}

// openLog opens the log, which the user that the sandbox runs as may have replaced: a
// FIFO would be waited for, and a hard link would have us append to another file.
func openLog(box *statedir.Box) (*os.File, error) {
	log, err := os.OpenFile(box.Log(), os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(log.Fd()), &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errors.New("it is not a regular file")
	case st.Nlink > 1:
		err = errors.New("it has a second name")
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// lockToStart takes the sandbox's lock. One that runs is ErrConflict; one that
// is just about to be gone, or about to run, is waited for.
func lockToStart(ctx context.Context, box *statedir.Box) (*statedir.Lock, error) {
	const look = 50 * time.Millisecond
	for end := time.Now().Add(boot.KillLimit); ; {
		lock, err := box.TryLock()
		if !errors.Is(err, runtime.ErrConflict) || ctx.Err() != nil || time.Now().After(end) {
			return lock, err
		}
		state, _, serr := box.State()
		if serr != nil || state == runtime.StateRunning && connects(box) {
			return nil, errors.Join(err, serr)
		}
		_ = box.WaitUnlocked(ctx, look)
	}
}

// connects reports whether there is a shim behind the socket, or will be. Beside a
// shim that was killed, whoever takes the lock can be taken for it, for a moment.
func connects(box *statedir.Box) bool {
	sock, err := dial(box)
	if err != nil {
		return false
	}
	_ = sock.Close()
	return true
}

// spawn starts the wolffia binary in self, detached from us, with boot and
// files as its descriptors from 3 on. It is executed by its descriptor, so that
// this works with privileges dropped wherever it lies; the descriptor is one of
// the child's own, because any other number may become something else in the
// child before it executes.
func spawn(self, log *os.File, args []string, attr *syscall.SysProcAttr, b *boot.Params, files ...*os.File) (*child.Child, error) {
	bootFile, err := b.File()
	if err != nil {
		return nil, err
	}
	defer bootFile.Close()
	attr.Setsid = true
	all := append([]*os.File{nil, nil, log, bootFile}, files...)
	return child.Start(&child.Command{
		Path: "/proc/self/fd/" + strconv.Itoa(len(all)), Args: args,
		Env:   boot.Environ(),
		Files: append(all, self),
		Attr:  attr,
	})
}

// shimNamespaces puts the shim in a user and mount namespace of its own, where
// it may mount and its one id is 0. If the caller is root, that id is the one
// that root drops to, and nothing else is left of root.
func shimNamespaces(c *statedir.Config) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: c.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: c.GID, Size: 1}},
	}
	if c.DroppedUID != 0 {
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0}
	}
	return attr
}

// treeCredential is who serves the tree: the user; root's tree is served by
// root, which drops what it does not need by itself.
func treeCredential(c *statedir.Config) *syscall.SysProcAttr {
	attr := new(syscall.SysProcAttr)
	if c.DroppedUID != 0 && !c.RootTree {
		attr.Credential = &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.GID)}
	}
	return attr
}

// namespaceError explains why the shim did not start; most often the host does
// not let the user make namespaces.
func namespaceError(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS) {
		return runtime.Errorf(runtime.ErrUnavailable, "this host does not allow user namespaces: %w; wolffia doctor says why and what helps", err)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "start the shim: %w", err)
}

var errNoWord = errors.New("the shim ended without a word")

// await reads progress until the shim is ready or has failed. When time is up
// it says what was being done. held, if not nil, is told the process that waits for limits.
func await(ctx context.Context, progress *os.File, held func(ctx context.Context, pid int) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = progress.SetReadDeadline(time.Unix(0, 0)) })
	defer stop()
	doing := "start"
	lines := bufio.NewScanner(io.LimitReader(progress, 1<<20))
	for lines.Scan() {
		var r boot.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "the shim reports nonsense: %w", err)
		}
		switch {
		case r.Ready:
			return nil
		case r.Error != "":
			return r.Err()
		case r.Held != 0 && held != nil:
			if err := held(ctx, r.Held); err != nil {
				return err
			}
			continue
		}
		doing = r.Step
	}
	if err := ctx.Err(); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "the sandbox did not start, it was killed; it hung here: %s (%w)", doing, err)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "%w, here: %s; wolffia logs may say more", errNoWord, doing)
}
