package local

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/child"
	"wolffia/internal/sys/cleanup"
	"wolffia/internal/sys/coredump"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/sys/step"
	"wolffia/internal/sys/timerslack"
	"wolffia/internal/sys/userns"
	"wolffia/local/defaults"
	"wolffia/runtime"
)

// descriptors are what a start opens. Those that a plan has no use for are nil.
type descriptors struct {
	shimProgram, treeProgram, keeperProgram *os.File // using's
	log                                     *os.File

	shim, tree, system, keeper []*os.File // of these processes, by number

	progress *os.File // the shim's reports
	hold     *os.File // closing it ends a sandbox that is bound to this process
	barrier  *os.File // a byte opens the start barrier
	image    *os.File // a socket for the image's mount
	kept     *os.File // the shim's socket to the keeper
	client   *os.File // a connection to the shim, which serves it when it is ready

	all   []*os.File
	given []*os.File // those that only the started processes keep open
	err   error      // the first
}

// open opens what a plan needs. The caller closes all of it, after an error too.
func (p *plan) open(rec *statedir.Record, lock *statedir.Lock, using *using, memory []*os.File) (*descriptors, error) {
	d := new(descriptors)
	d.log = d.one(openLog(rec, p.config))
	coredump.Permit()   // here, since the shim may have dropped the privileges that it takes
	var config *os.File // a pooled sandbox has none yet
	if p.shim.Pooled == nil {
		config = d.one(rec.OpenConfig())
	}
	backend := d.one(openProgram("program of runtime "+p.config.Runtime, p.backend))
	d.shimProgram, d.treeProgram, d.keeperProgram = using.shim, using.tree, using.keeper
	shimEnd, treeEnd := d.two(boot.ControlPair())
	var ready, alive, keeperEnd, imageEnd, held, systemEnd, viewEnd *os.File
	d.progress, ready = d.two(os.Pipe())
	alive, d.hold = d.two(os.Pipe())
	if p.keeper != "" {
		d.kept, keeperEnd = d.two(boot.ControlPair())
	}
	if p.shim.SendsImage {
		d.image, imageEnd = d.two(boot.ControlPair())
	}
	if p.system != nil {
		systemEnd, viewEnd = d.two(boot.ControlPair())
	}
	if p.shim.Held {
		held, d.barrier = d.two(os.Pipe())
	}
	var clientEnd *os.File
	if p.shim.Pooled == nil {
		d.client, clientEnd = d.two(rawsock.Pair())
	}
	d.shim = []*os.File{
		boot.FDLock: lock.Shim, boot.FDControl: shimEnd, boot.FDReady: ready, boot.FDAlive: alive, boot.FDGuest: using.guest,
		boot.FDConfig: config, boot.FDBackend: backend, boot.FDImage: imageEnd, boot.FDKept: d.kept, boot.FDBarrier: held,
		boot.FDClient: clientEnd, boot.FDSystem: systemEnd,
	}
	d.shim = append(d.shim, memory...) // from boot.FDMemory on
	d.tree = []*os.File{boot.FDLock: lock.Tree, boot.FDControl: treeEnd}
	d.system = []*os.File{boot.FDLock: lock.Tree, boot.FDControl: viewEnd}
	d.keeper = []*os.File{boot.FDLock: lock.Tree, boot.FDControl: shimEnd, boot.FDReady: ready, boot.FDKeeper: keeperEnd}
	d.given = []*os.File{ready, shimEnd, treeEnd, d.kept, keeperEnd, imageEnd, clientEnd, systemEnd, viewEnd}
	return d, d.err
}

// one notes a file that was opened, or why it was not.
func (d *descriptors) one(f *os.File, err error) *os.File {
	if d.err == nil {
		d.err = err
	}
	d.all = append(d.all, f)
	return f
}

// two is one for a pair.
func (d *descriptors) two(a, b *os.File, err error) (*os.File, *os.File) {
	return d.one(a, err), d.one(b, err)
}

// takeHold returns hold, which close then leaves open.
func (d *descriptors) takeHold() *os.File {
	d.all = slices.DeleteFunc(d.all, func(f *os.File) bool { return f == d.hold })
	return d.hold
}

// closeAll closes those of files that are open.
func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nil, or closed before, is fine
	}
}

// openProgram opens a program, to be executed by its descriptor; an empty path is none.
func openProgram(what, path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the %s: %w", what, err)
	}
	return f, nil
}

// launched are the processes of a start.
type launched struct {
	shim    *child.Child
	process statedir.Process // of the shim
	unknown error            // why process is not known
	servers []int            // the numbers of the tree servers
}

