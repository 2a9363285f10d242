package shim

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/internal/boot"
	"wolffia/internal/cgroup"
	"wolffia/internal/rootfs"
	"wolffia/internal/statedir"
	"wolffia/internal/step"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/wire"
)

// helloLimit is how long PID 1 may take to say that it is there.
const helloLimit = 40 * time.Second

// Main is the shim's main: it holds one sandbox until that ends.
func Main(backends ...launch.Backend) error {
	// What is started from here dies with this thread: so it must be the one
	// that lives longest, the main thread.
	goruntime.LockOSThread()
	if err := boot.Init("wolffia-shim"); err != nil {
		return err
	}
	ready := os.NewFile(boot.FDReady, "ready")
	b, err := boot.Read()
	if err != nil {
		return err
	}
	step.Reached("begun")
	unix.Umask(0o022) // for what is composed; what is ours alone lies in directories of 0700
	s := &shim{boot: b, control: os.NewFile(boot.FDControl, "control"), ready: ready}
	if err := s.run(backends); err != nil {
		boot.Report{Failure: boot.Failed(err)}.Send(ready)
		return err
	}
	return nil
}

// A shim is the state of Main.
type shim struct {
	boot    *boot.Params
	control *os.File
	ready   io.WriteCloser
	keeper  *os.File // nil: the sandbox is in no engine

	inst       *launch.Instance
	group      *cgroup.Group // its own; nil: none
	gone       chan struct{} // closed when the backend has ended
	complaints *tail         // what the backend and PID 1 say
	drained    chan struct{} // closed when they say no more
	relay      *relay
	tree       *treeConn // nil: no codebase
	life       *lifetime

	warming  atomic.Bool // the tree is being listed
	orphaned atomic.Bool // the caller to which the sandbox is bound has ended

	mu      sync.Mutex
	outcome *statedir.Status // how the sandbox is to end; nil: not asked for; guarded by mu
}

// step tells the caller what is being done, so that a hang has a name.
func (s *shim) step(name string) { boot.Report{Step: name}.Send(s.ready) }

// run starts the sandbox and stays until it has ended.
func (s *shim) run(backends []launch.Backend) error {
	spec, err := s.prepare()
	if err != nil {
		return err
	}
	if err := s.launch(backends, spec); err != nil {
		return err
	}
	listener, err := s.greet()
	if err != nil {
		_ = s.inst.Kill()
		_ = s.inst.Stream.Close()
		_ = os.Remove(statedir.SocketComing(s.boot.Run))
		if !boot.Within(boot.KillLimit, s.gone) {
			err = errors.Join(err, errors.New("its processes do not end"))
		}
		return err
	}
	boot.Report{Ready: true}.Send(s.ready)
	_ = s.ready.Close()
	step.Reached("ready")
	go func() { // ends with the disk's answer
		config := os.NewFile(boot.FDConfig, "config.json")
		_ = errors.Join(config.Sync(), config.Close())
	}()
	go s.accept(listener) // ends with the process
	go s.watchTree()      // ends with the process
	if c := &s.boot.Config; c.CodebasePath != "" && !c.BoundToCaller && s.boot.Engine == "" {
		s.warming.Store(true)
		go func() { // ends at its limit, or with the tree
			warm(rootfs.TreeDir(s.boot))
			s.warming.Store(false)
		}()
	}
	go s.watchCaller() // ends with the process
	s.hold()
	return nil
}

// prepare makes everything that the backend needs, in the shim's own mount
// namespace, and hands the mounted tree to its server.
func (s *shim) prepare() (*launch.Spec, error) {
	b := s.boot
	s.step("prepare")
	if err := statedir.PrepareRun(b.Run); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "prepare the sandbox's directory: %w", err)
	}
	step.Reached("prepared")
	if b.Engine != "" {
		return s.receiveKept()
	}
	s.step("compose the root directory")
	sockets := rootfs.ListSockets(b)
	spec, err := rootfs.Compose(b)
	if err != nil {
		return nil, err
	}
	if b.Config.CodebasePath != "" {
		if err := s.mount(); err != nil {
			return nil, err
		}
	}
	return spec, rootfs.KeepSockets(b, spec, <-sockets, rootfs.EmptyDir(b.Mnt))
}

// mount mounts the codebase and hands it to its server.
func (s *shim) mount() error {
	b := s.boot
	s.step("mount the codebase")
	step.Reached("composed")
	device, err := fusefs.Mount(rootfs.TreeDir(b), nil)
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "uid %d, as which the sandbox runs, cannot mount the codebase: %w; wolffia doctor says what helps", b.Config.UID, err)
	}
	if err := errors.Join(boot.SendDevice(s.control, device), device.Close()); err != nil {
		if why := boot.ReceiveServing(s.control); why != nil {
			err = why // it ended before it could take it, and has said why
		}
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	step.Reached("mounted")
	return nil
}

