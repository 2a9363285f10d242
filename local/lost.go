package local

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Lost returns sandboxes of this state directory that still exist in a container engine
// although their record in the directory was deleted. They cannot be used; Destroy removes
// them. Their labels are those that name their owners. It asks the engines of the sandboxes
// in the state directory and, if the default backend has an engine, the one that the
// environment names. With an error, the list may be incomplete.
func (s *engines) Lost(ctx context.Context) ([]*runtime.Sandbox, error) {
	var all []*runtime.Sandbox
	var errs []error
	for _, e := range s.engines(s.backends[:1]) {
		found, err := s.lostIn(ctx, e)
		errs = append(errs, err)
		for _, f := range found {
			all = append(all, &runtime.Sandbox{
				ID: f.ID, Name: f.Name, Runtime: e.backend.Name(), Labels: f.Labels, CreatedAt: time.UnixMilli(f.CreatedAt),
				State: runtime.StateDead, Reason: "its record in the state directory is lost; wolffia rm " + f.ID + " removes what is left",
			})
		}
	}
	return all, errors.Join(errs...)
}

// An engineAt is an engine of a backend.
type engineAt struct {
	backend *launch.Backend
	config  runtime.SandboxConfig // names it, and no more
	address string                // URL
}

// engines returns those that sandboxes of the state directory are in, and those that the caller's
// environment names for these backends.
func (s *engines) engines(backends []launch.Backend) []engineAt {
	all := map[string]engineAt{}
	add := func(b *launch.Backend, c runtime.SandboxConfig) {
		if b != nil && b.Place != launch.BesideShim && b.Complete(&c) == nil {
			config, address := b.Engine(&c)
			all[b.Name()+" "+address] = engineAt{b, config, address}
		}
	}
	if s.engineBackend() == nil {
		return nil
	}
	for i := range backends {
		add(&backends[i], runtime.SandboxConfig{})
	}
	ids, _ := s.dir.IDs() // List returns the error
	for _, id := range ids {
		if _, c, err := s.header(id); err == nil {
			add(s.backend(c.Runtime), c.SandboxConfig)
		}
	}
	var list []engineAt
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// lostIn asks an engine, twice if it has any: the first answer may have a sandbox that is
// being destroyed, the second has not.
func (s *engines) lostIn(ctx context.Context, e engineAt) ([]boot.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, boot.LostLimit)
	defer cancel()
	var lost []boot.Found
	for range 2 {
		b := &boot.Params{StateDir: s.dir.Path(), Config: statedir.Config{SandboxConfig: e.config}}
		answer, err := s.runEngine(ctx, e.backend, "scan", b, nil)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "the engine at %s does not list its containers within %v: look at its log, and restart it", e.address, boot.LostLimit)
		}
		if err != nil {
			return nil, err
		}
		lost = slices.DeleteFunc(answer.Found, func(f boot.Found) bool {
			_, err := s.dir.Record(f.ID).LoadHeader()
			return !runtime.IsID(f.ID) || !errors.Is(err, runtime.ErrNotFound)
		})
		if len(lost) == 0 {
			break
		}
	}
	return lost, nil
}

// destroyLost removes what an engine and the host still have of a sandbox whose record is
// gone, and reports whether there was anything. An engine that does not answer counts as
// one without: usually it has never been used.
func (s *engines) destroyLost(ctx context.Context, id string) (bool, error) {
	for _, e := range s.engines(s.backends) {
		if path, local := strings.CutPrefix(e.address, "unix://"); local {
			if _, err := os.Stat(path); err != nil {
				continue
			}
		}
		lost, err := s.lostIn(ctx, e)
		if err != nil || !slices.ContainsFunc(lost, func(f boot.Found) bool { return f.ID == id }) {
			continue
		}
		rec := s.dir.Record(id)
		// The keeper first: it would clean up too. Without the container the rest ends by
		// itself.
		if err := rec.Processes().KillKeeper(boot.KillLimit); err != nil {
			return true, err
		}
		b := s.engineParams(rec, &statedir.Config{SandboxConfig: e.config})
		b.Lost = true
		ctx, cancel := context.WithTimeout(ctx, boot.EndLimit+boot.KillLimit)
		defer cancel()
		if _, err := s.runEngine(ctx, e.backend, "clean", b, nil); err != nil {
			return true, err
		}
		return true, errors.Join(rec.Processes().KillAll(os.Geteuid(), boot.KillLimit), rec.Remove())
	}
	return false, nil
}
