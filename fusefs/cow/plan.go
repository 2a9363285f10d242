package cow

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/perm"
	"wolffia/runtime"
)

// A change is one difference between the layers, with the data to show, apply or discard it.
type change struct {
	runtime.Change
	upper *entry  // nil: the upper layer has nothing of its own at the path, or a whiteout
	host  *object // what the host has at the path lower; nil: nothing, or it is hidden
	rec   *Record // what the host had; nil: not known

	// lower is the host's path that the change is about, before directories are renamed; empty if
	// the host has no directory for it.
	lower    string
	whiteout string // of a deletion or a renamed directory: the path of its whiteout; empty: no whiteout
	overAt   string // the directory of the sandbox's own, in place of the host's, that c is in; empty: none
	equal    bool   // no change, but the log has another record: only Apply is interested
	setsMode bool   // the existing object gets another mode
	content  bool   // the content differs
	part     *part  // what of the content is applied; nil: all

	// Of a renamed directory: src is its path on the host now, key its path by the log and the
	// attributes of the upper layer.
	src, key string
}

// isShut is why a change is not applied, or a directory not deleted, that cannot be compared with
// what the host has.
const isShut = "the mode of the host's directory forbids to look at what is in it"

// A plan is all changes of an upper layer.
type plan struct {
	*Layers
	records map[string]Record
	root    *entry
	moved   map[string]string // the host's directories that are renamed: host's path to path
	changes []*change         // sorted by path
	hides   []hiding
	git     map[string]*change // one for each git directory that was changed, by its path
}

// A hiding is an entry at path of the upper layer that hides the host's object at lower and all
// below it.
type hiding struct{ lower, path string }

// A place is a directory of the upper layer while it is compared.
type place struct {
	path    string
	host    string     // the host's directory that it is compared with
	hasHost bool       // there can be one
	over    bool       // the sandbox made it where the host has one: names that only that has are deletions
	overAt  string     // the path of the topmost such directory
	up, low perm.State // by the rules of path and of host
	hostFD  int        // -1: the host has no such directory
	shut    bool       // the mode of the host's directory, or of one above it, forbids this user to read its entries
	upperFD int
}

// newPlan compares the layers.
func (l *Layers) newPlan() (*plan, error) {
	p := &plan{Layers: l, moved: map[string]string{}, git: map[string]*change{}}
	var err, rerr error
	var wg sync.WaitGroup
	wg.Go(func() { p.records, rerr = l.Log.Records() }) // half as long as the other
	p.root, err = l.readUpper()
	wg.Wait()
	if err = cmp.Or(rerr, err); err != nil {
		return nil, err
	}
	p.findMoved(p.root, "", "")
	if err := p.compareDir(p.root, place{hasHost: true, up: l.Rules.Root(), low: l.Rules.Root()}); err != nil {
		return nil, err
	}
	p.joinRenames()
	for _, c := range p.git {
		p.changes = append(p.changes, c)
	}
	slices.SortFunc(p.changes, func(a, b *change) int { return cmp.Compare(a.Path, b.Path) })
	return p, nil
}

// findMoved notes the directories below e, which is at a path and is compared with what the host
// has at lower, whose lower half is not at their name in that.
func (p *plan) findMoved(e *entry, at, lower string) {
	for _, c := range e.children {
		if !c.object.isDir() {
			continue
		}
		below := join(lower, c.name)
		if c.half == Moved && c.lower != below {
			below = c.lower
			p.moved[below] = join(at, c.name)
		}
		p.findMoved(c, join(at, c.name), below)
	}
}

// joinRenames drops the deletions that are one end of a renamed directory.
func (p *plan) joinRenames() {
	renames := map[string]*change{}
	for _, c := range p.changes {
		if c.Kind == runtime.ChangeRenamed {
			renames[c.From] = c
		}
	}
	p.changes = slices.DeleteFunc(p.changes, func(c *change) bool {
		if c.Kind != runtime.ChangeDeleted || p.moved[c.lower] == "" {
			return false
		}
		if r := renames[c.lower]; r != nil {
			r.whiteout = c.whiteout
		}
		return true
	})
}

func (p *plan) add(c *change) { p.changes = append(p.changes, c) }

