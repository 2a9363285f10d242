// Package keeper is the monitor process of a sandbox in a container engine, such as
// Docker (as conmon is for a container of Podman's). The caller starts it beside the shim,
// with its own user and in the host's namespaces. Access to an engine is as good as root,
// so no process that reads data from the guest has it: the shim gets the connection to
// PID 1 only.
package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/fusemount"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/step"
	"wolffia/keeper/mark"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// An Engine runs PID 1 of a sandbox, or lists all sandboxes of a state directory.
type Engine interface {
	// Start starts PID 1. It returns the connection to it, which the caller closes, and a channel on
	// which the end of PID 1 or the engine is sent, with its reason. It marks the sandbox before it
	// creates anything (see [mark.Making]). After an error, or if ctx ends meanwhile, the caller must
	// call End.
	Start(ctx context.Context, spec *launch.Spec, step func(string)) (*os.File, <-chan error, error)
	// End ends PID 1, and removes what the engine has of the sandbox, unless that is for the next
	// start and forGood is not set; then it returns its id. making says that the engine may still be
	// creating it, for a keeper that was killed.
	End(ctx context.Context, forGood, making bool) (kept string, err error)
	// Freeze has all processes stop, or run on.
	Freeze(ctx context.Context, freeze bool) error
	// Scan returns all sandboxes of the state directory that the engine has.
	Scan(ctx context.Context) ([]boot.Found, error)
	// Image finds the configured image, and has the engine get it. step reports progress.
	Image(ctx context.Context, step func(string)) (*boot.ImageInfo, error)
}

// A Remote is an [Engine] on another machine, which may outlive this one.
type Remote interface {
	Engine
	// Again gets another connection to PID 1 each time that one breaks; the caller closes it.
	Again() <-chan *os.File
	// Renew changes launch.Spec.Deadline, in the background.
	Renew(deadline time.Time)
	// Claim records whose a sandbox is that was started before it had a user: name, labels,
	// BoundToCaller, and the time of its creation, in ms since 1970. It is called once, after Start.
	Claim(ctx context.Context, config *runtime.SandboxConfig, createdAt int64) error
}

// A Program is one that keeps sandboxes.
type Program struct {
	Name string
	// Open returns the engine for a sandbox of the state directory; with an empty id, for all of
	// them. It does not connect.
	Open func(stateDir, id string, config *runtime.SandboxConfig) (Engine, error)
	// Elsewhere says that the engine is on another machine: no directory is mounted for it.
	Elsewhere bool
}

