// Package keeper is the process that holds a sandbox in a container engine, such as
// Docker. The caller starts it beside the shim, as itself and in the host's
// namespaces. Access to an engine is as good as root, so no process that reads
// what the guest sends has it: the shim gets the connection to PID 1 only.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/internal/boot"
	"wolffia/internal/cleanup"
	"wolffia/internal/rootfs"
	"wolffia/internal/step"
	"wolffia/runtime"
	"wolffia/runtime/docker/engine"
	"wolffia/runtime/launch"
)

// Main is the main of the program with the given name, wolffia-docker:
//
//	PROGRAM keep ID    is the keeper of a sandbox
//	PROGRAM clean ID   removes what a keeper that was killed has left
//	PROGRAM image ID   gets the image of a sandbox that is to be made
//	PROGRAM scan DIR   lists the sandboxes of a state directory
func Main(name string) error {
	if err := boot.Init(name); err != nil {
		return err
	}
	b, err := boot.Read()
	if err != nil {
		return err
	}
	if len(os.Args) != 3 || os.Args[2] != b.Subject() {
		return errors.New("this is started by wolffia, not by hand")
	}
	unix.Umask(0o022) // as for the shim; what is ours alone lies in a directory of 0700
	e, err := engine.Open(b.StateDir, b.ID, &b.Config.SandboxConfig)
	k := &keeper{boot: b, engine: e, made: b.Lost}
	switch os.Args[1] {
	case "keep":
		k.socket = os.NewFile(boot.FDKeeper, "shim")
		if err == nil {
			err = k.keep()
		}
		last := boot.Report{Ready: true}
		if err != nil {
			last = boot.Failed(err)
		}
		_ = boot.SendPacket(k.socket, last, nil)
		return err
	case "clean":
		if err == nil {
			err = k.clean(true)
		}
		return k.answer(boot.Report{}, err)
	case "scan":
		var found []boot.Found
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), boot.LostLimit)
			defer cancel()
			found, err = e.Scan(ctx)
		}
		return k.answer(boot.Report{Found: found}, err)
	case "image":
		var image *boot.ImageInfo
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), boot.ImageLimit)
			defer cancel()
			image, err = e.Image(ctx, func(name string) { boot.Report{Step: name}.Send(os.Stdout) })
		}
		return k.answer(boot.Report{Image: image}, err)
	}
	return fmt.Errorf("%s does not know %q", name, os.Args[1])
}

// A keeper holds a sandbox in its engine.
type keeper struct {
	boot   *boot.Params
	engine *engine.Engine
	made   bool     // something may be in the engine, whatever the mark says
	socket *os.File // to the shim
}

// answer is the last report to whoever has started us.
func (k *keeper) answer(r boot.Report, err error) error {
	if r.Ready = true; err != nil {
		r = boot.Failed(err)
	}
	r.Send(os.Stdout)
	return nil
}

// keep starts the sandbox and stays until it has ended: by itself, because the
// shim asks for it or is gone, or because of SIGTERM. Then nothing is left.
func (k *keeper) keep() (err error) {
	ready := os.NewFile(boot.FDReady, "ready")
	progress := func(name string) {
		boot.Report{Step: name}.Send(ready)
		step.Reached(name)
	}
	asked, ask := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer ask()
	go func() { // ends with the shim
		_, file, _ := boot.ReceivePacket(k.socket, make([]byte, boot.MaxPacket))
		_ = boot.CloseFile(file)
		ask()
	}()
	control := os.NewFile(boot.FDControl, "control")
	defer func() { err = errors.Join(err, k.clean(false)) }()

	progress("prepare what the engine is shown")
	if err := k.clear(false); err != nil {
		return err
	}
	spec, err := k.compose()
	if err != nil {
		return err
	}
	if err := k.mount(control, progress); err != nil {
		return err
	}
	step.Reached("keeper: shown")
	connection, gone, err := k.engine.Start(asked, spec, progress)
	if err != nil {
		return err
	}
	k.made = true
	step.Reached("keeper: started")
	if err := errors.Join(boot.SendPacket(k.socket, boot.Report{Ready: true}, connection), connection.Close(), ready.Close()); err != nil {
		return err
	}
	select {
	case err = <-gone:
	case <-asked.Done():
	}
	step.Reached("keeper: over")
	return err
}

// compose puts the parts of the sandbox down where the engine finds them.
func (k *keeper) compose() (*launch.Spec, error) {
	b := k.boot
	spec, err := rootfs.NewSpec(b)
	if err == nil {
		err = os.Mkdir(b.Engine, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	spec.Dir, spec.CreatedAt = b.Engine, b.Config.CreatedAt
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
	// Engines mount what is deeper later, whatever the order.
	return spec, rootfs.KeepSockets(b, spec, <-rootfs.ListSockets(b))
}

// mount mounts the codebase where the engine can see it, and hands it to its
// server.
func (k *keeper) mount(control *os.File, progress func(string)) error {
	if k.boot.Config.CodebasePath == "" {
		return control.Close()
	}
	progress("mount the codebase")
	device, err := fusefs.MountForOthers(rootfs.TreeDir(k.boot))
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "show the codebase to the engine: %w", err)
	}
	if err := errors.Join(boot.SendDevice(control, device), device.Close(), control.Close()); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return nil
}

// clean ends the sandbox in the engine and removes what was put down. With
// forGood, nothing is left, for the next start neither.
func (k *keeper) clean(forGood bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), boot.EndLimit)
	defer cancel()
	// Who waits for a tree server that is stuck cannot be killed.
	stuck := time.AfterFunc(boot.KillGrace, func() { _ = fusefs.Unmount(rootfs.TreeDir(k.boot), true) })
	kept, err := false, error(nil)
	if _, serr := os.Lstat(engine.MarkFile(k.boot.Engine)); k.made || !errors.Is(serr, fs.ErrNotExist) {
		kept, err = k.engine.End(ctx, forGood, engine.Making(k.boot.Engine))
	}
	step.Reached("keeper: ended")
	stuck.Stop()
	if err != nil {
		return errors.Join(err, fusefs.Unmount(rootfs.TreeDir(k.boot), true))
	}
	return k.clear(!kept)
}

// clear removes what was put down, the directory itself only with all.
func (k *keeper) clear(all bool) error {
	dir := k.boot.Engine
	if err := fusefs.Unmount(rootfs.TreeDir(k.boot), false); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	// Not further if the tree is still mounted: then it is no empty directory.
	err := os.Remove(rootfs.TreeDir(k.boot))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = removeFiles(dir, !all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runtime.Errorf(runtime.ErrUnavailable, "remove what the engine was shown: %w", err)
	}
	return nil
}

// removeFiles removes a directory of ours, in which nothing is mounted, name by
// name, or what is in it only, the mark aside.
func removeFiles(dir string, contentOnly bool) error {
	var undo cleanup.Stack
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && !(contentOnly && (path == dir || path == engine.MarkFile(dir))) {
			undo.Add(func() error { return os.Remove(path) })
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	undo.Unwind(&err)
	return err
}
