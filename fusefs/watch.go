package fusefs

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/fanotify"
)

// A watcher notices changes by processes other than this one: in directories, and of files that
// have names elsewhere too, whatever name they are changed by. The group tells which changes are
// this process's own, and so the sandbox's.
//
// It misses changes through a shared memory mapping until the file is closed, and what happens by
// a name that a file gets in a directory that is not watched, until the kernel asks for its
// attributes again.
//
// A nil watcher watches nothing.
type watcher struct {
	group *fanotify.Group
	inval *invalQueue
	table *table

	// copied follows a change in a copied tree, and reports whether the watcher needs to do
	// nothing else; nil: the tree is direct.
	copied func(dir *node, name string, mask uint64) bool

	echoes *echoes // nil: as one that collects nothing

	changes atomic.Uint64

	following atomic.Bool
	follows   map[string]*follow // by file handle: directories that are watched for git's monitor; guarded by mu

	full      atomic.Bool // the kernel accepts no more marks
	filesFull atomic.Bool // files get no more marks

	// mu is also held while the kernel's marks change, one for each key of nodes.
	mu       sync.Mutex
	nodes    map[string]*node // the watched nodes, by file handle; guarded by mu
	keys     map[*node]string // the reverse; guarded by mu
	files    int              // the kernel's marks on files; guarded by mu
	maxMarks func() int       // limits files, and follows
}

// newWatcher returns a watcher, nil if the kernel is too old or the user has too many. proc is as
// backing.proc.
func newWatcher(proc int) *watcher {
	w := &watcher{nodes: map[string]*node{}, keys: map[*node]string{}, maxMarks: maxMarks}
	if w.group = fanotify.New(proc, w); w.group == nil {
		return nil
	}
	return w
}

// maxMarks returns how many marks on files, and how many follows, a watcher may have: a quarter of
// what all processes of the user may have, 0 if that is not known (fanotify(7), /proc interfaces).
// The host is asked when the first one is watched.
var maxMarks = sync.OnceValue(func() int {
	b, _ := os.ReadFile("/proc/sys/fs/fanotify/max_user_marks")
	n, _ := strconv.Atoi(string(bytes.TrimSpace(b)))
	return n / 4
})

// watchRoot starts to notice the host's changes, if kernel and file system can report them.
func (ns *names) watchRoot() {
	w := newWatcher(ns.Proc)
	if w == nil {
		return
	}
	w.inval, w.table, w.echoes = ns.inval, ns.table, ns.echoes
	root := ns.root
	if ns.copied != nil {
		root, w.copied = ns.lower.top, ns.lower.hostChanged
	}
	w.add(root.node, root.fd)
	if !ns.root.node.watched.Load() {
		w.group.Free() // a file system without events
		return
	}
	ns.watch = w
	go w.group.Run() // ends with close
}

// accepts reports whether n, a directory or a regular file, is not watched yet and can be. Files
// get a part of the marks only: a directory's is worth more.
func (w *watcher) accepts(n *node) bool {
	return w != nil && !n.watched.Load() && !w.full.Load() && (n.isDir() || !w.filesFull.Load())
}

// add watches the directory n, which is open as fd, and sets n.watched if it can be watched.
func (w *watcher) add(n *node, fd int) { w.addIf(n, fd, func() bool { return true }) }

// addFile watches the regular file n, which has names elsewhere too, and sets n.watched if it can
// be watched. The file is open as fd, with O_PATH, and has the backing.Identity ident.
func (w *watcher) addFile(n *node, ident backing.Identity, fd int) {
	// If it got another inode meanwhile, the request that changed it calls remove.
	w.addIf(n, fd, func() bool { return n.ident() == ident })
}

// addIf is add or addFile if still, which it calls with w.mu held, returns true.
func (w *watcher) addIf(n *node, fd int, still func() bool) {
	if !w.accepts(n) {
		return
	}
	key, err := fanotify.Key(fd)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !still() {
		return
	}
	err = w.group.Mark(fd, n.isDir())
	switch {
	case err == syscall.ENOSPC && n.isDir():
		w.full.Store(true)
	case err == syscall.ENOSPC:
		w.filesFull.Store(true)
	case err == nil:
		w.count(n, 1)
		w.record(n, key)
	}
}

// count adds to the marks on files if n is one. The caller holds w.mu.
func (w *watcher) count(n *node, marks int) {
	if !n.isDir() {
		w.files += marks
		w.filesFull.Store(w.files >= w.maxMarks())
	}
}

// record makes n, which is marked, the node that gets the events of key. The caller holds w.mu.
func (w *watcher) record(n *node, key string) {
	if old := w.nodes[key]; old != nil && old != n {
		delete(w.keys, old)
		old.watched.Store(false)
	}
	w.nodes[key], w.keys[n] = n, key
	n.watched.Store(true)
}