// launch starts the processes of a plan. To undo ends those that were started.
func (p *plan) launch(rec *statedir.Record, d *descriptors, undo *cleanup.Stack) (*launched, error) {
	var keeper *child.Child
	if p.keeper != "" {
		undo.Add(func() error { // the keeper ends by itself, after the shim
			_ = d.kept.Close()
			if keeper == nil || boot.Within(boot.EndLimit+boot.KillLimit, keeper.Gone()) {
				return nil
			}
			return keeper.Kill()
		})
	}
	if p.limits != nil {
		undo.Add(func() error { return unlimit(rec) }) // after the end of all processes
		if err := rec.SetLimits(p.limits); err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "record the limits: %w", err)
		}
	}
	if err := rec.MakeMnt(); err != nil {
		return nil, err
	}
	// The shim first: it has the most to do. It is also the first to be killed: of the tree
	// server's end it would record that the sandbox is dead.
	l := new(launched)
	var tree, system *child.Child
	undo.Add(func() (err error) {
		for _, server := range []*child.Child{tree, system} {
			if server != nil {
				err = errors.Join(err, server.Kill())
			}
		}
		return err
	})
	var err error
	l.shim, err = p.spawnShim(d, []string{"wolffia", "shim", p.shim.Tag})
	if err != nil {
		return nil, shimError(err, d.shimProgram, p.config.UID)
	}
	undo.Add(func() error {
		err := l.shim.Kill()
		<-l.shim.Gone()
		// A bubblewrap whose parent was killed too early is not bound to it yet, and would
		// wait for it without end.
		return errors.Join(err, rec.Processes().KillAll(p.config.UID, boot.KillLimit))
	})
	// Now, since the shim of a sandbox that expires may be gone before it is ready.
	l.process, l.unknown = statedir.ProcessOf(l.shim.PID())
	step.Reached("start: shim started")
	if p.keeper != "" {
		if keeper, err = p.spawnKeeper(d); err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "start the keeper: %w", err)
		}
	}
	if p.tree != nil {
		tree, err = spawn(d.treeProgram, d.log, []string{"wolffia", "tree", p.shim.Tag}, treeCredential(p.config), p.tree, d.tree)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "start the tree server: %w", err)
		}
		l.servers = append(l.servers, tree.PID())
	}
	if p.system != nil {
		attr := &syscall.SysProcAttr{Credential: dropped(p.config)}
		system, err = spawn(d.treeProgram, d.log, []string{"wolffia", "usr", p.shim.Tag}, attr, p.system, d.system)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "start the server of /usr: %w", err)
		}
		l.servers = append(l.servers, system.PID())
	}
	step.Reached("start: all started")
	closeAll(d.given)                 // else the end of a process would not show
	_ = rec.Processes().PrepareShim() // meanwhile; without it record takes longer
	return l, nil
}

// record records the processes of a sandbox that is ready. version is that of the shim.
func (l *launched) record(rec *statedir.Record, p *plan, version string) error {
	err := l.unknown
	if err == nil {
		var parts []statedir.Process
		if len(p.shim.Image) > 0 {
			parts = statedir.Descendants(l.process.PID)
		}
		err = rec.Processes().SetShim(&l.process, version, parts...)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "record the sandbox: %w", err)
	}
	return nil
}

// params are boot.Params or boot.TreeParams.
type params interface{ File() (*os.File, error) }

// spawn starts a program in a session of its own, with the log as its standard error,
// params as its FDBoot, and files. The program is executed by its descriptor, so that this
// works with privileges dropped, wherever it lies. That descriptor is the child's last:
// another number could be taken by something else before the child executes.
func spawn(program, log *os.File, args []string, attr *syscall.SysProcAttr, params params, files []*os.File) (*child.Child, error) {
	bootFile, err := params.File()
	if err != nil {
		return nil, err
	}
	defer bootFile.Close()
	return child.Start(spawning(program, log, args, attr, bootFile, files))
}

// spawning returns the command of spawn.
func spawning(program, log *os.File, args []string, attr *syscall.SysProcAttr, params *os.File, files []*os.File) *child.Command {
	attr.Setsid = true
	all := append(slices.Clone(files), program)
	all[2], all[boot.FDBoot] = log, params
	return &child.Command{
		Path: "/proc/self/fd/" + strconv.Itoa(len(files)), Args: args,
		Env:   boot.Environ(),
		Files: all,
		Attr:  attr,
		Slack: timerslack.Coarse,
	}
}

