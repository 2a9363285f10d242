package cow

import (
	"cmp"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"wolffia/perm"
	"wolffia/runtime"
)

// compareDirectory adds c, a directory in the directory at d, if it is a change, and those below
// it.
func (p *plan) compareDirectory(c *change, d *place) error {
	e, name := c.upper, c.upper.name
	in := place{path: c.Path, host: c.lower, hasHost: d.hasHost, up: p.Rules.Enter(d.up, name)}
	if d.hasHost {
		in.low = p.Rules.Enter(d.low, name)
	}
	known := d.shut && c.rec != nil && c.rec.Type == unix.S_IFDIR // as it was then, as far as can be known
	switch {
	case e.half == Moved && e.lower != c.lower:
		from, err := statPath(p.Root, e.lower)
		if errors.Is(err, unix.EACCES) {
			c.Kind, c.From, c.src, c.key, c.Unapplied = runtime.ChangeRenamed, e.lower, e.lower, e.lower, isShut
			p.add(c)
			return nil
		}
		if err != nil {
			return fmt.Errorf("look at %q: %w", e.lower, err)
		}
		in.host, in.hasHost, in.low = e.lower, true, p.state(e.lower)
		if err := p.rename(c, &in, from); err != nil {
			return err
		}
	case e.half == Moved, e.half == Merged && d.hasHost && !d.over:
		if !known {
			p.merged(c)
		}
	default: // the sandbox made it
		in.over = c.host != nil && c.host.isDir() || known && c.rec.Applied
		in.hasHost = in.over
		if in.over {
			in.overAt = cmp.Or(d.overAt, c.Path)
		}
		switch {
		case known && c.rec.Applied:
		case c.host == nil:
			c.Kind = runtime.ChangeAdded
			p.add(c)
		case !in.over:
			c.Kind, c.OldMode = runtime.ChangeType, c.host.perms()
			if err := p.setConflict(c); err != nil {
				return err
			}
			p.add(c)
		case c.NewMode != c.host.perms() && !(c.rec != nil && c.rec.Applied && c.NewMode == c.rec.perms()):
			c.Kind, c.OldMode, c.setsMode = runtime.ChangeMode, c.host.perms(), true
			p.add(c)
		default:
			c.equal = true
			p.add(c)
		}
	}
	return p.compareDir(e, in)
}

// merged adds a directory that shows the host's if that was removed, or if its mode is changed.
func (p *plan) merged(c *change) {
	switch {
	case c.host == nil:
		c.Kind = runtime.ChangeAdded
		if c.recorded() {
			c.Conflict = "deleted on the host"
		}
		p.add(c)
	case !c.host.isDir():
		c.Kind, c.OldMode, c.Conflict = runtime.ChangeType, c.host.perms(), "replaced on the host"
		p.add(c)
	default:
		p.directoryMode(c)
	}
}

// directoryMode adds a directory that both layers have if its mode is changed.
func (p *plan) directoryMode(c *change) {
	// The server gives itself all permissions on a directory of the upper layer.
	if c.rec == nil || c.NewMode == c.rec.perms() || c.NewMode == c.rec.perms()|0o700 || c.NewMode == c.host.perms() {
		return
	}
	c.Kind, c.OldMode, c.setsMode = runtime.ChangeMode, c.host.perms(), true
	if c.host.perms() != c.rec.perms() {
		c.Conflict = "its mode was changed on the host"
	}
	p.add(c)
}

// rename adds c, a directory that the host has at in.host, as from.
func (p *plan) rename(c *change, in *place, from *object) error {
	rec, known := p.records[in.host]
	if from == nil && c.host != nil && known && c.host.isDir() && c.host.Ino == rec.Ino {
		// Done by an Apply that was killed, or by the user.
		c.Kind, c.From, c.src, c.key, c.equal = runtime.ChangeRenamed, in.host, in.host, in.host, true
		in.host = c.lower
		p.add(c)
		return nil
	}
	replaced := c.host
	c.Kind, c.From, c.src, c.key, c.rec = runtime.ChangeRenamed, in.host, in.host, in.host, nil
	if known {
		c.rec = &rec
	}
	l := p.Rules.Child(p.state(parentOf(in.host)), path.Base(in.host), true)
	switch {
	case l < perm.Write:
		c.Denied = fmt.Sprintf("the rules give %s the level %s now, and a change needs write", Quote(in.host), l)
	case c.Denied == "" && in.up != in.low:
		c.Denied = "the rules for what is in it differ between the old and the new name"
	}
	switch {
	case l == perm.None:
		p.add(c)
		return nil
	case from == nil:
		c.Conflict = "moved or deleted on the host"
	case !from.isDir(), known && from.Ino != rec.Ino:
		c.Conflict = "replaced on the host"
	case !known:
		c.Conflict = "made on the host"
	case replaced != nil:
		target, had := p.records[c.lower]
		var err error
		switch {
		case !had || target.Type == 0:
			c.Conflict = "made on the host"
		default:
			c.Conflict, err = p.goneConflict(&target, replaced, c.lower, in.up)
		}
		if err != nil {
			return err
		}
	}
	if from != nil && from.isDir() {
		c.OldMode = from.perms()
		c.setsMode = known && c.NewMode != rec.perms() && c.NewMode != rec.perms()|0o700
		if !c.setsMode {
			c.NewMode = c.OldMode
		}
	}
	p.add(c)
	return nil
}

