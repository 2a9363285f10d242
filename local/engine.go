package local

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"wolffia/internal/boot"
	"wolffia/internal/child"
	"wolffia/internal/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// startKeeper starts the keeper of a sandbox; files are its descriptors from FDLock
// on.
func startKeeper(program string, log *os.File, b *boot.Params, files ...*os.File) (*child.Child, error) {
	file, err := openProgram(program)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	args := []string{filepath.Base(program), "keep", b.ID}
	keeper, err := spawn(file, log, args, new(syscall.SysProcAttr), b, files...)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "start the keeper: %w", err)
	}
	return keeper, nil
}

func openProgram(program string) (*os.File, error) {
	file, err := os.Open(program)
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return file, nil
}

// ask runs a backend's program for its answer; progress is told what it does.
func (r *Runtime) ask(ctx context.Context, backend *launch.Backend, what string, b *boot.Params, progress func(string)) (*boot.Report, error) {
	program, err := backend.Program(filepath.Dir(r.bin.wolffia))
	if err != nil {
		return nil, err
	}
	file, err := openProgram(program)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	bootFile, err := b.File()
	if err != nil {
		return nil, err
	}
	defer bootFile.Close()
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c, err := child.Start(&child.Command{
		Path: program, Args: []string{filepath.Base(program), what, b.Subject()},
		Env:   boot.Environ(),
		Files: []*os.File{nil, in, nil, bootFile},
		Attr:  &syscall.SysProcAttr{Setpgid: true}, // the terminal's ^C is for us
	})
	_ = in.Close()
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Kill() })
	defer stop()
	last := &boot.Report{}
	const most = 16 << 20 // bytes
	lines := bufio.NewScanner(io.LimitReader(out, most))
	lines.Buffer(nil, most)
	for lines.Scan() {
		r := new(boot.Report)
		if err := json.Unmarshal(lines.Bytes(), r); err != nil {
			break
		}
		if last = r; r.Step != "" && progress != nil {
			progress(r.Step)
		}
	}
	_ = c.Kill() // it has said its last word, or too much
	_ = c.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case last.Error != "":
		return nil, last.Err()
	case !last.Ready:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "%s ended without an answer", filepath.Base(program))
	}
	return last, nil
}

// bootOf is what a backend's program is told of a sandbox.
func (r *Runtime) bootOf(box *statedir.Box, c *statedir.Config) *boot.Params {
	b := &boot.Params{ID: box.ID(), Config: *c, Engine: box.Engine(), StateDir: r.dir.Path()}
	b.Config.Permissions = nil // are the tree server's business
	return b
}

// clean removes what a sandbox has left of its limits, what a keeper has left in
// its engine and on the host, and what it was to keep there. Most often that is
// nothing. The caller has seen to it that no keeper is there, and has the lock.
func (r *Runtime) clean(ctx context.Context, box *statedir.Box, c *statedir.Config) error {
	if c.Resources.Limited() || c.ID == "" { // or nobody knows
		if err := unlimit(box); err != nil {
			return err
		}
	}
	if !box.HasEngine() {
		return nil
	}
	backend := r.backend(c.Runtime)
	if backend == nil || !backend.Engine {
		// A configuration that is damaged does not say which engine it was.
		for i := range r.backends {
			if r.backends[i].Engine {
				backend = &r.backends[i]
			}
		}
	}
	if backend == nil || !backend.Engine {
		return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s may be in an engine that nobody here knows", box.ID())
	}
	full := *c
	if err := backend.Complete(&full.SandboxConfig); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, boot.EndLimit+boot.KillLimit)
	defer cancel()
	_, err := r.ask(ctx, backend, "clean", r.bootOf(box, &full), nil)
	return err
}

// complete fills in what only the backend knows of a configuration, and refuses
// what it cannot do.
func (r *Runtime) complete(backend *launch.Backend, c *statedir.Config) error {
	switch {
	case backend.Engine:
		return backend.Complete(&c.SandboxConfig)
	case c.Docker != nil:
		return runtime.Errorf(runtime.ErrUnsupported, "runtime %s has no engine", backend.Name())
	}
	_, err := planLimits(&c.Resources, backend.OwnKernel) // whoever starts it may be better off, and worse
	return err
}

// ImageCommand returns the command that the image of a configuration runs by
// itself, which may be empty, for a runtime whose engine has the images; others are
// [runtime.ErrUnsupported]. The image is got if it is not there, and c.ImageID is
// set to it.
func (r *Runtime) ImageCommand(ctx context.Context, c *runtime.SandboxConfig) ([]string, error) {
	full := &statedir.Config{SandboxConfig: *c}
	full.Runtime = cmp.Or(c.Runtime, r.Name())
	backend := r.backend(full.Runtime)
	if backend == nil || !backend.Engine {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "runtime %q has no engine with images", full.Runtime)
	}
	if err := backend.Complete(&full.SandboxConfig); err != nil {
		return nil, err
	}
	image, err := r.engineImage(ctx, backend, full)
	if err != nil {
		return nil, err
	}
	c.ImageID = image.ID
	return image.Command, nil
}

// engineImage has the engine find, or get, the image of a configuration.
func (r *Runtime) engineImage(ctx context.Context, backend *launch.Backend, c *statedir.Config) (*boot.ImageInfo, error) {
	answer, err := r.ask(ctx, backend, "image", r.bootOf(r.dir.Box(c.ID), c), r.progress)
	if err != nil {
		return nil, err
	}
	if answer.Image == nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the engine says nothing of image %s", c.Image)
	}
	return answer.Image, nil
}
