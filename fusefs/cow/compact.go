package cow

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"
)

// Compact removes from the upper layer the files that were applied and that the host still has
// unchanged, so that the host's later changes show again. Before that it recovers from an Apply
// that was killed, and follows renames that the host has by now. Nothing may serve the layers:
// call it before a start.
func (l *Layers) Compact() error {
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
	p, err := l.reconciledPlan()
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
		l.reached("compact: file removed")
		if err := l.Log.Forget(c.lower); err != nil {
			return err
		}
	}
	return l.Log.Sync()
}

// mergeApplied merges directories of the upper layer that were applied with the host's directories
// at the same paths. It adds the paths of all merged directories to merged.
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
			p.reached("compact: directory merged")
		}
		merged[below] = true
		if err := p.mergeApplied(c, below, merged); err != nil {
			return err
		}
	}
	return nil
}

// merge merges one directory. It makes whiteouts for names that the sandbox has deleted or renamed
// in it since.
func (p *plan) merge(at string, e *entry) error {
	dir, err := p.ownDir(p.Upper, at)
	if err != nil || dir < 0 {
		return err
	}
	defer unix.Close(dir)
	if o, err := statPath(p.Root, at); err != nil || o == nil || !o.isDir() {
		if errors.Is(err, unix.EACCES) {
			return nil // the sandbox cannot read the directory either
		}
		return err // merged, the directory would show nothing, or another directory
	}
	if e.half == Own {
		var hidden []string // names that the host has and the sandbox does not show
		for _, c := range p.changes {
			if c.upper == nil && c.overAt != "" && parentOf(c.Path) == at {
				hidden = append(hidden, path.Base(c.Path))
			}
		}
		for from := range p.moved {
			if parentOf(from) == at {
				hidden = append(hidden, path.Base(from))
			}
		}
		for _, name := range hidden {
			err := p.asOwner(dir, func() error { return MakeWhiteout(dir, name) })
			if err != nil && !errors.Is(err, unix.EEXIST) {
				return err
			}
		}
	}
	return p.asOwner(dir, func() error { return SetLower(dir, Merged, "") })
}
