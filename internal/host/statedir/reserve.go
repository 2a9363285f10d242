package statedir

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// Reserve claims a spare of the shape for the caller, who makes it a sandbox by [Dir.TakeReserved], and
// returns its ID; empty: there is none. One that is not taken ends by its idle time.
func (d *Dir) Reserve(shape string) (id string) {
	list, _ := names(d.index(shape))
	for _, id := range list {
		b := d.Box(id)
		if !runtime.IsID(id) || !b.Spare().Withdraw(shape) {
			continue // another process was quicker
		}
		step.Reached("reserve: claimed")
		if b.Spare().Lives() {
			return id
		}
	}
	return ""
}

// IsOffered reports whether a spare is there to be taken or reserved.
func (s SpareState) IsOffered(shape string) bool {
	var st unix.Stat_t
	return unix.Lstat(s.Offered(shape), &st) == nil
}

// TakeReserved makes the spare with the ID of c, which was reserved, the sandbox with the configuration c. It
// returns nil if that is no spare of one of the shapes. After an error, caller and b are those of [Dir.Take].
func (d *Dir) TakeReserved(c Draft, shapes []string) (b *Box, caller *os.File, err error) {
	spare := d.Box(c.ID)
	r, err := spare.Spare().Record()
	if err != nil || !slices.Contains(shapes, r.Shape) {
		return nil, nil, nil // no spare
	}
	if spare.Spare().IsOffered(r.Shape) {
		return nil, nil, nil
	}
	unlock, err := d.claimName(c.Name)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	caller, claimed, err := spare.Spare().take(c, func() bool { return true })
	if !claimed {
		return nil, nil, err
	}
	return spare, caller, err
}