// launch starts the backend.
func (s *shim) launch(backends []launch.Backend, spec *launch.Spec) (err error) {
	name := s.boot.Config.Runtime
	i := slices.IndexFunc(backends, func(b launch.Backend) bool { return b.Name() == name })
	if i < 0 {
		return runtime.Errorf(runtime.ErrUnsupported, "there is no runtime %q", name)
	}
	s.step("launch " + name)
	if err := adopt(); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if s.boot.Held {
		spec.Gate = os.NewFile(boot.FDGate, "gate")
	}
	if s.inst, err = backends[i].Launch(spec); err != nil {
		return err
	}
	step.Reached("launched")
	if s.boot.Held {
		_ = spec.Gate.Close()
		s.step("limit it")
		boot.Report{Held: s.inst.PID}.Send(s.ready)
	}
	s.complaints, s.drained, s.gone = newTail(os.Stderr), make(chan struct{}), make(chan struct{})
	go func() { // ends with the backend
		_, _ = io.Copy(s.complaints, s.inst.Stderr)
		close(s.drained)
	}()
	go func() { // ends with the backend
		_ = s.inst.Wait()
		killOrphans()
		close(s.gone)
	}()
	return nil
}

// greet waits until all parts are there, and opens the socket.
func (s *shim) greet() (*net.UnixListener, error) {
	b := s.boot
	if b.Config.CodebasePath != "" {
		// PID 1 is on its way meanwhile; whoever looks at the mount waits.
		s.step("serve the codebase")
		if err := boot.ReceiveServing(s.control); err != nil {
			return nil, runtime.WithClass(runtime.ErrUnavailable, err)
		}
		s.tree = newTreeConn(s.control)
	}
	listener, err := listen(b.Run) // nobody knows of it yet
	if err != nil {
		return nil, err
	}
	s.step("wait for PID 1")
	step.Reached("listening")
	s.relay = newRelay(s.inst.Stream)
	err = s.relay.hello(helloLimit)
	if b.Held { // and by now let go, so in its group
		s.group = cgroup.Of(s.inst.PID, "wolffia-"+b.ID+"-")
	}
	if err != nil {
		blame := s.blame()
		_ = s.inst.Kill()
		boot.Within(boot.KillLimit, s.drained)
		if said := s.complaints.String(); said != "" {
			err = errors.New(said)
		}
		if blame != "" {
			err = fmt.Errorf("%s (%w)", blame, err)
		}
		return nil, runtime.Errorf(runtime.ErrUnavailable, "%s could not start the sandbox: %w", b.Config.Runtime, err)
	}
	if err := s.live(); err != nil {
		return nil, err
	}
	step.Reached("PID 1 there")
	if err := os.Rename(statedir.SocketComing(b.Run), statedir.Socket(b.Run)); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "say that the sandbox runs: %w", err)
	}
	step.Reached("socket in place")
	return listener, nil
}

// live has the sandbox end when its lifetime is over, or when PID 1 does not answer.
func (s *shim) live() error {
	initPID := sync.OnceValue(func() int { return initOf(s.inst.PID) }) // not before anybody waits: a start does not
	s.relay.load = func() load {
		if pid := initPID(); pid > 0 {
			return loadOf(pid)
		}
		return load{}
	}
	s.relay.dead = func(silent time.Duration) {
		reason := fmt.Sprintf("PID 1 has not answered for %v: it is stopped, frozen, or hung", silent)
		s.end(statedir.Status{State: runtime.StateDead, Reason: reason}, 0)
	}
	s.life = &lifetime{relay: s.relay, end: s.expire}
	if err := s.life.begin(s.boot.Lifetime); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return nil
}

// watchTree passes on the tree server's answers, and ends the sandbox when it
// has ended.
func (s *shim) watchTree() {
	if s.tree == nil {
		return
	}
	s.tree.run()
	outcome := statedir.Status{State: runtime.StateDead, Reason: "the tree server has ended"}
	if blame := s.blame(); blame != "" {
		outcome.Reason += ": " + blame
	}
	s.end(outcome, 0)
}

// watchCaller ends a sandbox that is bound to its caller with that.
func (s *shim) watchCaller() {
	if !s.boot.Config.BoundToCaller {
		return
	}
	_, _ = os.NewFile(boot.FDAlive, "alive").Read(make([]byte, 1))
	s.orphaned.Store(true)
	s.end(statedir.Status{State: runtime.StateStopped}, 0)
}

