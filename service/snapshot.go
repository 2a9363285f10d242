package service

import (
	"context"
	"errors"
	"time"

	"wolffia/runtime"
	"wolffia/service/registry"
)

// A Snapshot is a copy of a sandbox that [Service.Create] makes sandboxes of. It is a sandbox that is
// never started: it stays when the first one is destroyed, and counts in quotas as one. For a
// [Caller] that may not use its owner's sandboxes it does not exist.
type Snapshot struct {
	ID        string
	Name      string // may be empty, and need not be unique
	SandboxID string // of which it is
	Memory    bool   // it has the processes too
	Owner     registry.Owner
	CreatedAt time.Time
}

// kept is what the record of a snapshot has more than that of a sandbox.
type kept struct {
	Name   string `json:"name,omitempty"`
	Of     string `json:"of"`
	Memory bool   `json:"memory,omitempty"`
}

// maxSnapshotName is the longest name of a snapshot, in bytes.
const maxSnapshotName = 256

// Keep makes a snapshot of the sandbox, with the memory of its processes or, of a copied codebase,
// with its changes only.
func (r *Review) Keep(ctx context.Context, name string, memory bool) (*Snapshot, error) {
	if len(name) > maxSnapshotName {
		return nil, runtime.Errorf(runtime.ErrInvalid, "name of a snapshot: more than %d bytes", maxSnapshotName)
	}
	done, err := r.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := r.wake(ctx, memory); err != nil {
		return nil, err
	}
	b := r.box
	of := recordLike(b)
	of.Snapshot = &kept{Name: name, Of: b.ID, Memory: memory}
	how := runtime.ForkOptions{Memory: memory, Count: 1}
	ids, admitted, err := r.fork(ctx, of, how, func(c *runtime.SandboxConfig) { c.TTL = 0 })
	if err != nil {
		return nil, err
	}
	defer admitted()
	return r.service.GetSnapshot(ctx, Caller{All: true}, ids[0])
}

// snapshot returns the snapshot that a sandbox is; nil: it is not one.
func (b *Sandbox) snapshot() *Snapshot {
	if b.kept == nil {
		return nil
	}
	return &Snapshot{b.ID, b.kept.Name, b.kept.Of, b.kept.Memory, b.Owner, b.CreatedAt}
}

// Snapshots returns the snapshots that the caller may use, newest first.
func (s *Service) Snapshots(ctx context.Context, caller Caller) ([]*Snapshot, error) {
	all, err := s.all(ctx, caller)
	var found []*Snapshot
	for _, b := range all {
		if n := b.snapshot(); n != nil {
			found = append(found, n)
		}
	}
	return found, err
}

// keptAs returns the sandbox that a snapshot is.
func keptAs(ctx context.Context, s *Service, caller Caller, id string) (*Sandbox, error) {
	b, err := s.any(ctx, caller, id)
	if err == nil && b.kept == nil || errors.Is(err, runtime.ErrNotFound) {
		err = runtime.Errorf(runtime.ErrNotFound, "no snapshot %q", id)
	}
	return b, err
}

// GetSnapshot returns a snapshot.
func (s *Service) GetSnapshot(ctx context.Context, caller Caller, id string) (*Snapshot, error) {
	b, err := keptAs(ctx, s, caller, id)
	if err != nil {
		return nil, err
	}
	return b.snapshot(), nil
}

// DestroySnapshot deletes a snapshot. The sandboxes that were made of it stay.
func (s *Service) DestroySnapshot(ctx context.Context, caller Caller, id string) error {
	if _, err := keptAs(ctx, s, caller, id); err != nil {
		return err
	}
	return s.destroyed(ctx, id)
}

// restoring returns params for a sandbox of their snapshot, with what is the snapshot's. What a
// snapshot decides cannot be asked for.
func restoring(ctx context.Context, s *Service, params *Params) (*Params, error) {
	b, err := keptAs(ctx, s, CallerOf(ctx), params.Snapshot)
	if err != nil {
		return nil, err
	}
	p := *params
	var asked string
	switch has := b.Resources; {
	case p.Image != "":
		asked = "image"
	case len(p.Env) > 0:
		asked = "environment"
	case len(p.Volumes) > 0 || p.Refine != nil:
		asked = "volumes"
	case len(p.Settings) > 0:
		asked = "settings"
	case !isIdle(p.Entrypoint):
		asked = "entrypoint"
	case least(has.Memory, p.Resources.Memory) != has.Memory || least(has.CPUs, p.Resources.CPUs) != has.CPUs ||
		least(has.PIDs, p.Resources.PIDs) != has.PIDs || least(has.Disk, p.Resources.Disk) != has.Disk:
		asked = "limits"
	case p.reaches() != "" && p.reaches() != b.Network:
		asked = "network"
	}
	if asked != "" {
		return nil, runtime.Errorf(runtime.ErrInvalid,
			"snapshot %s: its %s cannot be changed: leave it out, or ask for what its sandbox had", b.ID, asked)
	}
	p.Owner, p.Entrypoint, p.Image, p.from = b.Owner, b.Entrypoint, b.Requested, b
	return &p, nil
}

// produced makes the sandbox that params ask for, of a configuration or, with a part of one, of a
// snapshot.
func produced(ctx context.Context, s *Service, p *Params, config *runtime.SandboxConfig) (*runtime.Sandbox, error) {
	if p.from == nil {
		return s.rt.Create(ctx, config)
	}
	review, err := reviewOf(s, p.from)
	if err != nil {
		return nil, err
	}
	done, err := review.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	o := runtime.ForkOptions{Memory: p.from.kept.Memory}
	all, err := review.rt.ForkAs(ctx, p.from.ID, o, func(_ int, c *runtime.SandboxConfig) {
		c.ID, c.Labels, c.TTL = config.ID, config.Labels, config.TTL
		if config.Egress != nil {
			c.Egress = config.Egress
		}
	})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}
