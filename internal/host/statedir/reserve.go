package statedir

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// Reserve claims a pooled sandbox of the shape for a caller that makes it a sandbox by
// [Dir.ClaimReserved]. It returns its ID; empty: none is published. A reserved sandbox that is not
// claimed ends by its idle timeout.
func (d *Dir) Reserve(shape string) (id string) {
	list, _ := names(d.index(shape))
	for _, id := range list {
		rec := d.Record(id)
		if !runtime.IsID(id) || !rec.Pooled().Unpublish(shape) {
			continue // another process was quicker
		}
		step.Reached("reserve: claimed")
		if rec.Pooled().IsAlive() {
			return id
		}
	}
	return ""
}

// IsPublished reports whether a pooled sandbox can be claimed or reserved.
func (s PooledState) IsPublished(shape string) bool {
	var st unix.Stat_t
	return unix.Lstat(s.PublishedPath(shape), &st) == nil
}

// ClaimReserved makes the pooled sandbox with the ID of c, which was reserved, the sandbox with
// the configuration c. It returns nil if no pooled sandbox of one of the shapes has that ID. After
// an error, caller and rec are those of [Dir.Claim].
func (d *Dir) ClaimReserved(c Draft, shapes []string) (rec *Record, caller *os.File, err error) {
	rec = d.Record(c.ID)
	r, err := rec.Pooled().Record()
	if err != nil || !slices.Contains(shapes, r.Shape) {
		return nil, nil, nil // no pooled sandbox
	}
	if rec.Pooled().IsPublished(r.Shape) {
		return nil, nil, nil
	}
	unlock, err := d.claimName(c.Name)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	caller, claimed, err := rec.Pooled().claim(c, func() bool { return true })
	if !claimed {
		return nil, nil, err
	}
	return rec, caller, err
}
