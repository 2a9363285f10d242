package cow

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
)

// Discard reverts the changes at and below paths, or all changes if paths is empty. It returns how
// many. With one end of a renamed directory it reverts the other. A path without a change is
// ErrNotFound.
func (l *Layers) Discard(paths []string) (int, error) {
	if err := l.Recover(); err != nil {
		return 0, err
	}
	p, err := l.reconciledPlan()
	if err != nil {
		return 0, err
	}
	some, err := p.selected(paths)
	if err != nil {
		return 0, err
	}
	var gone []string // paths in the upper layer
	if len(some) == len(p.real(nil)) {
		gone = p.allNames()
	} else if gone, err = p.whole(some, paths); err != nil {
		return 0, err
	}
	n := 0
	for _, c := range p.changes {
		if c.Kind != "" && slices.ContainsFunc(gone, c.isAt) {
			n++
		}
	}
	temp := func(i int) string { return "discard" + strconv.Itoa(i) }
	for i, at := range gone { // of a Discard that has failed
		if err := l.removeWork(temp(i)); err != nil {
			return 0, discardError(at, err)
		}
	}
	if err := l.stopped(); err != nil {
		return 0, err
	}
	var failed error
	l.alone(func() {
		for i, at := range gone {
			if err := p.drop(at, temp(i)); err != nil {
				failed = discardError(at, err)
				return
			}
		}
	})
	for i, at := range gone {
		l.reached("discard: next deleted")
		if err := l.removeWork(temp(i)); err != nil && failed == nil {
			failed = discardError(at, fmt.Errorf("remove the discarded entry: %w", err))
		}
	}
	if failed != nil {
		return 0, failed
	}
	return n, l.Log.Sync()
}

// removeWork removes the entry called name of Layers.Work, with all below. A missing entry is no
// error.
func (l *Layers) removeWork(name string) error { return RemoveWork(l.Work, name) }

// RemoveWork removes the entry called name of the directory work, which may be open with O_PATH,
// with all below. A missing entry is no error.
func RemoveWork(work int, name string) error {
	fd, err := unix.FcntlInt(uintptr(work), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), "work")
	defer dir.Close()
	return rmtree.Remove(dir, name)
}

func discardError(at string, err error) error {
	return runtime.Errorf(runtime.ErrUnavailable, "discard %s: %w", Quote(at), err)
}

// allNames returns the paths of all that is directly in the upper layer.
func (p *plan) allNames() []string {
	var all []string
	for _, e := range p.root.children {
		all = append(all, e.name)
	}
	return all
}

// whole returns the paths of the upper layer that must go for some changes, those at and below
// paths, to go, without any that is below another.
func (p *plan) whole(some []*change, paths []string) ([]string, error) {
	gone := map[string]bool{}
	for _, c := range some {
		if c.upper != nil || c.whiteout != "" {
			gone[c.Path] = true
		}
	}
	for _, at := range paths { // equal entries in a directory go with the directory
		at = path.Clean(at)
		if e := p.entry(at); e != nil && at != "." {
			gone[at] = true
		}
	}
	covered := func(at string) bool {
		for dir := at; dir != ""; dir = parentOf(dir) {
			if gone[dir] {
				return true
			}
		}
		return false
	}
	for more := true; more; {
		more = false
		add := func(at string) {
			if !covered(at) {
				gone[at], more = true, true
			}
		}
		for from, to := range p.moved {
			for _, h := range p.hides {
				if within(from, h.lower) && covered(to) != covered(h.path) {
					add(to)
					add(h.path)
				}
			}
		}
	}
	for _, c := range some {
		if c.overAt != "" && !covered(c.overAt) {
			return nil, runtime.Errorf(runtime.ErrInvalid, "%s is in the directory %s, which the sandbox has deleted and made again: discard that", Quote(c.Path), Quote(c.overAt))
		}
	}
	var all []string
	for at := range gone {
		if dir := parentOf(at); dir == "" || !covered(dir) {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all, nil
}

// entry returns what the upper layer has at a path, nil if it has nothing.
func (p *plan) entry(at string) *entry {
	e := p.root
	for name := range splitPath(at) {
		i := slices.IndexFunc(e.children, func(c *entry) bool { return c.name == name })
		if i < 0 {
			return nil
		}
		e = e.children[i]
	}
	return e
}

// drop renames what the upper layer has at a path to temp in Layers.Work, and forgets the records
// of what that hides.
func (p *plan) drop(at, temp string) error {
	if p.BeforeRemove != nil {
		p.BeforeRemove(at)
	}
	err := p.inOwn(at, func(dir int, name string) error {
		// A directory that gets another parent must be writable itself.
		return p.onOwn(dir, name, func(int) error { return unix.Renameat(dir, name, p.Work, temp) })
	})
	if err != nil {
		return err
	}
	p.reached("discard: taken away")
	if err := p.forget(at); err != nil {
		return err
	}
	p.reached("discard: forgotten")
	return nil
}

// forget removes the records of what the upper layer hid at and below a path.
func (p *plan) forget(at string) error {
	drop := map[string]bool{}     // with all below
	dropOnly := map[string]bool{} // directories with a record of their attributes only
	for _, h := range p.hides {
		if within(h.path, at) {
			drop[h.lower] = true
		}
	}
	var merged func(at, lower string, e *entry)
	merged = func(at, lower string, e *entry) {
		if e.half == Own {
			lower = ""
		}
		if e.half == Moved {
			lower = e.lower
		}
		if lower != "" {
			dropOnly[lower] = true
		}
		for _, c := range e.children {
			if c.object.isDir() {
				below := ""
				if lower != "" {
					below = join(lower, c.name)
				}
				merged(join(at, c.name), below, c)
			}
		}
	}
	e, lower := p.root, ""
	hasLower := true
	for name := range splitPath(at) {
		i := slices.IndexFunc(e.children, func(c *entry) bool { return c.name == name })
		if i < 0 {
			return nil
		}
		e = e.children[i]
		lower = join(lower, name)
		switch e.half {
		case Own:
			hasLower = false
		case Moved:
			lower, hasLower = e.lower, true
		}
	}
	if e.object.isDir() && hasLower {
		merged(at, lower, e)
	}
	for r := range p.records {
		gone := dropOnly[r]
		for dir := r; dir != "" && !gone; dir = parentOf(dir) {
			gone = drop[dir]
		}
		if gone {
			if err := p.Log.Forget(r); err != nil {
				return err
			}
		}
	}
	return nil
}
