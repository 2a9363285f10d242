package cow

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// makeTrees is applyTrees, hidden from the sandbox while it renames.
func (a *applying) makeTrees(todo []*change) {
	if !slices.ContainsFunc(todo, func(c *change) bool { return c.Kind == runtime.ChangeRenamed }) {
		a.applyTrees(todo)
		return
	}
	a.alone(func() {
		a.Layers.moved()
		a.applyTrees(todo)
	})
}

// applyTrees makes new directories and renames directories. Each waits until the directories above
// it exist and the directory at its path was renamed away. Where all wait for each other, one is
// staged under a temporary name.
func (a *applying) applyTrees(todo []*change) {
	defer a.unstageRest()
	for len(todo) > 0 && a.failure == nil {
		var rest []*change
		for _, c := range todo {
			if a.orphaned(c) {
				continue
			}
			if a.waits(c, todo) {
				rest = append(rest, c)
				continue
			}
			if a.failure == nil && (len(a.stillStaged(a.staged)) > 0 || a.canContinue()) { // do not stop while a directory has a temporary name
				a.applyTree(c)
			}
		}
		if len(rest) == len(todo) && !a.stage(rest) {
			for _, c := range rest {
				a.conflict(c, "its name is taken on the host")
			}
			return
		}
		todo = rest
	}
}

// unstageRest restores the names of directories that were staged for a rename that did not happen.
func (a *applying) unstageRest() {
	for _, s := range a.stillStaged(a.staged) {
		if err := a.Layers.undo(&s); err != nil && !errors.Is(err, errTaken) && a.failure == nil {
			a.failure = runtime.WithClass(runtime.ErrUnavailable, err)
		}
	}
	a.Layers.staged = a.stillStaged(a.staged)
}

// waits reports whether another pending change must be applied before c.
func (a *applying) waits(c *change, todo []*change) bool {
	for _, d := range todo {
		if d == c || a.state[d] != pending {
			continue
		}
		if within(c.Path, d.Path) || d.Kind == runtime.ChangeRenamed && within(d.src, c.Path) {
			return true
		}
	}
	return false
}

// willMove records that the host's directory at from will be at to.
func (a *applying) willMove(from, to string) error {
	for i := range a.staged {
		s := &a.staged[i]
		if home := string(s.Home); within(home, from) {
			s.Home = []byte(to + home[len(from):])
			if err := a.undo.begin(*s); err != nil {
				return err
			}
		}
	}
	return nil
}

// wasMoved records that the host's directory that was at from is at to.
func (a *applying) wasMoved(from, to string) {
	for _, c := range a.changes {
		if c.src != "" && within(c.src, from) {
			c.src = to + c.src[len(from):]
		}
	}
}

// stage moves the directory of a pending rename to the codebase's root, so that another directory
// can have its name.
func (a *applying) stage(todo []*change) bool {
	for _, c := range todo {
		if c.Kind != runtime.ChangeRenamed || strings.HasPrefix(c.src, a.undo.prefix) {
			continue
		}
		home, name, err := a.parent(c.src)
		if err != nil {
			continue
		}
		temp := a.undo.temp()
		s := step{Op: stepStage, Temp: []byte(temp), Home: []byte(parentOf(c.src)), Name: []byte(name)}
		if err = errors.Join(a.undo.begin(s), a.willMove(c.src, temp)); err == nil {
			a.staged = append(a.staged, s)
			err = unix.Renameat2(home, name, a.Root, temp, unix.RENAME_NOREPLACE)
		}
		unix.Close(home)
		if err != nil {
			a.fail(c, err)
			return false
		}
		a.reached("apply: directory staged")
		a.wasMoved(c.src, temp)
		if err := a.relocateTo(c.key, temp, c.Path); err != nil {
			a.fail(c, err)
			return false
		}
		return true
	}
	return false
}

// applyTree makes or renames one directory.
func (a *applying) applyTree(c *change) {
	dir, name, err := a.parent(c.Path)
	if err != nil {
		a.treeFailed(c, err)
		return
	}
	defer unix.Close(dir)
	release, err := Claim(dir, name)
	if err != nil {
		a.treeFailed(c, err)
		return
	}
	defer release()
	host, err := statAt(dir, name)
	if err != nil {
		a.fail(c, err)
		return
	}
	var from *source
	if c.Kind == runtime.ChangeRenamed { // before anything is removed for it
		if from = a.source(c); from == nil {
			return
		}
		defer unix.Close(from.dir)
	}
	switch {
	case makesGit(dir, name):
		c.Denied = becomesGit
		a.skip(c)
		return
	case host != nil && (c.host == nil || !host.unchanged(c.host)):
		a.conflict(c, "made on the host")
		return
	case host != nil && host.isDir():
		if !a.removeTree(c, dir, name) {
			return
		}
	case host != nil:
		if !a.removeFile(c, dir, c.Path, name, host) {
			return
		}
	}
	if from != nil {
		a.rename(c, from, dir, name)
		return
	}
	if err := unix.Mkdirat(dir, name, c.NewMode|0o700); err != nil {
		a.treeFailed(c, err)
		return
	}
	a.reached("apply: directory made")
	if c.host, err = statAt(dir, name); err != nil { // its mode comes later
		a.fail(c, err)
		return
	}
	a.finish(c)
}

// treeFailed skips c because of an error.
func (a *applying) treeFailed(c *change, err error) {
	switch {
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTEMPTY):
		a.conflict(c, "made on the host")
	case errors.Is(err, unix.ENOENT):
		a.conflict(c, "moved or deleted on the host")
	case errors.Is(err, unix.EBUSY):
		a.conflict(c, claimed)
	default:
		a.fail(c, err)
	}
}