// compareDir adds the changes in the directory e, at d.
func (p *plan) compareDir(e *entry, d place) (err error) {
	if err := p.stopped(); err != nil {
		return err
	}
	if e.long {
		p.add(&change{Change: runtime.Change{
			Path: d.path, Kind: runtime.ChangeAdded, Type: runtime.TypeDirectory,
			Unapplied: "the path of what is in it is too long to be used",
		}, upper: e})
		return nil
	}
	d.hostFD = -1
	if d.hasHost {
		if d.hostFD, err = openDir(p.Root, d.host); errors.Is(err, unix.EACCES) {
			d.shut = true
		} else if err != nil {
			return fmt.Errorf("open %q: %w", d.host, err)
		}
		if d.hostFD >= 0 {
			defer unix.Close(d.hostFD)
		}
	}
	if d.upperFD, err = p.ownDir(p.Upper, d.path); err != nil || d.upperFD < 0 {
		return fmt.Errorf("open %q in the upper layer: %w", d.path, cmp.Or(err, error(unix.ESTALE)))
	}
	for _, c := range e.children {
		if IsGit(c.name) {
			if gitChanged(d.upperFD, c) {
				at := path.Join(d.path, c.name)
				p.git[at] = &change{Change: runtime.Change{
					Path: at, Kind: runtime.ChangeModified, Type: runtime.TypeDirectory,
					Unapplied: "a git repository's own files are not applied: take its commits over with apply --git",
				}, upper: c}
			}
			continue
		}
		if err := p.compare(c, &d); err != nil {
			unix.Close(d.upperFD)
			return err
		}
	}
	unix.Close(d.upperFD)
	if d.over && d.hostFD >= 0 {
		return p.impliedDeletions(e, &d)
	}
	return nil
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// impliedDeletions adds the deletions of what the host has in a directory that the sandbox has
// deleted and made again.
func (p *plan) impliedDeletions(e *entry, d *place) error {
	there := make(map[string]bool, len(e.children))
	for _, c := range e.children {
		there[c.name] = true
	}
	made := p.records[d.host] // applied: unrecorded entries in it are the host's own
	err := names(d.hostFD, func(name string) error {
		at := join(d.host, name)
		if there[name] || p.moved[at] != "" {
			return nil
		}
		host, err := statAt(d.hostFD, name)
		if host == nil {
			return err
		}
		rec, known := p.records[at]
		if made.Applied && (!known || rec.Type == 0) {
			return nil
		}
		return p.deletion(d, name, host, &change{})
	})
	if errors.Is(err, unix.EACCES) {
		return nil // it is shut: the sandbox did not see its entries
	}
	return err
}

// level returns the lower one of the levels that the rules of its path and of its host's path give
// the entry called name in d.
func (p *plan) level(d *place, name string, isDir bool) perm.Level {
	l := p.Rules.Child(d.up, name, isDir)
	if d.hasHost {
		l = min(l, p.Rules.Child(d.low, name, isDir))
	}
	return l
}

// judge sets what the rules say of c, called name in d, and reports whether it is hidden.
func (p *plan) judge(c *change, d *place, name string, isDir ...bool) (hidden bool) {
	l := perm.Write
	for _, dir := range isDir {
		l = min(l, p.level(d, name, dir))
	}
	if l < perm.Write {
		c.Denied = fmt.Sprintf("the rules give it the level %s now, and a change needs write", l)
	}
	return l == perm.None
}

// compare adds the changes of e, in the directory at d, and of the entries below e.
func (p *plan) compare(e *entry, d *place) error {
	c := &change{upper: e}
	c.Path = join(d.path, e.name)
	if d.hasHost {
		c.lower = join(d.host, e.name)
		if rec, ok := p.records[c.lower]; ok && p.moved[c.lower] == "" {
			c.rec = &rec
		}
	}
	var host *object
	if d.hostFD >= 0 && p.moved[c.lower] == "" {
		var err error
		if host, err = statAt(d.hostFD, e.name); errors.Is(err, unix.EACCES) {
			d.shut = true
		} else if err != nil {
			return fmt.Errorf("look at %q: %w", c.lower, err)
		}
	}
	if d.shut {
		c.Unapplied = isShut
	}
	if d.hasHost && (!e.object.isDir() || e.half == Own || e.half == Moved && e.lower != c.lower) {
		p.hides = append(p.hides, hiding{c.lower, c.Path})
	}
	if host != nil {
		c.overAt = d.overAt
	}
	if e.object.isWhiteout() {
		if d.hostFD >= 0 && p.moved[c.lower] != "" {
			c.Kind, c.whiteout = runtime.ChangeDeleted, c.Path // joinRenames takes it
			p.add(c)
			return nil
		}
		if host == nil {
			return nil
		}
		return p.deletion(d, e.name, host, &change{whiteout: c.Path})
	}
	c.Type, c.NewMode, c.Size = typeOf(e.object), e.object.perms(), int64(e.object.Size)
	if e.object.isDir() {
		c.Size = 0
	}
	kinds := []bool{e.object.isDir()}
	if host != nil && host.isDir() != e.object.isDir() {
		kinds = append(kinds, host.isDir())
	}
	if p.judge(c, d, e.name, kinds...) {
		c.Kind = runtime.ChangeAdded
		if c.recorded() {
			c.Kind = runtime.ChangeModified
		}
		c.NewMode, c.Size = 0, 0
		p.add(c)
		return nil
	}
	if !e.object.isKnownKind() {
		c.Unapplied = "only files, directories and symbolic links are applied"
	}
	if host != nil && host.isMount() {
		c.Unapplied = "the host has another file system mounted there"
	}
	c.host = host
	if e.object.isDir() {
		return p.compareDirectory(c, d)
	}
	return p.compareFile(c, d)
}

// typeOf returns the type of o for a Change.
func typeOf(o *object) runtime.FileType {
	switch {
	case o.isFile():
		return runtime.TypeFile
	case o.isDir():
		return runtime.TypeDirectory
	case o.isLink():
		return runtime.TypeSymlink
	}
	return runtime.TypeOther
}

// deletion adds c, the deletion of what the host has as name in the directory at d.
func (p *plan) deletion(d *place, name string, host *object, c *change) error {
	c.Path, c.lower, c.host, c.overAt = join(d.path, name), join(d.host, name), host, d.overAt
	c.Kind, c.Type = runtime.ChangeDeleted, typeOf(host)
	if rec, ok := p.records[c.lower]; ok {
		c.rec = &rec
	}
	if p.judge(c, d, name, host.isDir()) {
		c.host, c.Type = nil, runtime.TypeOther
		p.add(c)
		return nil
	}
	c.OldMode = host.perms()
	var err error
	switch {
	case IsGit(name):
		c.Unapplied = "a git repository is not deleted"
	case host.isMount():
		c.Unapplied = "the host has another file system mounted there"
	case !c.recorded():
		c.Conflict = "made on the host"
	default:
		c.Conflict, err = p.goneConflict(c.rec, host, c.lower, p.state(c.Path))
	}
	p.add(c)
	return err
}
