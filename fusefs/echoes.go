package fusefs

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/echo"
	"wolffia/fusefs/fanotify"
	"wolffia/perm"
)

// echoes collect the host's changes for another process, which repeats them in the mount for the
// programs that watch it: see package echo. What its thread asks for is answered by an echoTree.
type echoes struct {
	*names
	kernel *kernelCache

	// report is Options.OnHostChange; nil: nothing is collected.
	report func() bool

	thread atomic.Uint32 // the thread whose operations change nothing; 0: none

	mu       sync.Mutex
	reported bool                   // report was called, and the changes were not fetched yet; guarded by mu
	noted    map[place]*notedChange // guarded by mu
	order    []place                // of noted; guarded by mu
	listed   map[uint64]struct{}    // directories with too many changes; guarded by mu
	answers  map[place]*notedChange // of the latest batch; guarded by mu
	probe    string                 // of the latest batch; guarded by mu
}

// A place is a name in a directory node.
type place struct {
	dir  uint64
	name string
}

// A notedChange is what has happened to a name since the latest batch.
type notedChange struct {
	first, mask uint64 // the first event, and all (fanotify(7))
	node        uint64 // at the name before; 0: the kernel has known none
	inode       uint64 // of node, as it is presented

	kind echo.Kind // set when it is in a batch
	typ  uint32    // as kind
}

// Bounds of what is collected: beyond maxNoted names only their directories are, and of a storm in
// more directories some are lost, as for inotify itself (inotify(7), max_queued_events).
const (
	maxNoted = 1 << 13
	maxBatch = 16 << 10 // bytes of names
)

// note collects a change of the entry called name of dir, with the mask of an event.
func (es *echoes) note(dir *node, name string, mask uint64) {
	if es == nil || es.report == nil {
		return
	}
	hidden, known := es.hides(dir, name, mask)
	if hidden {
		return
	}
	child := es.table.child(dir, name)
	es.mu.Lock()
	defer es.mu.Unlock()
	at := place{dir.id, name}
	n := es.noted[at]
	switch {
	case n != nil:
		n.mask |= mask
	case len(es.noted) >= maxNoted:
		if known { // else it would tell of a name that may be hidden
			es.noteListed(dir)
		}
		return
	default:
		if es.noted == nil {
			es.noted = map[place]*notedChange{}
		}
		n = &notedChange{first: mask, mask: mask}
		if child != nil {
			n.node, n.inode = child.id, presented(child)
		}
		es.noted[at] = n
		es.order = append(es.order, at)
	}
	es.reportOnce()
}

// hides reports whether the rules hide a name with an event. It does not wait while they change.
func (es *echoes) hides(dir *node, name string, mask uint64) (hidden, known bool) {
	if !es.levels.rulesMu.TryRLock() {
		return false, false
	}
	defer es.levels.rulesMu.RUnlock()
	e := newEntry(dir, name)
	return dir.getLevel() == perm.None || es.levels.of(&e, mask&unix.FAN_ONDIR != 0) == perm.None, true
}

// noteAll notes that any name may have changed.
func (es *echoes) noteAll() {
	if es == nil || es.report == nil {
		return
	}
	all := es.table.all()
	es.mu.Lock()
	defer es.mu.Unlock()
	for _, n := range all {
		if n.isDir() && n.watched.Load() {
			es.noteListed(n)
		}
	}
	es.reportOnce()
}

// noteListed notes that names of dir have changed. The caller holds es.mu.
func (es *echoes) noteListed(dir *node) {
	if es.listed == nil {
		es.listed = map[uint64]struct{}{}
	}
	if len(es.listed) < maxNoted {
		es.listed[dir.id] = struct{}{}
	}
}

// reportOnce reports the first change. The caller holds es.mu.
func (es *echoes) reportOnce() { es.reported = es.reported || es.report() }

// presented returns the number that n's inode has inside.
func presented(n *node) uint64 {
	if n.layers != nil {
		return n.layers.ino.Load()
	}
	return n.ident().Ino
}

// DropHostChanges drops the host's changes so far. Options.OnHostChange is called at the next one.
func (s *Server) DropHostChanges() { s.tree.echoes.drop() }

func (es *echoes) drop() {
	es.mu.Lock()
	defer es.mu.Unlock()
	clear(es.noted)
	clear(es.listed)
	clear(es.answers)
	es.order, es.reported = nil, false
}

// HostChanges returns some of the host's changes so far, without those of hidden names, for
// [echo.Repeat]. From now on no operation of thread changes anything, as the mount's PID namespace
// numbers it (gettid(2)). It is one that lives as long as the mount. Options.OnHostChange is called
// at the first change after the last batch.
func (s *Server) HostChanges(thread int) *echo.Batch {
	es := s.tree.echoes
	es.thread.Store(uint32(thread))
	b := &echo.Batch{Probe: backing.OwnPrefix + rand.Text()}
	replaced, removed := es.fill(b)
	// With no lock held: the kernel may wait for an answer first.
	for at, id := range replaced {
		es.kernel.dev.RemoveEntry(at.dir, id, at.name)
	}
	for _, at := range removed { // the kernel may know already that they do not exist
		es.kernel.dev.InvalEntry(at.dir, at.name, false)
	}
	return b
}

