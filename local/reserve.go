package local

import (
	"context"

	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// ReserveSpare takes a spare of a pool for a sandbox that is to be created with the returned ID, and
// returns an empty ID if there is none. Create with that ID in the configuration makes the spare the
// sandbox, or, if the configuration is not of the shape, ends it and goes on without. A spare that is not
// used so ends by its idle timeout. It is for a caller that has to know the ID before Create.
func (s *spares) ReserveSpare(shape string) (id string) {
	if !isShape(shape) {
		return ""
	}
	id = s.dir.Reserve(shape)
	if id != "" {
		s.fillers.took(shape)
	} else {
		s.fillers.missed(shape)
	}
	return id
}

// takeReserved is take for a configuration whose ID is that of a reserved spare. If the spare does not fit,
// it is ended.
func (s *spares) takeReserved(ctx context.Context, c statedir.Draft, limits *limiting) (*runtime.Sandbox, error) {
	box := s.dir.Box(c.ID)
	if !s.dir.HasPools() || !box.Spare().Was() || !box.Half() {
		return nil, nil
	}
	if r, err := box.Spare().Record(); err != nil || box.Spare().IsOffered(r.Shape) {
		return nil, nil // it is not reserved: Create says that the id is taken
	}
	taken, caller, err := s.dir.TakeReserved(c, s.shapesOf(c))
	if err != nil {
		return nil, s.forgo(ctx, taken, err)
	}
	if taken == nil {
		return nil, s.discard(ctx, box)
	}
	return s.created(taken, c.Config, caller, limits)
}