// remove ends the watch of n, which leaves the table or gets another inode. fd is open for the
// watched object; with -1 the kernel's mark stays.
func (w *watcher) remove(n *node, fd int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n.watched.Store(false)
	key, ok := w.keys[n]
	if !ok {
		return // another node has the same inode, and the mark
	}
	delete(w.nodes, key)
	delete(w.keys, n)
	if fd >= 0 && w.follows[key] == nil && w.group.Unmark(fd, n.isDir()) == nil {
		w.count(n, -1)
	}
}

// node returns the node that gets the events of key; nil: none. It also notifies the followers of
// key.
func (w *watcher) node(key string) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.follows[key]; f != nil {
		f.events.Add(1)
	}
	return w.nodes[key]
}

// drain handles all events so far.
func (w *watcher) drain() {
	if w != nil && w.following.Load() {
		w.group.Drain()
	}
}

// A follow counts how often any process, also this one, has changed a directory, or a file by its
// name there.
type follow struct {
	events atomic.Uint64
	over   atomic.Bool // the directory is not followed any more
}

// maxFollows limits follows: each keeps an inode in the kernel's memory.
const maxFollows = 1 << 16

// followDir watches the directory that is open as fd until unfollow, or until it is removed. key
// names it in events; nil: it cannot be watched, or too many are.
func (w *watcher) followDir(fd int) (key string, f *follow) {
	if w == nil || w.full.Load() {
		return "", nil
	}
	key, err := fanotify.Key(fd)
	if err != nil {
		return "", nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.follows[key]; f != nil {
		return key, f
	}
	if len(w.follows) >= min(w.maxMarks(), maxFollows) {
		return "", nil
	}
	if err := w.group.Mark(fd, true); err != nil {
		if err == syscall.ENOSPC {
			w.full.Store(true)
		}
		return "", nil
	}
	if w.follows == nil {
		w.follows = map[string]*follow{}
	}
	f = new(follow)
	w.follows[key] = f
	w.following.Store(true)
	return key, f
}

// unfollow ends that the directory of key is followed, which is open as fd; -1: it was removed,
// and the kernel's mark with it.
func (w *watcher) unfollow(key string, fd int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.follows[key]
	if f == nil {
		return
	}
	f.over.Store(true)
	delete(w.follows, key)
	w.following.Store(len(w.follows) > 0)
	if fd >= 0 && w.nodes[key] == nil {
		_ = w.group.Unmark(fd, true)
	}
}

// Unknown notes that anything may have changed.
func (w *watcher) Unknown() {
	w.inval.addAll()
	w.echoes.noteAll()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.follows {
		f.events.Add(1)
	}
}

// close ends the group's Run.
func (w *watcher) close() {
	if w != nil {
		w.group.Close()
	}
}

// Wants reports whether an event matters that is this process's own, or not.
func (w *watcher) Wants(own bool) bool {
	if !own {
		w.changes.Add(1)
	}
	return !own || w.following.Load()
}

// Event handles one event.
func (w *watcher) Event(e fanotify.Event) {
	n := w.node(e.Key)
	if e.Mask&unix.FAN_DELETE_SELF != 0 {
		w.unfollow(e.Key, -1)
	}
	switch {
	case e.Own:
	case n == nil: // no node has the inode any more
	case e.Entry:
		w.changed(n, string(e.Name), e.Mask)
	case !n.isDir() && !n.inUpper():
		w.rewritten(n, e.Mask)
		if dir, name := w.table.place(n); dir != nil {
			w.echoes.note(dir, name, e.Mask)
		}
	}
}

// changed queues the invalidations for a change of the entry called name in dir.
func (w *watcher) changed(dir *node, name string, mask uint64) {
	if name == "." {
		w.inval.add(invalidation{what: invalAttr, id: dir.id})
		return
	}
	if w.copied != nil && w.copied(dir, name, mask) {
		return
	}
	w.echoes.note(dir, name, mask)
	child := w.table.child(dir, name)
	if mask&fanotify.NameMask != 0 {
		kind := invalEntry
		if mask&(unix.FAN_DELETE|unix.FAN_MOVED_FROM) != 0 {
			kind = invalDelete
		}
		if child != nil {
			w.table.invalidate(child)
		}
		w.inval.add(invalidation{what: kind, id: dir.id, name: name})
		w.inval.add(invalidation{what: invalContent, id: dir.id})
	}
	if child != nil {
		w.rewritten(child, mask)
	}
}

// rewritten queues the invalidation for a change of the content or the attributes of n.
func (w *watcher) rewritten(n *node, mask uint64) {
	switch {
	case mask&(unix.FAN_MODIFY|unix.FAN_CLOSE_WRITE) != 0:
		w.inval.add(invalidation{what: invalContent, id: n.id})
	case mask&unix.FAN_ATTRIB != 0:
		w.inval.add(invalidation{what: invalAttr, id: n.id})
	}
}