// hold passes on what PID 1 says until that is gone, and records the end. It
// is the main goroutine's: with it the main thread stays.
func (s *shim) hold() {
	outcome := statedir.Status{State: runtime.StateDead, Reason: "PID 1 has ended"}
	if err := s.relay.run(); errors.Is(err, wire.ErrProtocol) {
		outcome.Reason = "PID 1 broke the protocol: " + err.Error()
	}
	step.Reached("PID 1 gone")
	if blame := s.blame(); blame != "" {
		outcome.Reason += ": " + blame
	}
	s.mu.Lock()
	asked := s.outcome // what ends from now on is no reason
	s.mu.Unlock()
	_ = s.inst.Kill()
	if !boot.Within(boot.KillGrace, s.gone) || s.warming.Load() {
		// If the tree server is stuck, whoever waits for it cannot be killed.
		_ = unix.Unmount(rootfs.TreeDir(s.boot), unix.MNT_FORCE)
	}
	if !boot.Within(boot.KillLimit, s.gone) {
		outcome.Reason += "; its processes do not end"
	}
	boot.Within(time.Second, s.drained)
	if said := s.complaints.String(); said != "" {
		outcome.Reason += ": " + said
	}
	step.Reached("backend gone")
	s.mu.Lock() // for good: this is the end
	if asked != nil {
		outcome = *asked
	}
	run := s.boot.Run
	if err := statedir.SetStatus(run, &outcome); err != nil {
		fmt.Fprintln(os.Stderr, "record the end:", err)
	}
	step.Reached("end recorded")
	_ = os.Remove(statedir.Socket(run))
	step.Reached("socket gone")
	if outcome.State == runtime.StateDead {
		fmt.Fprintln(os.Stderr, "the sandbox is dead:", outcome.Reason)
	}
	if s.group != nil && s.tree != nil { // it is in the group, and has its log to write
		s.tree.hangUp()
		boot.Within(boot.TreeLimit, s.tree.over)
	}
	limited := s.group != nil && s.group.Remove(boot.KillLimit) != nil // it may be root's
	if s.orphaned.Load() && !limited && !exists(s.boot.Engine) {
		// Nobody else will. Where the directory is root's, or something is left in
		// an engine or of the limits, List does it.
		_ = unix.Unmount(s.boot.Mnt, unix.MNT_DETACH)
		_ = statedir.RemoveFrom(run)
	}
}

// blame says whether the limit of memory may be why the sandbox ends, or "". It
// is asked before the last process is gone, and with it perhaps the group.
func (s *shim) blame() string {
	if s.group == nil || s.group.OOMKills() == 0 {
		return ""
	}
	return fmt.Sprintf("its limit of memory, %d bytes, was reached, and the kernel killed for it", s.boot.Config.Resources.Memory)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// end ends the sandbox, in good order within grace, by force after it. It does
// not wait: the main goroutine sees PID 1 go and does the rest.
func (s *shim) end(outcome statedir.Status, grace time.Duration) {
	s.mu.Lock()
	if s.outcome == nil {
		s.outcome = &outcome
	}
	s.mu.Unlock()
	// PID 1 ends after grace by itself, if it still can.
	time.AfterFunc(grace+time.Second, func() { _ = s.inst.Kill() })
	if err := s.relay.shutdown(grace); err != nil {
		_ = s.inst.Kill()
	}
}

// listen makes the shim's socket. A socket's address has room for 107 bytes,
// a path may be longer: hence the descriptor of its directory (unix(7)).
func listen(run string) (*net.UnixListener, error) {
	dir, err := os.OpenFile(run, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	name := filepath.Base(statedir.SocketComing(run))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)})
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "listen: %w", err)
	}
	l.SetUnlinkOnClose(false) // by a name that means something else by then
	return l, nil
}

// A tail passes on what is written, up to a bound, since it may come from inside, and
// keeps the end of it.
type tail struct {
	w    io.Writer
	mu   sync.Mutex
	room int    // bytes that may still be passed on; guarded by mu
	last []byte // guarded by mu
}

const (
	tailSize = 4 << 10 // bytes
	logSize  = 1 << 20 // bytes, for each time that the sandbox runs
)

func newTail(w io.Writer) *tail { return &tail{w: w, room: logSize} }

// Write never fails: what writes would wait for ever if nobody read it any more.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if n := len(t.last) - tailSize; n > 0 {
		t.last = append([]byte(nil), t.last[n:]...)
	}
	if t.room > 0 {
		n := min(len(b), t.room)
		t.room -= n
		_, _ = t.w.Write(b[:n])
		if t.room == 0 {
			_, _ = fmt.Fprintf(t.w, "\n[the sandbox has said more than %d bytes here: the rest is left out]\n", logSize)
		}
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}
