package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/egress"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/host/staticfs"
	"wolffia/internal/sys/cgroup"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Main is the shim's main: it runs one sandbox until that has ended. version is that of the
// program, which it reports to the caller. filter starts networks that names filter; nil: this
// program has none.
func Main(version string, filter egress.Start, backends ...launch.Backend) error {
	goruntime.LockOSThread() // the backend dies with the thread that starts it
	if err := boot.Init("wolffia-shim"); err != nil {
		return err
	}
	ready := os.NewFile(boot.FDReady, "ready")
	b, err := boot.Read()
	if err != nil {
		return err
	}
	step.Reached("begun")
	// for the files that the sandbox sees; private ones are in directories of mode 0700
	unix.Umask(0o022)
	s := &shim{boot: b, version: version, startFilter: filter, control: os.NewFile(boot.FDControl, "control"), ready: ready}
	if b.Pooled != nil {
		s.pooled = new(pooled)
	}
	if i := slices.IndexFunc(backends, func(l launch.Backend) bool { return l.Name() == b.Config.Runtime }); i >= 0 {
		err = s.run(backends[i])
	} else {
		err = runtime.Errorf(runtime.ErrUnsupported, "there is no runtime %q", b.Config.Runtime)
	}
	if err != nil {
		boot.Report{Failure: boot.Failed(err)}.Send(ready)
	}
	return err
}

// A shim is the state of Main. The main goroutine sets all fields but the last three
// groups before it starts others.
type shim struct {
	boot        *boot.Params
	version     string
	startFilter egress.Start // nil: this program cannot filter a network by names
	control     *os.File
	ready       io.WriteCloser

	inst  *instance
	kept  []*os.File    // the memory that the sandbox is restored from; nil: none
	group *cgroup.Group // the sandbox's control group; nil: it has none
	relay *relay
	// the socket that passes clients' connections to PID 1; nil: the relay serves them
	fdSocket   *os.File
	relayed    chan error      // gets the end of relay.run
	tree       *treeConn       // nil: no codebase, or it is mounted natively
	system     *treeConn       // to the server of /usr; nil: none
	copy       *replicated     // nil: its tree is mounted, or it has none
	prefetcher *prefetcher     // nil: the tree is not prefetched
	echoer     *echoer         // nil: the host's changes are not repeated
	static     *staticfs.Stats // nil: the codebase has no static filter
	life       *lifetime
	filtered   *filtered // nil: no names filter the network
	ports      *ports    // nil: none are connected with the host's
	portsFree  chan struct{}
	pooled     *pooled // nil: the sandbox was not started ahead
	// has the keeper record whose a pooled sandbox is from now on
	claimed func(*statedir.Config) error

	clients clients
	asks    asks
	pauses  pauses
	net     insideNetwork

	// the caller to which the sandbox is bound has ended, and the sandbox has nothing to keep
	orphaned  atomic.Bool
	unclaimed atomic.Bool // the sandbox ended, and no process had claimed it

	recording sync.Once // of the outcome

	mu          sync.Mutex
	outcome     *statedir.Status // the requested end; nil: none was requested; guarded by mu
	fastStopped bool             // see fastStop; guarded by mu
}

// step reports progress to the caller, so that a start which hangs names the step.
func (s *shim) step(name string) { boot.Report{Step: name}.Send(s.ready) }

// run starts the sandbox, and returns when it has ended, or an error if it did not start.
func (s *shim) run(backend launch.Backend) error {
	spec, err := s.prepare(backend.Place)
	if err != nil {
		return err
	}
	if err := s.launch(backend, spec); err != nil {
		return err
	}
	listener, err := s.connect()
	if err == nil && s.pooled != nil {
		err = s.initPooled()
	}
	if err != nil {
		_ = s.inst.Kill()
		_ = s.inst.Stream.Close()
		_ = os.Remove(statedir.SocketComing(s.boot.Run))
		_ = os.Remove(statedir.PooledSocket(s.boot.Run))
		if !boot.Within(boot.KillLimit, s.inst.gone) {
			err = errors.Join(err, errors.New("its processes do not end"))
		}
		return err
	}
	if s.pooled == nil {
		s.serveAt(boot.FDClient, true)
	}
	boot.Report{Ready: true, Version: s.version}.Send(s.ready)
	_ = s.ready.Close()
	step.Reached("ready")
	if s.pooled != nil {
		s.startIdleTimer()
	}
	defer goruntime.KeepAlive(listener) // else it is closed
	go s.accept(int(listener.Fd()))     // ends with the process
	go s.watchPlace()                   // ends with the sandbox, or the process
	go s.letEnd()                       // ends with the sandbox
	if s.pooled == nil {
		s.finishStart(&s.boot.Config, os.NewFile(boot.FDConfig, "config.json"), os.NewFile(boot.FDAlive, "alive"))
		s.inst.pid1() // the end needs it
	}
	outcome := s.await()
	s.finish(&outcome)
	return nil
}

// watch has the sandbox end with one of its servers, which may be nil.
func (s *shim) watch(server *treeConn, name string) {
	if server == nil {
		return
	}
	go func() { // ends with the server, or the process
		server.run()
		s.end(statedir.Status{State: runtime.StateDead, Reason: name + " has ended" + s.oom()}, 0)
	}()
}

// syncAfter is when the configuration is written to the disk, so that it takes no time from a
// start and a first command.
const syncAfter = 200 * time.Millisecond

// finishStart does, in the background, what can follow the start or the activation of a sandbox
// with the configuration c. It syncs config, the file with c, to the disk, and fills the kernel's
// caches later, and expects askers. If the sandbox is bound to its caller, it waits for the hang-up
// of alive, and ends the sandbox.
func (s *shim) finishStart(c *statedir.Config, config, alive *os.File) {
	if len(c.Ask) > 0 {
		s.asks.expect(comingLimit)
	}
	sync := func() { _ = errors.Join(config.Sync(), config.Close()) }
	switch {
	case c.CopyOnWrite: // its changes survive a crash of the host, and need the file
		go sync() // ends when the disk has it
	case c.BoundToCaller: // a crash of the host leaves nothing to be started
		_ = config.Close()
	default:
		time.AfterFunc(syncAfter, sync)
	}
	if c.BoundToCaller {
		go func() { // ends with the caller, or the process
			_, _ = alive.Read(make([]byte, 1))
			s.orphaned.Store(!c.CopyOnWrite) // a copied codebase's changes are kept
			s.copy.before(func() { s.end(statedir.Status{State: runtime.StateStopped}, 0) })
		}()
	}
	if s.prefetcher != nil {
		s.tree.onWalk(func() { s.prefetcher.runNow() })
		s.echoer = &echoer{tree: s.tree, dir: rootfs.TreeDir(s.boot), pid1: s.inst.pid1}
		go s.echoer.run() // ends with the tree server, or the process
	}
	switch {
	case s.pooled != nil && s.pooled.prefetched:
	case c.BoundToCaller: // it is rarely idle before its end, and seldom needs prefetching
		s.prefetcher.schedule(prefetchIdle)
	default:
		s.prefetcher.schedule(prefetchLate)
	}
}

// oom returns ": " and a reason if the kernel has killed a process for the limit of
// memory, or "". The control group that tells may end with the last process.
func (s *shim) oom() string {
	if s.group == nil || s.group.OOMKills() == 0 {
		return ""
	}
	return fmt.Sprintf(": its limit of memory, %d bytes, was reached, and the kernel killed a process for it", s.boot.Config.Resources.Memory)
}