// fill fills b with changes. It returns the nodes that have lost their names to other objects, and
// the names that were removed.
func (es *echoes) fill(b *echo.Batch) (replaced map[place]uint64, removed []place) {
	es.levels.rulesMu.RLock()
	defer es.levels.rulesMu.RUnlock()
	es.mu.Lock()
	defer es.mu.Unlock()
	es.probe, es.answers, replaced = b.Probe, map[place]*notedChange{}, map[place]uint64{}
	for size := 0; size < maxBatch && len(es.order) > 0; {
		at := es.order[0]
		n := es.noted[at]
		es.order = es.order[1:]
		delete(es.noted, at)
		c, ok := es.change(at, n)
		if !ok {
			continue
		}
		switch {
		case c.Kind == echo.Removed:
			removed = append(removed, at)
		case c.Kind == echo.Made && n.node != 0:
			replaced[at] = n.node
		}
		size += len(c.Dir) + len(c.Name) + 64
		es.answers[at] = n
		b.Changes = append(b.Changes, *c)
	}
	for size := 0; size < maxBatch && len(es.order) == 0 && len(es.listed) > 0; {
		for id := range es.listed {
			delete(es.listed, id)
			if c, ok := es.dirOf(id); ok {
				c.Kind = echo.Listed
				size += len(c.Dir) + 64
				b.Changes = append(b.Changes, *c)
			}
			break
		}
	}
	b.More = len(es.order) > 0 || len(es.listed) > 0
	es.reported = b.More
	return replaced, removed
}

// dirOf returns a change in the directory node called id, without name and kind; ok is false if the
// directory has no name inside.
func (es *echoes) dirOf(id uint64) (c *echo.Change, ok bool) {
	dir := es.table.get(id)
	if dir == nil || dir.getLevel() == perm.None || dir.getState().path < 0 {
		return nil, false
	}
	if parent, _ := es.table.place(dir); parent == nil && id != rootID {
		return nil, false
	}
	path, whole := es.table.wholePath(dir, "")
	if path == "" {
		path = "."
	}
	return &echo.Change{Dir: []byte(path), DirInode: presented(dir)}, whole
}

// change returns the change n of the entry at; ok is false if programs inside do not get it.
func (es *echoes) change(at place, n *notedChange) (c *echo.Change, ok bool) {
	if c, ok = es.dirOf(at.dir); !ok || !plainName(at.name) || es.git != nil && at.name == gitName {
		return nil, false
	}
	e := newEntry(es.table.get(at.dir), at.name)
	if es.levels.of(&e, n.mask&unix.FAN_ONDIR != 0) == perm.None {
		return nil, false
	}
	c.Name, c.Inode = []byte(at.name), n.inode
	obj, errno := es.look(&e)
	switch {
	case errno == syscall.ENOENT && n.mask&fanotify.NameMask != 0 && n.first&unix.FAN_CREATE == 0:
		c.Kind, c.Type = echo.Removed, unix.S_IFREG
		if n.mask&unix.FAN_ONDIR != 0 {
			c.Type = unix.S_IFDIR
		}
	case errno != 0 || es.levels.of(&e, obj.IsDir()) == perm.None:
		return nil, false
	case n.mask&fanotify.NameMask != 0 && !es.same(n, obj):
		c.Kind, c.Type = echo.Made, obj.Type()
	case n.mask&(fanotify.NameMask|unix.FAN_MODIFY|unix.FAN_CLOSE_WRITE) != 0:
		c.Kind = echo.Written
	default:
		c.Kind = echo.Touched
	}
	// A program whose file is open for writing cannot be executed (ETXTBSY in execve(2)).
	c.Closed = obj != nil && obj.Type() == unix.S_IFREG && obj.Mode&0o111 == 0 && c.Kind != echo.Touched
	n.kind, n.typ = c.Kind, c.Type
	return c, true
}

// same reports whether o is the object that the name had before the change.
func (es *echoes) same(n *notedChange, o *backing.Object) bool {
	before := es.table.get(n.node)
	return before != nil && before.ident() == o.ID
}

// look returns the object at e. The caller holds rulesMu.
func (es *echoes) look(e *entry) (*backing.Object, syscall.Errno) {
	es.renameMu.RLock()
	defer es.renameMu.RUnlock()
	d, errno := es.acquireEntry(e, false)
	if errno != 0 {
		return nil, errno
	}
	defer d.release()
	o, _, errno := es.statEntry(d, e.name)
	return o, errno
}

// answerOf returns the change of the latest batch at a place, if it is of that kind.
func (es *echoes) answerOf(dir uint64, name string, kind echo.Kind) *notedChange {
	es.mu.Lock()
	defer es.mu.Unlock()
	if n := es.answers[place{dir, name}]; n != nil && n.kind == kind {
		return n
	}
	return nil
}

// answered records that the change of a place was repeated: from now on it is as it is.
func (es *echoes) answered(dir uint64, name string) {
	es.mu.Lock()
	defer es.mu.Unlock()
	delete(es.answers, place{dir, name})
}

// repeats reports whether a request is of the thread that repeats changes.
func (es *echoes) repeats(in *fuse.InHeader) bool { return in.Pid != 0 && in.Pid == es.thread.Load() }

// isProbe reports whether the entry called name of dir is the latest batch's probe.
func (es *echoes) isProbe(dir uint64, name string) bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	return dir == rootID && name != "" && name == es.probe
}