// A source is a directory of the host that is to be renamed.
type source struct {
	dir    int // that it is in
	name   string
	object *object
}

// source returns the directory that c renames. The caller closes its dir. If the host does not
// have the directory any more, source skips c and returns nil.
func (a *applying) source(c *change) *source {
	dir, name, err := a.parent(c.src)
	if err != nil {
		a.treeFailed(c, err)
		return nil
	}
	o, err := statAt(dir, name)
	switch {
	case err != nil:
		a.fail(c, err)
	case o == nil || !o.isDir() || c.rec == nil && !a.force || c.rec != nil && c.rec.Ino != o.Ino && !a.force:
		a.conflict(c, "moved or deleted on the host")
	default:
		return &source{dir, name, o}
	}
	unix.Close(dir)
	return nil
}

// rename renames the host's directory from to name in dir, which is open.
func (a *applying) rename(c *change, s *source, dir int, name string) {
	from, old, host := s.dir, s.name, s.object
	if err := a.willMove(c.src, c.Path); err != nil {
		a.fail(c, err)
		return
	}
	if err := unix.Renameat2(from, old, dir, name, unix.RENAME_NOREPLACE); err != nil {
		a.treeFailed(c, errors.Join(err, a.willMove(c.Path, c.src)))
		return
	}
	a.reached("apply: directory renamed")
	if out, err := statAt(dir, name); err != nil || out == nil || !out.same(host) {
		a.putBack(c, from, old, dir, name, out)
		return
	}
	c.host = host
	a.wasMoved(c.src, c.Path)
	if err := a.relocate(c); err != nil {
		a.fail(c, err)
		return
	}
	r := RecordOf(c.Path, &host.Statx_t)
	if err := a.Log.Rebase(r); err != nil {
		a.fail(c, err)
		return
	}
	a.finish(c)
}

// putBack renames the entry name of dir, which is not the directory of c, back to old in from. out
// is that entry; nil: it does not exist any more.
func (a *applying) putBack(c *change, from int, old string, dir int, name string, out *object) {
	err := a.willMove(c.Path, c.src)
	if out != nil && err == nil {
		err = unix.Renameat2(dir, name, from, old, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		a.fail(c, fmt.Errorf("restore the entry that the host made at %s meanwhile, now at %s: %w", Quote(c.src), Quote(c.Path), err))
		return
	}
	a.conflict(c, "replaced on the host")
}

// relocate records that the host's directory of c is at c.Path. It removes the whiteout of the old
// name last.
func (p *plan) relocate(c *change) error {
	if err := p.relocateTo(c.key, c.Path, c.Path); err != nil || c.whiteout == "" {
		return err
	}
	p.reached("apply: renamed directory recorded")
	return p.dropWhiteout(c.whiteout)
}

// relocateTo records that the host's directory at the path key is at the path to: in the log, and
// in the attributes of all entries whose lower half is in it. It changes the directory itself,
// which the upper layer has at the path upper, last, so that the next plan after a crash finds
// that it was renamed.
func (p *plan) relocateTo(key, to, upper string) error {
	if p.Relocated != nil {
		if err := p.Relocated(key, to); err != nil {
			return fmt.Errorf("follow the git directories in %s: %w", Quote(key), err)
		}
	}
	move := func(p string) string { return to + p[len(key):] }
	var moved []Record
	for at, r := range p.records {
		if at != key && within(at, key) {
			moved = append(moved, r)
		}
	}
	if r, ok := p.records[key]; ok {
		moved = append(moved, r)
	}
	var own *entry
	var err error
	p.root.each("", func(at string, e *entry) {
		switch {
		case err != nil || e.lower == "" || !within(e.lower, key):
		case at == upper:
			own = e
		default:
			p.reached("apply: attribute moved")
			err = p.setLower(at, e, move(e.lower))
		}
	})
	_, known := p.records[key]
	if !known && own != nil && err == nil {
		err = p.setLower(upper, own, to)
	}
	for i := range moved {
		if err != nil {
			return err
		}
		old := moved[i].Path
		moved[i].Path = move(old)
		err = p.Log.put(moved[i])
		if known && i == len(moved)-1 && own != nil && err == nil {
			if err = p.Log.Sync(); err == nil { // no record may be behind this
				err = p.setLower(upper, own, to)
			}
		}
		p.reached("apply: record moved")
		err = errors.Join(err, p.Log.Forget(old))
		delete(p.records, old)
	}
	for _, r := range moved {
		p.records[r.Path] = r
	}
	for _, d := range p.changes {
		if d.key != "" && within(d.key, key) {
			d.key = move(d.key)
		}
	}
	return err
}

// setLower sets where the lower half of e is, which is at a path of the upper layer.
func (p *plan) setLower(at string, e *entry, lower string) error {
	e.lower = lower
	return p.inOwn(at, func(dir int, name string) error {
		return p.onOwn(dir, name, func(fd int) error { return unix.Setxattr(procPath(fd), AttrLower, []byte(lower), 0) })
	})
}

// dropWhiteout removes a whiteout of the upper layer.
func (p *plan) dropWhiteout(at string) error {
	return p.inOwn(at, func(dir int, name string) error {
		o, err := statAt(dir, name)
		if o == nil || err != nil || !o.isWhiteout() {
			return err
		}
		return unix.Unlinkat(dir, name, 0)
	})
}