// Main is the main of a program, such as wolffia-oci:
//
//	PROGRAM keep TAG   is the keeper of a sandbox
//	PROGRAM clean ID   removes what a keeper that was killed has left
//	PROGRAM image ID   finds or pulls the image of a sandbox that is to be created
//	PROGRAM scan DIR   lists the sandboxes of a state directory
//
// keep reports to the shim, the others on standard output.
func Main(p *Program) error {
	if err := boot.Init(p.Name); err != nil {
		return err
	}
	b, err := boot.Read()
	if err != nil {
		return err
	}
	if len(os.Args) != 3 || os.Args[2] != b.Subject() {
		return errors.New("this is started by wolffia, not by hand")
	}
	unix.Umask(0o022) // as for the shim; private files are in a directory of mode 0700
	e, err := p.Open(b.StateDir, b.ID, &b.Config.SandboxConfig)
	k := &keeper{boot: b, engine: e, elsewhere: p.Elsewhere, made: b.Lost}
	k.unclaimed.Store(b.Pooled != nil)
	if os.Args[1] == "keep" {
		k.socket = os.NewFile(boot.FDKeeper, "shim")
		if err == nil {
			err = k.keep()
		}
		_ = boot.SendPacket(k.socket, boot.Report{Ready: err == nil, Failure: boot.Failed(err)}, nil)
		return err
	}
	within := func(limit time.Duration, f func(context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err == nil {
			err = f(ctx)
		}
	}
	var r boot.Report
	switch os.Args[1] {
	case "clean":
		within(boot.EndLimit, func(ctx context.Context) error { return k.clean(ctx, true) })
	case "scan":
		within(boot.LostLimit, func(ctx context.Context) (err error) { r.Found, err = e.Scan(ctx); return err })
	case "image":
		progress := func(name string) { boot.Report{Step: name}.Send(os.Stdout) }
		within(boot.ImageLimit, func(ctx context.Context) (err error) { r.Image, err = e.Image(ctx, progress); return err })
	default:
		return fmt.Errorf("%s has no command %q", p.Name, os.Args[1])
	}
	r.Ready, r.Failure = err == nil, boot.Failed(err)
	r.Send(os.Stdout)
	return nil
}

// A keeper monitors a sandbox in its engine.
type keeper struct {
	boot   *boot.Params
	engine Engine
	// elsewhere is Program.Elsewhere
	elsewhere bool
	made      bool        // the engine may have the container, whatever the mark says
	unclaimed atomic.Bool // it is pooled: nothing of it outlives it
	socket    *os.File    // to the shim
}

// keep starts the sandbox and returns when it has ended: by itself, because the shim
// requests it or has ended, or because of SIGTERM. Then it has removed the container, or
// stopped it if that has changes to an image, and all files.
func (k *keeper) keep() (err error) {
	ready := os.NewFile(boot.FDReady, "ready")
	progress := func(name string) {
		boot.Report{Step: name}.Send(ready)
		step.Reached(name)
	}
	asked, ask := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer ask()
	go func() { // ends with the shim, or its request
		defer ask()
		for {
			packet, file, err := boot.ReceivePacket(k.socket, make([]byte, boot.MaxPacket))
			_ = file.Close()
			var r boot.KeeperRequest
			if err != nil || json.Unmarshal(packet, &r) != nil || r.Op == "" {
				return
			}
			remote, is := k.engine.(Remote)
			switch {
			case is && r.Op == boot.OpRenew:
				remote.Renew(r.Deadline)
			case is && r.Op == boot.OpActivate && r.Config != nil:
				k.claim(asked, remote, &r)
			default:
				k.freeze(asked, r.Op)
			}
		}
	}()
	control := os.NewFile(boot.FDControl, "control")
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), boot.EndLimit)
		defer cancel()
		switch cerr := k.clean(ctx, k.unclaimed.Load()); {
		case err == nil:
			err = cerr
		case cerr != nil: // most often for the same reason
			fmt.Fprintln(os.Stderr, "end the sandbox in the engine:", cerr)
		}
	}()

	progress("prepare what the engine is shown")
	if err := k.clear(false); err != nil {
		return err
	}
	spec, err := k.compose()
	if err != nil {
		return err
	}
	if k.elsewhere {
		err = control.Close()
	} else {
		err = k.mount(control, progress)
		if err == nil {
			err = rootfs.Nest(k.boot, spec)
		}
	}
	if err != nil {
		return err
	}
	step.Reached("keeper: shown")
	connection, gone, err := k.engine.Start(asked, spec, progress)
	if err != nil {
		return err
	}
	k.made = true
	step.Reached("keeper: started")
	if err := errors.Join(boot.SendPacket(k.socket, boot.Report{Ready: true}, connection), connection.Close(), ready.Close(), k.sendHand(spec)); err != nil {
		return err
	}
	var again <-chan *os.File
	if remote, is := k.engine.(Remote); is {
		again = remote.Again()
	}
	for {
		select {
		case connection := <-again:
			err := boot.SendPacket(k.socket, boot.Report{Ready: true}, connection)
			if err = errors.Join(err, connection.Close()); err != nil {
				return err
			}
			continue
		case err = <-gone:
		case <-asked.Done():
		}
		step.Reached("keeper: over")
		return err
	}
}

// freezeLimit is how long the engine may take to pause or unpause the container.
const freezeLimit = 8 * time.Second

// freeze has the engine do what the shim asks for, and answers.
func (k *keeper) freeze(ctx context.Context, op string) {
	ctx, cancel := context.WithTimeout(ctx, freezeLimit)
	defer cancel()
	err := k.engine.Freeze(ctx, op == boot.OpPause)
	step.Reached("keeper: " + op)
	_ = boot.SendPacket(k.socket, boot.Report{Step: op, Failure: boot.Failed(err)}, nil)
}

// claim has the cluster record whose the sandbox is, and answers.
func (k *keeper) claim(ctx context.Context, remote Remote, r *boot.KeeperRequest) {
	ctx, cancel := context.WithTimeout(ctx, freezeLimit)
	defer cancel()
	err := remote.Claim(ctx, r.Config, r.CreatedAt)
	k.unclaimed.Store(err != nil)
	_ = boot.SendPacket(k.socket, boot.Report{Step: boot.OpActivate, Failure: boot.Failed(err)}, nil)
}

