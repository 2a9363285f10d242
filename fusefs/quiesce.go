package fusefs

import (
	"maps"
	"slices"
	"strings"

	"wolffia/fusefs/cow"
)

// changing are the operations that can change the upper layer.
var changing = [len(gate)]bool{
	opSetattr: true, opWrite: true, opFallocate: true, opCopyFrom: true,
	opCreate: true, opMknod: true, opMkdir: true, opSymlink: true, opLink: true, opUnlink: true, opRmdir: true, opRename: true,
}

// Quiesce calls f while nothing is changed in the tree, and returns its error; reading goes on. It is for functions of
// package cow that need the upper layer unchanged, or change it in Alone. f must not touch the mount. If it has called
// Discarded, the kernel looks again at each name before Quiesce returns.
func (s *Server) Quiesce(f func() error) error {
	t := s.tree
	t.changeMu.Lock()
	t.discarded, t.revoked = false, nil
	err := f()
	changed, revoked := t.discarded && t.copied != nil, t.revoked
	if changed {
		t.quota.begin(t.used())
	}
	t.changeMu.Unlock()
	if changed {
		t.forgetRules(revoked)
	}
	return err
}

// Alone calls f while no request is answered, so that it can change what the tree shows. Only a function that Quiesce
// calls may call it. If f has called Discarded, the server looks again at what it knows.
func (s *Server) Alone(f func()) {
	t := s.tree
	t.rulesMu.Lock()
	defer t.rulesMu.Unlock()
	f()
	if t.discarded && t.copied != nil {
		t.renameMu.Lock()
		t.lookAgain()
		t.renameMu.Unlock()
		t.revoked = append(t.revoked, t.applyRulesToAll()...)
	}
}

// Discarded says that what the upper layer has at paths, and below, is about to be taken out of it, or has
// another lower half by now. Only a function that Alone calls may call it. A program inside that has a
// file open there keeps that without a name, for which Discarded must be called before the upper
// layer is changed.
func (s *Server) Discarded(paths []string) {
	t := s.tree
	t.discarded = true
	for _, p := range paths {
		if n := t.nodeAt(p); n != nil {
			t.holdBelow(n)
		}
	}
}

// nodeAt returns the node at a path, nil if the kernel knows none.
func (t *tree) nodeAt(path string) *node {
	n := t.root.node
	if path == "" || path == "." {
		return n
	}
	for name := range strings.SplitSeq(path, "/") {
		if n = t.table.child(n, name); n == nil {
			return nil
		}
	}
	return n
}

// holdBelow opens all files of the upper layer at n and below that the kernel knows.
func (t *tree) holdBelow(n *node) {
	t.renameMu.RLock()
	defer t.renameMu.RUnlock()
	for _, m := range t.table.below(n) {
		if m.isDir() || !m.inUpper() {
			continue
		}
		if h, errno := t.acquireLocked(m, usePath); errno == 0 {
			t.fds.pin(m, usePath)
			h.release()
		}
	}
}

// below returns n and the nodes below it, each after those above it.
func (t *table) below(n *node) (all []*node) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all = append(all, n)
	for i := 0; i < len(all); i++ {
		all = slices.AppendSeq(all, maps.Values(all[i].children))
	}
	return all
}

// lookAgain makes the nodes agree with an upper layer that package cow has changed. What is gone from
// there loses its node, so that the next lookup finds what the host has; only directories that were merged
// in their place keep theirs. The caller holds t.rulesMu and t.renameMu for writing.
func (t *tree) lookAgain() {
	for _, n := range t.table.below(t.root.node)[1:] {
		parent, name := t.table.place(n)
		if parent == nil {
			continue // it went with a directory above
		}
		if !t.stillAt(n, parent, name) {
			for _, m := range slices.Backward(t.table.below(n)) {
				if up, name := t.table.place(m); up != nil && t.table.vanish(up, name, m) {
					t.pinOrphan(m)
					t.inval.add(invalidation{what: invalDelete, id: up.id, name: name}) // or it is kept until memory is short
				}
			}
		}
	}
}

// stillAt brings the layers of n, at the entry called name of parent, up to date, and reports whether n is
// still there.
func (t *tree) stillAt(n, parent *node, name string) bool {
	d, errno := t.dirOf(parent, name)
	if errno != 0 {
		return false
	}
	defer d.release()
	o, a, errno := t.statEntry(d, name)
	own := d.upper && a.fd == d.fd
	switch {
	case errno != 0 || o.typ() != n.typ:
		return false
	case !n.isDir() && o.ident == n.ident() && n.borrows():
		path, errno := t.readBorrow(a, o)
		if errno == 0 {
			t.setLower(n, parent, name, path != "", path)
		}
		return errno == 0
	case !n.isDir():
		return o.ident == n.ident()
	case own && o.ident == n.ident():
		return t.readHalf(n, parent, name, a)
	case !own && n.inUpper():
		return t.dropHalf(n, parent, name, o)
	}
	return o.ident == n.ident()
}

// readHalf reads where the lower half of n is, whose upper half is at a.
func (t *tree) readHalf(n, parent *node, name string, a fdName) bool {
	if !n.inUpper() {
		return false
	}
	fd, half, path, errno := t.openUpper(a)
	if errno != 0 {
		return false
	}
	lookupResult{fd: fd}.close()
	if half == cow.Merged && parent.merges() {
		half, path = cow.Moved, lowerPathOf(parent, name)
	}
	t.setLower(n, parent, name, half == cow.Moved, path)
	return true
}

// dropHalf makes n, whose upper half is gone, the host's o, if it was that merged with the upper half.
func (t *tree) dropHalf(n, parent *node, name string, o *object) bool {
	if half, _ := n.half(parent, name); half != cow.Merged {
		return false
	}
	t.fds.close(n, usePath)
	t.fds.move(n, useLower, usePath)
	if h := t.fds.cached(n, usePath); h != nil {
		now, errno := t.stat(fdName{fd: h.fd})
		h.release()
		if errno != 0 || now.ident != o.ident {
			t.watch.remove(n, -1)
			t.fds.close(n, usePath)
		}
	}
	if !t.adopt(n, o.ident) {
		return false
	}
	n.layers.upper.Store(false)
	n.validatedAt.Store(neverValidated)
	return true
}

// setLower records that the lower half of n is at path, or that there is none.
func (t *tree) setLower(n, parent *node, name string, merges bool, path string) {
	t.table.mu.Lock()
	defer t.table.mu.Unlock()
	if n.layers.merges.Load() == merges && n.layers.lowerPath() == path {
		return
	}
	n.layers.merges.Store(merges)
	n.layers.setLowerPath(path)
	n.layers.lowerSeen.Store(neverValidated)
	t.copied.noteMoved(n, parent, name)
}
