package fusefs

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"wolffia/perm"
)

// SetRules replaces the rules, and returns when the new ones are in force:
//
//   - Requests in progress are finished by the old rules, but for those that wait for the copy of
//     a large file; these and later ones get the new ones. An open file stays open, but
//     reading or writing it fails with EACCES, or ENOENT if it is hidden now.
//   - The kernel drops cached names, attributes and listings.
//   - The kernel drops cached content that may no longer be read: access through a memory
//     mapping is a SIGBUS. Changes made through a mapping and not yet written back are
//     lost if they may no longer be written.
//   - A .git that was the sandbox's own and is the host's now, or the other way round, is another one: what was opened before is
//     hidden.
//   - A file without a name has the level of its last name, in the directory that it was in.
//   - A process keeps its working directory, but can use no name in it if that is hidden
//     now.
//
// Before Linux 6.16 it takes up to a second, and getcwd(2) fails in directories until their
// path is used again.
func (s *Server) SetRules(rules Rules) {
	t := s.tree
	t.changeMu.Lock() // a review is done by one set of rules
	t.levels.rulesMu.Lock()
	t.levels.set(rules)
	revoked := t.applyRulesToAll()
	t.levels.rulesMu.Unlock()
	t.changeMu.Unlock()
	t.kernel.forgetRules(revoked)
}

// setRules sets the rules, and so what is presented for the size of a directory: by other rules it can have
// other names, and its times tell nothing of that. git believes to know the names as long as times and size are
// those of before.
func (lv *levels) set(rules Rules) {
	const least, most = 4097, 1 << 16 // none that a file system has for a small directory
	lv.rules = rules
	for was := lv.dirSize; lv.dirSize == was; {
		lv.dirSize = least + rand.Uint64N(most-least)
	}
}

// forgetRules makes the kernel ask again for all that it caches, after levels have changed; revoked are
// the nodes whose content may no longer be read. The caller does not hold k.levels.rulesMu: the kernel may
// wait for an answer first.
func (k *kernelCache) forgetRules(revoked []uint64) {
	for _, id := range revoked {
		k.dev.InvalInode(id, true)
	}
	k.forgetAll()
	if !k.dev.Epochs {
		// The kernel cannot be made to forget that a name does not exist in the root.
		since := time.Duration(k.clock() - k.rootAbsent.Load())
		time.Sleep(min(k.timeout, rootAbsence) + rounding - since)
	}
}

// rootAbsence is how long a kernel without epochs may cache that a name does not exist in the
// root. It counts from when it read the answer, and rounds up by at most a jiffy.
const (
	rootAbsence = time.Second
	rounding    = 100 * time.Millisecond
)

// applyRulesToAll gives all nodes their level by the new rules, and returns the ids of those
// whose content may no longer be read. The caller holds ns.levels.rulesMu for writing.
func (ns *names) applyRulesToAll() (revoked []uint64) {
	ns.table.mu.Lock()
	defer ns.table.mu.Unlock()
	// What is by its name on the other side now, private or not, is out of reach: it would be changed by the other's level.
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

// stateOf returns the state inside the directory of a trail. known is a cache that has the
// root's.
func (lv *levels) stateOf(at *trail, known map[*trail]perm.State) perm.State {
	var way []*trail
	s, ok := known[at]
	for ; !ok; s, ok = known[at] {
		way = append(way, at)
		at = at.up
	}
	for _, at := range slices.Backward(way) {
		s = lv.inside(both(s), at.name, true).path
		known[at] = s
	}
	return s
}

// send sends one invalidation to the kernel.
func (k *kernelCache) send(x invalidation) syscall.Errno {
	switch x.what {
	case invalAttr, invalContent:
		return k.dev.InvalInode(x.id, x.what == invalContent)
	case pruneCache:
		return k.pruneNodes()
	default:
		return k.dev.InvalEntry(x.id, x.name, x.what == invalDelete)
	}
}

// forgetAll makes the kernel drop all that it caches, except the content of files whose size
// and modification time are unchanged.
func (k *kernelCache) forgetAll() {
	defer k.walking.again()
	k.forgotten.Store(k.clock())
	if k.dev.Epochs {
		k.dev.NewEpoch()
	}
	for _, n := range k.table.all() {
		if !k.dev.Epochs {
			if parent, name := k.table.place(n); parent != nil {
				// Below a directory of the root, also what does not exist.
				k.dev.InvalEntry(parent.id, name, parent.id == rootID)
			}
		}
		// Before Linux 7.2 a listing outlives the epoch.
		k.dev.InvalInode(n.id, n.isDir())
	}
}
