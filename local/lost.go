package local

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Lost returns the sandboxes of this state directory that an engine has though
// the directory does not know them: somebody has deleted what was there of them.
// Nobody can work in them any more. Their labels are those of their owners. Destroy
// removes them. The engines are those that sandboxes of the state directory are
// in and, if r makes sandboxes in one by default, that; so where no engine is
// used, none is asked. With an error there may be others.
func (r *Runtime) Lost(ctx context.Context) ([]*runtime.Sandbox, error) {
	var all []*runtime.Sandbox
	var errs []error
	for _, e := range r.engines(r.backends[0].Engine) {
		found, err := r.lostIn(ctx, e)
		errs = append(errs, err)
		for _, f := range found {
			all = append(all, &runtime.Sandbox{
				ID: f.ID, Name: f.Name, Runtime: e.backend.Name(), Labels: f.Labels, CreatedAt: time.UnixMilli(f.CreatedAt),
				State: runtime.StateDead, Reason: "its state directory is lost; wolffia rm " + f.ID + " removes what is left of it",
			})
		}
	}
	return all, errors.Join(errs...)
}

// An engineAt is an engine of a backend.
type engineAt struct {
	backend *launch.Backend
	config  runtime.SandboxConfig // names it, and no more
}

// engines are those that sandboxes of the state directory are in, and, if asked
// for, those that the caller's environment names.
func (r *Runtime) engines(environment bool) []engineAt {
	hosts := map[string]engineAt{}
	add := func(b *launch.Backend, c runtime.SandboxConfig) {
		if b.Complete(&c) == nil && c.Docker != nil {
			hosts[b.Name()+" "+c.Docker.Host] = engineAt{b, runtime.SandboxConfig{Runtime: b.Name(), Docker: &runtime.DockerConfig{Host: c.Docker.Host}}}
		}
	}
	any := false
	for i := range r.backends {
		if b := &r.backends[i]; b.Engine {
			if any = true; environment {
				add(b, runtime.SandboxConfig{})
			}
		}
	}
	if !any {
		return nil
	}
	ids, _ := r.dir.IDs() // whoever lists them has the error
	for _, id := range ids {
		if c, err := r.dir.Box(id).Config(); err == nil && c.Docker != nil {
			if b := r.backend(c.Runtime); b != nil && b.Engine {
				add(b, c.SandboxConfig)
			}
		}
	}
	var list []engineAt
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		list = append(list, hosts[name])
	}
	return list
}

// lostIn asks an engine. One that is destroyed meanwhile was still in the engine
// when that was asked, and has no place when we look: it is not in the second
// answer.
func (r *Runtime) lostIn(ctx context.Context, e engineAt) ([]boot.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, boot.LostLimit)
	defer cancel()
	var lost []boot.Found
	for range 2 {
		b := &boot.Params{StateDir: r.dir.Path(), Config: statedir.Config{SandboxConfig: e.config}}
		answer, err := r.ask(ctx, e.backend, "scan", b, nil)
		if err != nil {
			return nil, err
		}
		lost = slices.DeleteFunc(answer.Found, func(f boot.Found) bool {
			_, err := r.dir.Box(f.ID).Config()
			return !runtime.IsID(f.ID) || !errors.Is(err, runtime.ErrNotFound)
		})
		if len(lost) == 0 {
			break
		}
	}
	return lost, nil
}

// destroyLost removes what an engine, and the host, still have of a sandbox
// whose place is gone, and reports whether there was any. An engine that is not
// there, or does not answer, has none: most often nobody has ever used it.
func (r *Runtime) destroyLost(ctx context.Context, id string) (bool, error) {
	for _, e := range r.engines(true) {
		if path := strings.TrimPrefix(e.config.Docker.Host, "unix://"); !there(path) {
			continue
		}
		lost, err := r.lostIn(ctx, e)
		if err != nil || !slices.ContainsFunc(lost, func(f boot.Found) bool { return f.ID == id }) {
			continue
		}
		box := r.dir.Box(id)
		// The keeper first, so that nobody else cleans up. Without the container
		// the rest ends by itself.
		if err := box.KillKeeper(boot.KillLimit); err != nil {
			return true, err
		}
		b := r.bootOf(box, &statedir.Config{SandboxConfig: e.config})
		b.Lost = true
		ctx, cancel := context.WithTimeout(ctx, boot.EndLimit+boot.KillLimit)
		defer cancel()
		if _, err := r.ask(ctx, e.backend, "clean", b, nil); err != nil {
			return true, err
		}
		return true, errors.Join(box.KillAll(os.Geteuid(), boot.KillLimit), box.Remove())
	}
	return false, nil
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
