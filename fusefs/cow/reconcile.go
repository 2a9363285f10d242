package cow

import (
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// reconciledPlan makes the layers agree with the renames that the host has, and returns newPlan.
// An Apply that was killed, a sandbox with the same changes, or the user has renamed the
// directories. Without the agreement a directory would not show the entries that were renamed with
// it.
func (l *Layers) reconciledPlan() (*plan, error) {
	p, err := l.newPlan()
	if err != nil || !p.hasRenamed() {
		return p, err
	}
	l.alone(func() { err = p.finishRenames() })
	if err != nil {
		return nil, err
	}
	return l.newPlan() // not alone: it can take long
}

// lacksDirectory reports whether the host may have renamed a directory with one of the records.
func (l *Layers) lacksDirectory(records map[string]Record) bool {
	for at, r := range records {
		if r.Type != unix.S_IFDIR {
			continue
		}
		if o, err := statPath(l.Root, at); o == nil && err == nil {
			return true
		}
	}
	return false
}

// hasRenamed reports whether a directory was renamed, before a crash or by the user, without a
// record.
func (p *plan) hasRenamed() bool {
	return slices.ContainsFunc(p.changes, func(c *change) bool { return c.Kind == runtime.ChangeRenamed && c.equal })
}

// finishRenames records the renames of hasRenamed. The plan is out of date afterwards.
func (p *plan) finishRenames() error {
	p.Layers.moved()
	for _, c := range p.changes {
		if c.Kind == runtime.ChangeRenamed && c.equal {
			if err := p.relocate(c); err != nil {
				return err
			}
		}
	}
	return nil
}