// compareFile adds c, which is no directory, if it is a change.
func (p *plan) compareFile(c *change, d *place) error {
	c.compareModes()
	if gone, err := p.lacksContent(c.upper); err != nil {
		return err
	} else if gone {
		if c.upper.lower == c.lower {
			if stale, err := p.stale(c); stale || err != nil {
				return err
			}
		}
		c.Kind, c.Unapplied = runtime.ChangeModified, "the host has deleted or moved its content, and the sandbox has changed its mode only"
		p.add(c)
		return nil
	}
	switch {
	case c.host == nil && !c.recorded():
		c.Kind, c.content = runtime.ChangeAdded, true
	case c.host == nil:
		if stale, err := p.stale(c); stale || err != nil {
			return err
		}
		c.Kind, c.content = runtime.ChangeAdded, true
		if c.rec.Type == c.upper.object.typ() { // else the sandbox has deleted it too
			c.Kind, c.OldMode, c.Conflict = runtime.ChangeModified, c.rec.perms(), "deleted on the host"
		}
	case c.host.typ() != c.upper.object.typ():
		c.Kind, c.content = runtime.ChangeType, true
		if err := p.setConflict(c); err != nil {
			return err
		}
	default:
		return p.compareBoth(c, d)
	}
	p.add(c)
	return nil
}

// compareBoth adds c, which is of the same type on the host and no directory.
func (p *plan) compareBoth(c *change, d *place) error {
	equal, err := p.equalContent(c, d)
	if err != nil {
		return err
	}
	c.content = !equal
	switch {
	case equal && !c.setsMode:
		c.equal = true
	case equal:
		c.Kind = runtime.ChangeMode
		if c.recorded() && c.host.perms() != c.rec.perms() {
			c.Conflict = "its mode was changed on the host"
		}
	default:
		c.Kind = runtime.ChangeModified
		if stale, err := p.stale(c); stale || err != nil {
			return err
		}
		if err := p.setConflict(c); err != nil {
			return err
		}
	}
	p.add(c)
	return nil
}

// compareModes sets the old mode, the new one, and whether the change sets it. The mode of a
// host's object of another type does not count, and the mode that another user would get is not
// the host's.
func (c *change) compareModes() {
	if c.host == nil {
		return
	}
	c.OldMode = c.host.perms()
	if c.host.typ() != c.upper.object.typ() {
		return
	}
	ownerless := c.host.Uid != c.upper.object.Uid
	if c.recorded() && (ownerless || c.NewMode == c.rec.perms()) || c.upper.object.isLink() {
		c.NewMode = c.host.perms()
	}
	c.setsMode = c.NewMode != c.host.perms()
}

// recorded reports whether the host had an object there when the sandbox made its own.
func (c *change) recorded() bool { return c.rec != nil && c.rec.Type != 0 }

// setConflict sets c.Conflict for what replaces the host's object.
func (p *plan) setConflict(c *change) (err error) {
	if !c.recorded() {
		c.Conflict = "made on the host"
		return nil
	}
	c.Conflict, err = p.goneConflict(c.rec, c.host, c.lower, p.state(c.Path))
	return err
}

// lacksContent reports whether the host has no file any more where e, a file of the upper layer,
// has its content.
func (p *plan) lacksContent(e *entry) (bool, error) {
	if e.lower == "" {
		return false, nil
	}
	o, err := statPath(p.Root, e.lower)
	if errors.Is(err, unix.EACCES) {
		return false, nil // it is not known
	}
	return err == nil && (o == nil || !o.isFile()), err
}
