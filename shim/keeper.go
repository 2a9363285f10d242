package shim

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
	"wolffia/internal/cleanup"
	"wolffia/internal/step"
	"wolffia/runtime"
)

// An Engine is a daemon that runs sandboxes for a backend, such as Docker; this
// is its part about one sandbox. It is used by the keeper, a process that the
// caller starts beside the shim, as itself and in the host's namespaces: whoever
// may talk to an engine is as good as root, so that nobody who hears from the
// guest should. The shim has the connection to PID 1 only.
type Engine interface {
	// Start starts PID 1, and returns the connection to it, which the caller
	// closes, and a channel that is sent why PID 1 or the engine has ended. It
	// calls Mark before it makes anything.
	// When the connection is closed, PID 1 ends. If it fails, or ctx ends
	// meanwhile, End is called.
	Start(ctx context.Context, spec *runtime.LaunchSpec, step func(string)) (connection *os.File, gone <-chan error, err error)
	// End ends whatever of the sandbox runs in the engine. What the sandbox has
	// changed in its image is kept, and reported, unless forGood is set. making
	// says that the engine may just be making it, for a keeper that was killed:
	// see Making. What is not the sandbox's is not touched.
	End(ctx context.Context, forGood, making bool) (kept bool, err error)
	// Image finds the image that is asked for, and gets it if it is not there.
	Image(ctx context.Context, step func(string)) (*ImageInfo, error)
	// Scan finds all sandboxes of the state directory that are in the engine, and
	// that this user has made.
	Scan(ctx context.Context) ([]Found, error)
}

// OpenEngine returns the engine's part about a sandbox of the state directory.
type OpenEngine func(stateDir, id string, config *runtime.SandboxConfig) (Engine, error)

// An ImageInfo is what an engine knows of an image.
type ImageInfo struct {
	ID  string   `json:"id"`            // SandboxConfig.ImageID
	Env []string `json:"env,omitempty"` // K=V
	Cwd string   `json:"cwd,omitempty"`
	// Command is what it runs by itself: entry point and arguments.
	Command []string `json:"command,omitempty"`
}

const (
	// endLimit is how long an engine may take to end and remove a sandbox.
	endLimit = 30 * time.Second
	// imageLimit is how long it may take to get an image.
	imageLimit = 30 * time.Minute
)

// EngineMain is the main of a backend's own program:
//
//	PROGRAM keep ID    is the keeper of a sandbox
//	PROGRAM clean ID   removes what a keeper that was killed has left
//	PROGRAM image ID   gets the image of a sandbox that is to be made
//	PROGRAM scan DIR   lists the sandboxes of a state directory
func EngineMain(name string, open OpenEngine) error {
	if err := begin(name); err != nil {
		return err
	}
	b, err := readBoot()
	if err != nil {
		return err
	}
	if len(os.Args) != 3 || os.Args[2] != b.subject() {
		return errors.New("this is started by wolffia, not by hand")
	}
	unix.Umask(0o022) // as for the shim; what is ours alone lies in a directory of 0700
	engine, err := open(b.StateDir, b.ID, &b.Config.SandboxConfig)
	k := &keeper{boot: b, engine: engine, made: b.Lost}
	switch os.Args[1] {
	case "keep":
		k.socket = os.NewFile(fdKeeper, "shim")
		if err == nil {
			err = k.keep()
		}
		last := report{Ready: true}
		if err != nil {
			last = failed(err)
		}
		_ = sendPacket(k.socket, last, nil)
		return err
	case "clean":
		if err == nil {
			err = k.clean(true)
		}
		return k.answer(report{}, err)
	case "scan":
		var found []Found
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), lostLimit)
			defer cancel()
			found, err = engine.Scan(ctx)
		}
		return k.answer(report{Found: found}, err)
	case "image":
		var image *ImageInfo
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), imageLimit)
			defer cancel()
			image, err = engine.Image(ctx, func(name string) { report{Step: name}.send(os.Stdout) })
		}
		return k.answer(report{Image: image}, err)
	}
	return fmt.Errorf("%s does not know %q", name, os.Args[1])
}

// A keeper holds a sandbox in its engine.
type keeper struct {
	boot   *boot
	engine Engine
	made   bool     // something may be in the engine, whatever the mark says
	socket *os.File // to the shim
}

// answer is the last report to whoever has started us.
func (k *keeper) answer(r report, err error) error {
	if r.Ready = true; err != nil {
		r = failed(err)
	}
	r.send(os.Stdout)
	return nil
}

