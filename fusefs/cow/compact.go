package cow

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"
)

// Fold removes from the upper layer what was applied and is still what the host has, so that the host's later
// changes show again; before that it puts right what an Apply that was killed has left, and follows renames that the host
// has by now. Nothing may serve the layers: call it before a start.
func (l *Layers) Fold() error {
	if err := l.recover(); err != nil {
		return err
	}
	records, err := l.Log.Records()
	if err != nil {
		return err
	}
	applied := false
	for _, r := range records {
		applied = applied || r.Applied
	}
	if !applied && !l.lacksDirectory(records) {
		return nil
	}
	p, err := l.settledPlan()
	if err != nil {
		return err
	}
	merged := map[string]bool{"": true}
	if err := p.mergeApplied(p.root, "", merged); err != nil {
		return err
	}
	for _, c := range p.changes {
		if c.Kind != "" || !c.equal || c.rec == nil || !c.rec.Applied || c.Path != c.lower || c.host.isDir() || !merged[parentOf(c.Path)] {
			continue
		}
		if err := l.inOwn(c.Path, func(dir int, name string) error { return unix.Unlinkat(dir, name, 0) }); err != nil {
			return err
		}
		l.reached("fold: file taken away")
		if err := l.Log.Forget(c.lower); err != nil {
			return err
		}
	}
	return l.Log.Sync()
}

// mergeApplied merges directories of the upper layer that were applied with the host's, which have the same path. It
// adds the paths of all that are merged to merged.
func (p *plan) mergeApplied(e *entry, at string, merged map[string]bool) error {
	for _, c := range e.children {
		if !c.object.isDir() {
			continue
		}
		below := join(at, c.name)
		switch rec := p.records[below]; {
		case c.half == Own && (!rec.Applied || rec.Type != unix.S_IFDIR || p.moved[below] != ""), c.half == Moved && c.lower != below:
			continue
		case c.half != Merged:
			if err := p.merge(below, c); err != nil {
				return err
			}
			p.reached("fold: directory merged")
		}
		merged[below] = true
		if err := p.mergeApplied(c, below, merged); err != nil {
			return err
		}
	}
	return nil
}

// merge merges one directory. What the sandbox has deleted or renamed in it since needs whiteouts.
func (p *plan) merge(at string, e *entry) error {
	dir, err := p.ownDir(p.Upper, at)
	if err != nil || dir < 0 {
		return err
	}
	defer unix.Close(dir)
	if o, err := lookAt(p.Root, at); err != nil || o == nil || !o.isDir() {
		if errors.Is(err, unix.EACCES) {
			return nil // nor can the sandbox look at it
		}
		return err // it would show nothing, or be another's
	}
	if e.half == Own {
		var gone []string // names that the host has and the sandbox does not show
		for _, c := range p.changes {
			if c.upper == nil && c.overAt != "" && parentOf(c.Path) == at {
				gone = append(gone, path.Base(c.Path))
			}
		}
		for from := range p.moved {
			if parentOf(from) == at {
				gone = append(gone, path.Base(from))
			}
		}
		for _, name := range gone {
			err := p.asOwner(dir, func() error { return MakeWhiteout(dir, name) })
			if err != nil && !errors.Is(err, unix.EEXIST) {
				return err
			}
		}
	}
	return p.asOwner(dir, func() error { return SetLower(dir, Merged, "") })
}
