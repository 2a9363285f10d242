package fusefs

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"wolffia/fusefs/backing"
	"wolffia/perm"
)

// names are the nodes of a tree, and their places on the backing file system: a node is found by a
// path of names that is walked, and walked again when it may have changed. All parts of a tree
// share them.
type names struct {
	backing.FS
	levels levels

	// changeMu is held for reading while a request of changing is answered, for writing by
	// Quiesce and SetRules.
	changeMu sync.RWMutex

	// renameMu is held while names of the backing file system are used together with the
	// table: for writing by what changes both.
	renameMu sync.RWMutex

	start   time.Time
	timeout time.Duration

	table  *table
	fds    *fdCache
	root   *handle // nil: it is given later; guarded by rulesMu until then
	inval  *invalQueue
	echoes *echoes
	watch  *watcher // nil: the host's changes are not noticed

	git    *privateGit // nil: git directories are served by the rules
	copied *upperLayer // nil: changes go to the host's directory
	lower  *lowerLayer // nil as copied

	links      atomic.Uint64 // hard links that were made, not those in private git directories
	dirsWalked atomic.Uint64 // directories that validatePath has looked at
}

// clock returns the time since the start, in nanoseconds.
func (ns *names) clock() int64 { return int64(time.Since(ns.start)) }

// dir returns the directory node called id.
func (ns *names) dir(id uint64) (*node, syscall.Errno) {
	n := ns.table.get(id)
	switch {
	case n == nil:
		return nil, syscall.ESTALE
	case !n.isDir():
		return nil, syscall.ENOTDIR
	}
	return n, 0
}

// nodeAt returns the node at a path, nil if the kernel knows none.
func (ns *names) nodeAt(path string) *node {
	n := ns.root.node
	if path == "" || path == "." {
		return n
	}
	for name := range strings.SplitSeq(path, "/") {
		if n = ns.table.child(n, name); n == nil {
			return nil
		}
	}
	return n
}

// plainName reports whether name is one component of a path. The kernel sends no other, but
// the confinement to a directory depends on it. The server's own files are out of reach.
func plainName(name string) bool {
	if name == "" || name == "." || name == ".." || strings.HasPrefix(name, backing.OwnPrefix) {
		return false
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 {
			return false
		}
	}
	return true
}

// adopt gives n another inode: see table.adopt. The handles of n are still those of the former
// one, which is not watched any more.
func (ns *names) adopt(n *node, ident backing.Identity) bool {
	if !ns.table.adopt(n, ident) {
		return false
	}
	if n.isDir() {
		return true // it keeps its lower half
	}
	fd := -1
	if h := ns.fds.anyOf(n); h != nil {
		defer h.release()
		fd = h.fd
	}
	ns.watch.remove(n, fd)
	return true
}

// pinOrphan keeps n's descriptor open after n lost its name, since nothing leads to n any
// more. n may be nil.
func (ns *names) pinOrphan(n *node) {
	if n != nil {
		ns.fds.pin(n, usePath)
	}
}

// sync calls f with fd, which can take minutes, and lets the rules change meanwhile: f depends on
// none. The caller holds ns.levels.rulesMu for reading.
func (ns *names) sync(fd int, f func(fd int) error) syscall.Errno {
	ns.levels.rulesMu.RUnlock()
	defer ns.levels.rulesMu.RLock()
	return backing.Errno(f(fd))
}

// applyRulesToAll gives all nodes their level by the new rules, and returns the ids of those
// whose content may no longer be read. The caller holds ns.levels.rulesMu for writing.
func (ns *names) applyRulesToAll() (revoked []uint64) {
	ns.table.mu.Lock()
	defer ns.table.mu.Unlock()
	// What is by its name on the other side now, private or not, is out of reach: it would be
	// changed by the other's level.
	set := func(n *node, l perm.Level, s states, apart bool) {
		if n.apart.Load() != apart {
			l, s = perm.None, both(inNothing)
			if n.parent != nil {
				ns.table.detach(n)
			}
		}
		if l < perm.Read && n.getLevel() >= perm.Read {
			revoked = append(revoked, n.id)
		}
		n.setLevel(l, s)
	}
	root := ns.root.node
	set(root, max(ns.levels.rules.RootLevel(), perm.View), both(ns.levels.rules.Root()), false)
	within := map[*trail]perm.State{root.trail: ns.levels.rules.Root()}
	dirs := []*node{root}
	for _, n := range ns.table.nodes {
		if n.parent == nil && n != root {
			s, name := ns.levels.stateOf(n.trail.up, within), n.trail.name
			l, in := ns.levels.child(both(s), name, n.isDir()), ns.levels.inside(both(s), name, n.isDir())
			if n.layers != nil && !n.inUpper() && n.layers.lowerPath() != "" {
				_, lower := ns.levels.judgePath(n.layers.lowerPath(), n.isDir())
				l = min(l, lower)
			}
			set(n, l, in, ns.levels.apart(both(s), name))
			dirs = append(dirs, n)
		}
	}
	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		for name, n := range dir.children {
			l, in := ns.levels.judge(n, dir, dir.getState(), name)
			set(n, l, in, ns.levels.apart(dir.getState(), name) || dir.getState().path == inNothing && n.apart.Load())
			if n.isDir() {
				dirs = append(dirs, n)
			}
		}
	}
	return revoked
}
