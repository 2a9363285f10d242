package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/fusemount"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/inside"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/cgroup"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// helloLimit is how long PID 1 may take to send its greeting.
const helloLimit = 40 * time.Second

// prepare composes the root directory in the shim's own mount namespace, mounts the
// codebase, and sends the mount to the tree server. Or the keeper does so.
func (s *shim) prepare(place launch.Place) (*launch.Spec, error) {
	b := s.boot
	s.step("prepare")
	if err := statedir.PrepareRun(b.Run); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "prepare the sandbox's directory: %w", err)
	}
	step.Reached("prepared")
	if b.KeeperDir != "" {
		return s.receiveAttached(place == launch.InEngine)
	}
	s.step("compose the root directory")
	sockets := rootfs.ListSockets(b)
	spec, err := rootfs.Compose(b, s.view)
	if err != nil {
		return nil, err
	}
	if b.Config.CodebasePath != "" {
		if err := s.mount(); err != nil {
			return nil, err
		}
	}
	if err := rootfs.KeepSockets(b, spec, <-sockets); err != nil {
		return nil, err
	}
	return spec, rootfs.Nest(b, spec)
}

// mount mounts the codebase and sends the mount to the tree server, if it has one.
func (s *shim) mount() (err error) {
	s.step("mount the codebase")
	step.Reached("composed")
	if s.boot.Config.Native() {
		return s.bindTree()
	}
	device, err := fusemount.Mount(rootfs.TreeDir(s.boot), &fusemount.MountOptions{AllowOther: s.boot.Config.Root})
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "uid %d, as which the sandbox runs, cannot mount the codebase (without FUSE there are --filter static, and --preset full-access): %w; wolffia doctor says what helps", s.boot.Config.UID, err)
	}
	if err := errors.Join(boot.SendDevice(s.control, device), device.Close()); err != nil {
		// the tree server has ended, with a reason
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
			if why := boot.ReceiveServing(s.control); why != nil {
				err = why
			}
		} // else it waits for the mount, and ends with the shim
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	step.Reached("mounted")
	go prefetchRootAttr(rootfs.TreeDir(s.boot)) // ends with the answer, or with the tree server
	return nil
}

// view is a rootfs.View: the second tree server serves it. It ends by the hang-up of FDSystem.
func (s *shim) view(dir string) (served func() error, err error) {
	device, err := fusemount.Mount(dir, &fusemount.MountOptions{AllowOther: true})
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "uid %d, as which the sandbox runs, cannot mount a view of /usr: %w; wolffia doctor says what helps", s.boot.Config.UID, err)
	}
	control := os.NewFile(boot.FDSystem, "system")
	s.system = newTreeConn(control)
	err = errors.Join(boot.SendDevice(control, device), device.Close())
	if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) { // else it says why
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return func() error { return boot.ReceiveServing(control) }, nil
}

// prefetchRootAttr has the kernel request the attributes of the tree's root from the tree server.
// The backend needs them when it mounts the tree, and a first command when it enters it: requested
// here, they are cached by then.
func prefetchRootAttr(tree string) {
	var st unix.Stat_t
	_ = unix.Lstat(tree, &st)
}