// compose writes the files of the sandbox that the engine mounts.
func (k *keeper) compose() (*launch.Spec, error) {
	b := k.boot
	spec, err := rootfs.NewSpec(b)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(b.KeeperDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if k.elsewhere {
		spec.Dir, spec.CreatedAt, spec.Scratch = b.KeeperDir, b.Config.CreatedAt, []string{b.Config.MountPointOrDefault()}
		spec.Deadline = b.Deadline()
		return spec, nil
	}
	spec.Dir, spec.CreatedAt, spec.OpenFiles = b.KeeperDir, b.Config.CreatedAt, launch.OpenFiles(files.Max)
	if err := rootfs.ComposeRoot(b, spec); err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	for _, dir := range spec.HostEtc {
		spec.Binds = append(spec.Binds, runtime.Mount{Source: "/etc/" + dir, Target: "/etc/" + dir})
	}
	if err := rootfs.ComposeTree(b, spec); err != nil {
		return nil, err
	}
	if err := os.Mkdir(rootfs.EmptyDir(b), 0o555); err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if rootfs.Reached(&b.Config.SandboxConfig) {
		spec.Hand = rootfs.HandDir(b)
		if err := errors.Join(os.Mkdir(spec.Hand, 0o755), os.Lchown(spec.Hand, b.Config.UID, b.Config.GID)); err != nil {
			return nil, runtime.WithClass(runtime.ErrUnavailable, err)
		}
	}
	// Engines mount the deeper target later, whatever the order.
	return spec, rootfs.KeepSockets(b, spec, <-rootfs.ListSockets(b))
}

// sendHand gives the directory of launch.HandPath to the shim, if it exists: to a shim whose
// user root dropped to the way there is closed.
func (k *keeper) sendHand(spec *launch.Spec) error {
	if spec.Hand == "" {
		return nil
	}
	dir, err := os.OpenFile(spec.Hand, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return errors.Join(boot.SendPacket(k.socket, boot.Report{Ready: true}, dir), dir.Close())
}

// mount mounts the codebase in the host's mount namespace, for the engine, and sends the
// mount to the tree server.
func (k *keeper) mount(control *os.File, progress func(string)) error {
	if !k.boot.Config.Serves() {
		return control.Close()
	}
	progress("mount the codebase")
	place, err := os.Open(rootfs.TreeDir(k.boot))
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	defer place.Close()
	device, err := fusemount.MountForOthers(place.Name())
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "show the codebase to the engine: %w", err)
	}
	// Where an engine does not see the mount, no program can write below it.
	if err := place.Chmod(0); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, errors.Join(err, device.Close()))
	}
	if err := errors.Join(boot.SendDevice(control, device), device.Close(), control.Close()); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return nil
}

// clean ends the sandbox in the engine and removes its files. With forGood it removes
// also what the next start would use.
func (k *keeper) clean(ctx context.Context, forGood bool) error {
	// A process that waits for a tree server which is stuck cannot be killed.
	stuck := time.AfterFunc(boot.KillGrace, func() { _ = fusemount.Unmount(rootfs.TreeDir(k.boot), true) })
	kept, err := "", error(nil)
	if _, serr := os.Lstat(mark.File(k.boot.KeeperDir)); k.made || !errors.Is(serr, fs.ErrNotExist) {
		kept, err = k.engine.End(ctx, forGood, mark.Making(k.boot.KeeperDir))
	}
	step.Reached("keeper: ended")
	stuck.Stop()
	if err != nil {
		return errors.Join(err, mark.SetAdrift(k.boot.KeeperDir), fusemount.Unmount(rootfs.TreeDir(k.boot), true))
	}
	// If another process has removed the container that keeps changes, the mark stays, so that each start
	// says it.
	return k.clear(forGood || kept == "" && !mark.Keeps(k.boot.KeeperDir))
}

// clear removes the files that the engine mounts; with all, also their directory and the
// mark in it.
func (k *keeper) clear(all bool) error {
	dir, tree := k.boot.KeeperDir, rootfs.TreeDir(k.boot)
	if err := fusemount.Unmount(tree, false); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	err := rmtree.RemovePath(dir, filepath.Base(tree)) // fails if the codebase is still mounted
	if all && err == nil {
		err = rmtree.RemovePath(filepath.Dir(dir), filepath.Base(dir))
	} else if err == nil {
		var files []os.DirEntry
		files, err = os.ReadDir(dir)
		for _, f := range files {
			if path := filepath.Join(dir, f.Name()); path != mark.File(dir) {
				err = errors.Join(err, rmtree.RemovePath(dir, f.Name()))
			}
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runtime.Errorf(runtime.ErrUnavailable, "remove the files for the engine: %w", err)
	}
	return nil
}
