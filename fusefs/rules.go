package fusefs

import (
	"slices"
	"syscall"
	"time"

	"wolffia/perm"
)

// SetRules replaces the rules, and returns when the new ones bind:
//
//   - A request that comes later is judged by the new rules, one under way is
//     finished first. So what was open stays open, but reading or writing it
//     fails with EACCES, or ENOENT if it is hidden now.
//   - Cached names, attributes and listings are forgotten.
//   - Cached content that may no longer be read is dropped; where it was mapped,
//     the next access is a SIGBUS. What was changed through a mapping and not
//     yet written back is lost if it may no longer be written.
//   - A file that has no name any more is judged by the last it had, in the
//     directory that it was in.
//   - A process keeps its working directory, but can use no name in it if that
//     is hidden now.
//
// Before Linux 6.16 it takes up to a second, and getcwd(2) fails in directories
// until their path is used again.
func (s *Server) SetRules(rules Rules) {
	t := s.tree
	t.rulesMu.Lock()
	t.rules = rules
	lost := t.applyRulesToAll()
	t.rulesMu.Unlock()
	// Without the lock: the kernel may want an answer first.
	for _, id := range lost {
		t.dev.invalInode(id, true)
	}
	t.forgetAll()
	if !t.dev.epochs {
		// Nothing makes the kernel forget that a name does not exist in the root.
		since := time.Duration(t.clock() - t.rootAbsent.Load())
		time.Sleep(min(t.timeout, rootAbsence) + rounding - since)
	}
}

// rootAbsence is how long a kernel without epochs may believe that a name does
// not exist in the root. It counts from when the answer was taken, and rounds up, by
// a jiffy at most.
const (
	rootAbsence = time.Second
	rounding    = 100 * time.Millisecond
)

// applyRulesToAll gives all nodes what the rules say now, and returns those whose
// content may no longer be read. t.rulesMu is held for writing.
func (t *tree) applyRulesToAll() (lost []uint64) {
	t.table.mu.Lock()
	defer t.table.mu.Unlock()
	set := func(n *node, l perm.Level, s perm.State) {
		if l < perm.Read && n.getLevel() >= perm.Read {
			lost = append(lost, n.id)
		}
		n.setLevel(l, s)
	}
	root := t.root.node
	set(root, max(t.rules.RootLevel(), perm.View), t.rules.Root())
	within := map[*trail]perm.State{root.trail: t.rules.Root()}
	dirs := []*node{root}
	for _, n := range t.table.nodes {
		if n.parent == nil && n != root {
			s, name := t.stateOf(n.trail.up, within), n.trail.name
			set(n, t.rules.Child(s, name, n.isDir()), t.inside(s, name, n.isDir()))
			dirs = append(dirs, n)
		}
	}
	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		for name, n := range dir.children {
			set(n, t.rules.Child(dir.getState(), name, n.isDir()), t.inside(dir.getState(), name, n.isDir()))
			if n.isDir() {
				dirs = append(dirs, n)
			}
		}
	}
	return lost
}

// stateOf returns the state inside the directory that a trail leads to. known has
// the root's, and gets what was found on the way.
func (t *tree) stateOf(at *trail, known map[*trail]perm.State) perm.State {
	var way []*trail
	s, ok := known[at]
	for ; !ok; s, ok = known[at] {
		way = append(way, at)
		at = at.up
	}
	for _, at := range slices.Backward(way) {
		s = t.rules.Enter(s, at.name)
		known[at] = s
	}
	return s
}

// send tells the kernel of one note.
func (t *tree) send(x invalidation) syscall.Errno {
	switch x.what {
	case invalAttr, invalContent:
		return t.dev.invalInode(x.id, x.what == invalContent)
	case pruneCache:
		return t.pruneNodes()
	default:
		return t.dev.invalEntry(x.id, x.name, x.what == invalDelete)
	}
}

// forgetAll makes the kernel ask again for everything but the content of
// files whose size and time of change are the same.
func (t *tree) forgetAll() {
	if t.dev.epochs {
		t.dev.newEpoch()
	}
	for _, n := range t.table.all() {
		if !t.dev.epochs {
			if parent, name := t.table.place(n); parent != nil {
				// Below a directory of the root, also what does not exist.
				t.dev.invalEntry(parent.id, name, parent.id == rootID)
			}
		}
		// Before Linux 7.2 a listing outlives the epoch.
		t.dev.invalInode(n.id, n.isDir())
	}
}