// launch starts the backend. The main goroutine calls it.
func (s *shim) launch(backend launch.Backend, spec *launch.Spec) (err error) {
	s.step("launch " + backend.Name())
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil { // see killOrphans
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if s.boot.Held {
		spec.Barrier = os.NewFile(boot.FDBarrier, "barrier")
	}
	if backend.Can.Has(launch.PassClients) {
		if s.fdSocket, spec.Clients, err = boot.ControlPair(); err != nil {
			return runtime.WithClass(runtime.ErrUnavailable, err)
		}
		defer spec.Clients.Close()
		_ = unix.Shutdown(int(s.fdSocket.Fd()), unix.SHUT_RD) // PID 1 sends nothing on it
	}
	spec.Memory = s.memory()
	inst, err := backend.Launch(spec)
	if err != nil {
		return err
	}
	s.inst = &instance{Instance: inst, pid1: sync.OnceValue(func() hostInit { return findInit(inst.PID) })}
	step.Reached("launched")
	if s.boot.Held {
		s.step("limit it")
		boot.Report{Held: s.inst.PID}.Send(s.ready)
	}
	s.inst.watch()
	s.freePorts()
	return nil
}

// freePorts lets programs listen at ports below 1024, as root could in a network of its own. It
// works while PID 1 starts, and s.portsFree is closed at its end.
func (s *shim) freePorts() {
	s.portsFree = make(chan struct{})
	if s.inst.Namespaced == nil || s.boot.Config.Network == runtime.NetworkHost {
		close(s.portsFree)
		return
	}
	go func() { // ends with the start of PID 1
		defer close(s.portsFree)
		if pid := s.inst.Namespaced(); pid > 0 {
			if err := inside.FreePorts(pid); err != nil { // a container may have /proc/sys read-only
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
}

// connect waits for the tree server and PID 1, and returns the shim's socket, which is
// in its place.
func (s *shim) connect() (*os.File, error) {
	b := s.boot
	if b.Config.Serves() {
		// PID 1 starts meanwhile. A process that uses the mount waits for the server.
		s.step("serve the codebase")
		if err := boot.ReceiveServing(s.control); err != nil {
			return nil, runtime.WithClass(runtime.ErrUnavailable, err)
		}
		s.tree = newTreeConn(s.control)
		s.tree.question = s.question
	}
	listener, err := listen(b.Run)
	if err != nil {
		return nil, err
	}
	s.step("wait for PID 1")
	step.Reached("listening")
	s.relay = newRelay(s.inst.Stream)
	if s.inst.Again != nil {
		s.relay.again = func() (io.ReadWriteCloser, error) {
			s.mu.Lock()
			ends := s.outcome != nil
			s.mu.Unlock()
			if ends { // so PID 1 has ended
				return nil, io.EOF
			}
			return s.inst.Again()
		}
	}
	if s.tree != nil && b.Can.Has(launch.ShimMounts) {
		s.prefetcher = &prefetcher{params: b, relay: s.relay}
	}
	// A container that its killed engine had started before may get the end of its old input at
	// once.
	if b.HasMemory {
		err = s.relay.restored()
	}
	if err == nil {
		err = s.relay.hello(helloLimit, b.KeeperDir != "")
	}
	if err != nil && s.relay.again != nil && s.relay.reconnect() == nil {
		err = nil
	}
	if b.Held { // PID 1 has passed the barrier, so it is in its group
		s.group = cgroup.Of(s.inst.PID, "wolffia-"+b.ID+"-")
	}
	if err != nil {
		_ = s.inst.Kill()
		boot.Within(boot.KillLimit, s.inst.drained)
		if text := s.inst.stderr.String(); text != "" {
			err = errors.New(text)
			if why := s.notRestored(text); why != nil {
				return nil, why
			}
		}
		return nil, runtime.Errorf(runtime.ErrUnavailable, "%s could not start the sandbox: %w; wolffia doctor says what helps", b.Config.Runtime, err)
	}
	if err := s.live(); err != nil {
		return nil, err
	}
	s.relayed = make(chan error, 1)
	s.net.boot, s.net.pid1, s.net.self, s.net.over = b, s.inst.pid1, s.self, make(chan struct{})
	go func() { // ends with PID 1's stream
		s.relayed <- s.relay.run()
		close(s.net.over)
	}()
	step.Reached("PID 1 there")
	<-s.portsFree
	if err := s.filter(); err != nil {
		return nil, err
	}
	if err := s.openPorts(); err != nil {
		return nil, err
	}
	step.Reached("ports open")
	if err := s.clearMemory(); err != nil {
		return nil, err
	}
	s.watch(s.tree, "the tree server")
	s.watch(s.system, "the server of /usr")
	if b.Elsewhere && s.tree != nil {
		s.copy = &replicated{dir: b.Config.MountPointOrDefault(), tree: s.tree, self: s.self}
		if err := s.copy.deliver(s.step); err != nil {
			return nil, err
		}
	}
	place := statedir.Socket(b.Run)
	if s.pooled != nil {
		place = statedir.PooledSocket(b.Run)
	}
	if err := os.Rename(statedir.SocketComing(b.Run), place); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "put the sandbox's socket in its place: %w", err)
	}
	step.Reached("socket in place")
	return listener, nil
}

// live starts the sandbox's lifetime, and has PID 1 watched while a client waits for it.
func (s *shim) live() error {
	s.relay.load = func() load {
		pid1 := s.inst.pid1()
		if pid1.pid == 0 {
			return load{}
		}
		now := loadOf(pid1.pid)
		if now.blocked {
			pid1.unblock()
		}
		return now
	}
	s.relay.dead = func(silent time.Duration) {
		reason := fmt.Sprintf("PID 1 has not answered for %v: it is stopped, frozen, or hung", silent)
		s.end(statedir.Status{State: runtime.StateDead, Reason: reason}, 0)
	}
	s.life = &lifetime{relay: s.relay, end: s.expire}
	if a := s.boot.Config.IdleAction; a != "" && a != runtime.IdleDestroy {
		s.life.idle = s.idle
	}
	if err := s.life.begin(s.boot.Lifetime); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return nil
}

// listen makes the shim's socket, which blocks. A socket's address has room for 107 bytes, and a
// path may be longer: hence the descriptor of its directory (unix(7)).
func listen(run string) (*os.File, error) {
	dir, err := unix.Open(run, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	l := os.NewFile(uintptr(fd), "socket")
	name := filepath.Base(statedir.SocketComing(run))
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir, name)})
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		return nil, errors.Join(runtime.Errorf(runtime.ErrUnavailable, "listen: %w", err), l.Close())
	}
	return l, nil
}