// keep starts the sandbox and stays until it has ended: by itself, because the
// shim asks for it or is gone, or because of SIGTERM. Then nothing is left.
func (k *keeper) keep() (err error) {
	ready := os.NewFile(fdReady, "ready")
	progress := func(name string) {
		report{Step: name}.send(ready)
		step.Reached(name)
	}
	asked, ask := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer ask()
	go func() { // ends with the shim
		_, file, _ := receivePacket(k.socket, make([]byte, maxPacket))
		_ = closeFile(file)
		ask()
	}()
	control := os.NewFile(fdControl, "control")
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
	if err := errors.Join(sendPacket(k.socket, report{Ready: true}, connection), connection.Close(), ready.Close()); err != nil {
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
func (k *keeper) compose() (*runtime.LaunchSpec, error) {
	b := k.boot
	spec, err := newSpec(b)
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
	etc := filepath.Join(b.Engine, "etc")
	var shown []runtime.Mount
	show := func(dir string) error {
		shown = append(shown, runtime.Mount{Source: "/etc/" + dir, Target: "/etc/" + dir})
		return nil
	}
	if b.Config.Image != "" {
		err = writeEtc(etc, &b.Config)
		names := []string{"passwd", "group", "hosts", "hostname"} // the image's own do not know the user, and the host
		if spec.Network == runtime.NetworkHost {
			names = append(names, "resolv.conf")
		}
		for _, name := range names {
			spec.Binds = append(spec.Binds, runtime.Mount{Source: filepath.Join(etc, name), Target: "/etc/" + name})
		}
	} else {
		err = composeRoot(b, spec, etc, show)
	}
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	spec.Binds = append(spec.Binds, shown...)
	if err := composeTree(b, spec); err != nil {
		return nil, err
	}
	if err := os.Mkdir(emptyDir(b.Engine), 0o555); err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	// Engines mount what is deeper later, whatever the order.
	return spec, b.keepSockets(spec, <-b.listAhead(), emptyDir(b.Engine))
}

// mount mounts the codebase where the engine can see it, and hands it to its
// server.
func (k *keeper) mount(control *os.File, progress func(string)) error {
	if k.boot.Config.CodebasePath == "" {
		return control.Close()
	}
	progress("mount the codebase")
	device, err := fusefs.MountForOthers(treeDir(k.boot))
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "show the codebase to the engine: %w", err)
	}
	if err := errors.Join(sendDevice(control, device), device.Close(), control.Close()); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return nil
}

// clean ends the sandbox in the engine and removes what was put down. With
// forGood, nothing is left, for the next start neither.
func (k *keeper) clean(forGood bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	// Who waits for a tree server that is stuck cannot be killed.
	stuck := time.AfterFunc(killGrace, func() { _ = fusefs.Unmount(treeDir(k.boot), true) })
	kept, err := false, error(nil)
	if _, serr := os.Lstat(mark(k.boot.Engine)); k.made || !errors.Is(serr, fs.ErrNotExist) {
		kept, err = k.engine.End(ctx, forGood, Making(k.boot.Engine))
	}
	step.Reached("keeper: ended")
	stuck.Stop()
	if err != nil {
		return errors.Join(err, fusefs.Unmount(treeDir(k.boot), true))
	}
	return k.clear(!kept)
}

// clear removes what was put down, the directory itself only with all.
func (k *keeper) clear(all bool) error {
	dir := k.boot.Engine
	if err := fusefs.Unmount(engineTree(dir), false); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	// Not further if the tree is still mounted: then it is no empty directory.
	err := os.Remove(engineTree(dir))
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
		if err == nil && !(contentOnly && (path == dir || path == mark(dir))) {
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

// Mark notes that from now on something of the sandbox may be in the engine: it is
// called with making set before the engine is asked for it, and again once it has
// answered. dir is LaunchSpec.Dir.
func Mark(dir string, making bool) error {
	var text []byte
	if making {
		text = []byte("making")
	}
	return os.WriteFile(mark(dir), text, 0o600)
}

// Making reports whether the engine was asked for the sandbox and nobody has seen
// the answer: it may still come to be.
func Making(dir string) bool {
	text, err := os.ReadFile(mark(dir))
	return err == nil && len(text) > 0
}

func mark(dir string) string { return filepath.Join(dir, "in-engine") }

// engineTree is where the tree is mounted in the host's namespace.
func engineTree(dir string) string { return filepath.Join(dir, "tree") }