// spawnKeeper is spawn for the keeper.
func (p *plan) spawnKeeper(d *descriptors) (*child.Child, error) {
	params, err := p.shim.File()
	if err != nil {
		return nil, err
	}
	defer params.Close()
	args := []string{p.keeper, "keep", p.shim.Tag}
	c := spawning(d.keeperProgram, d.log, args, new(syscall.SysProcAttr), params, d.keeper)
	c.Env = keeperEnviron(p.elsewhere)
	return child.Start(c)
}

// spawnShim is spawn for the shim, which is in a user and a mount namespace of its own, unless
// PID 1 runs elsewhere. They are made without a copy of this process's memory, where that can be:
// by package userns.
func (p *plan) spawnShim(d *descriptors, args []string) (*child.Child, error) {
	params, err := p.shim.File()
	if err != nil {
		return nil, err
	}
	defer params.Close()
	if p.elsewhere {
		attr := &syscall.SysProcAttr{Credential: dropped(p.config)}
		return child.Start(spawning(d.shimProgram, d.log, args, attr, params, d.shim))
	}
	if p.config.Root {
		ids, err := defaults.IDsOf(p.config)
		if err != nil {
			return nil, err
		}
		shim, err := ids.Start(spawning(d.shimProgram, d.log, args, new(syscall.SysProcAttr), params, d.shim))
		if err != nil && os.Geteuid() != 0 {
			err = runtime.Errorf(runtime.ErrUnsupported, "root inside: %w", err)
		}
		return shim, err
	}
	if mapsItself(p.config) {
		if shim, err := p.stageShim(d, args, params); err == nil {
			return shim, nil
		} // else the stage cannot be executed: some hosts do not allow that for files in memory
	}
	return child.Start(spawning(d.shimProgram, d.log, args, shimNamespaces(p.config), params, d.shim))
}

// stageShim is spawnShim by a stage. An error is one of the stage's own start.
func (p *plan) stageShim(d *descriptors, args []string, params *os.File) (*child.Child, error) {
	stage, err := userns.Stage()
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	c := spawning(d.shimProgram, d.log, args, new(syscall.SysProcAttr), params, d.shim)
	c.Path, c.Args = userns.Path, userns.Args(p.config.UID, p.config.GID, c.Path, c.Args)
	c.Files[userns.FD] = stage
	return child.Start(c)
}

// mapsItself reports whether this process may map the shim's user and group itself: they are its
// own. Root forks, since the kernel may not let it map its own (CAP_SETFCAP in
// user_namespaces(7)).
func mapsItself(c *statedir.Config) bool {
	return c.DroppedUID == 0 && os.Geteuid() != 0 && c.UID == os.Geteuid() && c.GID == os.Getegid()
}

// shimNamespaces puts the shim in a user and a mount namespace of its own, where it may
// mount and the sandbox's uid and gid are 0. If the caller is root, the shim keeps nothing
// else of root.
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

// treeCredential makes the tree server run as the sandbox's user. That of a codebase that is
// root's runs as root and drops capabilities itself.
func treeCredential(c *statedir.Config) *syscall.SysProcAttr {
	attr := new(syscall.SysProcAttr)
	if !c.RootTree {
		attr.Credential = dropped(c)
	}
	return attr
}

// dropped makes a process run as the sandbox's user; nil: the caller is that user.
func dropped(c *statedir.Config) *syscall.Credential {
	if c.DroppedUID == 0 {
		return nil
	}
	return &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.GID)}
}

// namespaceError explains why the shim could not be started. Usually the host does not allow
// user namespaces.
func namespaceError(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS) {
		return runtime.Errorf(runtime.ErrUnavailable, "this host does not allow user namespaces: %w; wolffia doctor says what helps", err)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "start the shim: %w", err)
}

// shimError explains why a fork did not start the shim, which does not say whether its namespaces
// or its program are the reason.
func shimError(err error, program *os.File, uid int) error {
	st := new(unix.Stat_t)
	_ = unix.Fstat(int(program.Fd()), st)
	if errors.Is(err, unix.EACCES) && st.Mode&0o001 == 0 && int(st.Uid) != uid {
		return runtime.Errorf(runtime.ErrUnavailable,
			"start the shim: uid %d may not execute %s: %w: chmod o+rx it", uid, program.Name(), err)
	}
	return namespaceError(err)
}

// stageError is the error of a shim that was not started because userns.Stage has failed.
func stageError(f userns.Failure) error {
	if f.Exec {
		return runtime.Errorf(runtime.ErrUnavailable, "start the shim: %w", f.Errno)
	}
	return namespaceError(f.Errno)
}
