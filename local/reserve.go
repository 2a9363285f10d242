package local

import (
	"context"

	"wolffia/internal/host/statedir"
	"wolffia/local/pool"
	"wolffia/runtime"
)

// ReservePooled claims a sandbox of a pool for a later Create, and returns its ID; empty: the pool
// has no sandbox ready. Create with that ID in the configuration activates the pooled sandbox. If
// the configuration has another shape, Create terminates the pooled sandbox and starts a new one.
// Unused, it ends by its idle timeout. ReservePooled is for a caller that has to know the ID
// before Create.
func (s *pooledSandboxes) ReservePooled(shape string) (id string) {
	if !pool.IsShape(shape) {
		return ""
	}
	id = s.dir.Reserve(shape)
	if id != "" {
		s.fillers.Claimed(shape)
	} else {
		s.fillers.Missed(shape)
	}
	return id
}

// claimReserved is claim for a configuration whose ID is that of a reserved pooled sandbox. If the
// pooled sandbox does not fit, claimReserved terminates it.
func (s *pooledSandboxes) claimReserved(ctx context.Context, c statedir.Draft, limits *limiting) (*runtime.Sandbox, error) {
	rec := s.dir.Record(c.ID)
	if !s.dir.HasPools() || !rec.Pooled().WasPooled() || !rec.IsIncomplete() {
		return nil, nil
	}
	if r, err := rec.Pooled().Record(); err != nil || rec.Pooled().IsPublished(r.Shape) {
		return nil, nil // it is not reserved: Create says that the id is taken
	}
	var shapes []string
	if s.starter.volumes.Touch(c.Volumes) {
		shapes = s.shapesOf(c)
	}
	claimed, caller, err := s.dir.ClaimReserved(c, shapes)
	if err != nil {
		return nil, s.abandonClaim(ctx, claimed, err)
	}
	if claimed == nil {
		return nil, s.discard(ctx, rec)
	}
	return s.created(claimed, c.Config, caller, limits)
}
