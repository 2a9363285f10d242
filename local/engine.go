package local

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"syscall"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/programs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/child"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// engines runs the programs of backends with an engine, for what they do apart from a start.
type engines struct {
	*catalog
	progress func(text string) // may be nil
}

// engineParams returns what the program of an engine's backend gets of a sandbox.
func (s *engines) engineParams(rec *statedir.Record, c *statedir.Config) *boot.Params {
	b := &boot.Params{ID: rec.ID(), Config: *c, KeeperDir: rec.Engine(), StateDir: s.dir.Path()}
	b.Config.Permissions = nil // only the tree server reads them
	return b
}

// runEngine runs the program of an engine's backend, and returns its last report. progress,
// if not nil, is called with each step.
func (s *engines) runEngine(ctx context.Context, backend *launch.Backend, what string, b *boot.Params, progress func(string)) (*boot.Report, error) {
	set, err := programs.Open(s.wolffia, s.dir.Path())
	if err != nil {
		return nil, err
	}
	defer set.Close()
	program, err := set.Program(backend.Keeper)
	if err != nil {
		return nil, err
	}
	defer program.Close()
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
	files := []*os.File{1: in, boot.FDBoot: bootFile}
	c, err := child.Start(&child.Command{ // by its descriptor, the last one, as in spawn
		Path: "/proc/self/fd/" + strconv.Itoa(len(files)), Args: []string{backend.Keeper, what, b.Subject()},
		Env:   keeperEnviron(backend.Place == launch.Elsewhere),
		Files: append(files, program.File),
		Attr:  &syscall.SysProcAttr{Setpgid: true}, // a ^C at the terminal is for this process
	})
	_ = in.Close()
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Kill() })
	defer stop()
	if progress == nil {
		progress = func(string) {}
	}
	defer progress("")
	last := &boot.Report{}
	const most = 16 << 20 // bytes
	lines := bufio.NewScanner(io.LimitReader(out, most))
	lines.Buffer(nil, most)
	for lines.Scan() {
		r := new(boot.Report)
		if err := json.Unmarshal(lines.Bytes(), r); err != nil {
			break
		}
		if last = r; r.Step != "" {
			progress(r.Step)
		}
	}
	_ = c.Kill() // it has sent its last report, or too much
	_ = c.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case last.Err() != nil:
		return nil, last.Err()
	case !last.Ready:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "%s ended without an answer", backend.Keeper)
	}
	return last, nil
}

// keeperEnviron returns the environment of an engine's program. That of a cluster has the caller's,
// as kubectl has it: a cluster's configuration can name programs that get its credentials, in a pod
// the environment has the API server's address, and a proxy may be on the way.
func keeperEnviron(elsewhere bool) []string {
	if elsewhere {
		return os.Environ()
	}
	return boot.Environ()
}

// clean removes the control group of a sandbox, and what its keeper has left in the engine
// and on the host. Usually there is nothing. The caller holds the sandbox's lock and has
// made sure that no keeper runs.
func (s *engines) clean(ctx context.Context, rec *statedir.Record, c *statedir.Config) error {
	if c.Resources.Limited() || c.ID == "" { // a damaged configuration does not tell
		if err := unlimit(rec); err != nil {
			return err
		}
	}
	if !rec.HasEngine() {
		return nil
	}
	backend := s.backend(c.Runtime)
	if backend == nil || backend.Place == launch.BesideShim {
		backend = s.engineBackend() // a damaged configuration does not tell
	}
	if backend == nil {
		return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s may still exist in a container engine that this runtime has no backend for", rec.ID())
	}
	full := *c
	if err := backend.Complete(&full.SandboxConfig); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, boot.EndLimit+boot.KillLimit)
	defer cancel()
	_, err := s.runEngine(ctx, backend, "clean", s.engineParams(rec, &full), nil)
	return err
}

// ImageCommand returns the command that the image of a configuration runs by itself, which
// may be empty. It downloads the image if the engine does not have it, and sets c.ImageID.
// For a backend without an engine it is [runtime.ErrUnsupported].
func (s *engines) ImageCommand(ctx context.Context, c *runtime.SandboxConfig) ([]string, error) {
	full := &statedir.Config{SandboxConfig: *c}
	full.Runtime = cmp.Or(c.Runtime, s.backends[0].Name())
	backend := s.backend(full.Runtime)
	if backend == nil || backend.Place == launch.BesideShim {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "runtime %q has no engine with images", full.Runtime)
	}
	if err := backend.Complete(&full.SandboxConfig); err != nil {
		return nil, err
	}
	image, err := s.engineImage(ctx, backend, full)
	if err != nil {
		return nil, err
	}
	c.ImageID = image.ID
	return image.Command, nil
}

// engineImage returns the image of a configuration, which the engine downloads if it does
// not have it.
func (s *engines) engineImage(ctx context.Context, backend *launch.Backend, c *statedir.Config) (*boot.ImageInfo, error) {
	answer, err := s.runEngine(ctx, backend, "image", s.engineParams(s.dir.Record(c.ID), c), s.progress)
	if err != nil {
		return nil, err
	}
	if answer.Image == nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the engine sent no description of image %s", c.Image)
	}
	return answer.Image, nil
}
