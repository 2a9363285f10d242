package fusefs

import (
	"maps"
	"slices"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
	"wolffia/fusefs/gate"
)

// changing are the operations that can change the upper layer.
var changing = [gate.Ops]bool{
	gate.OpSetattr: true, gate.OpWrite: true, gate.OpFallocate: true, gate.OpCopyFrom: true,
	gate.OpCreate: true, gate.OpMknod: true, gate.OpMkdir: true, gate.OpSymlink: true, gate.OpLink: true,
	gate.OpUnlink: true, gate.OpRmdir: true, gate.OpRename: true,
}

// Quiesce calls f while nothing changes the tree, and returns f's error. Reading continues. It is
// for functions of package cow that need the upper layer unchanged, or change it in Alone. f must
// not touch the mount. If f has called Discarded, the kernel looks each name up again before
// Quiesce returns.
func (s *Server) Quiesce(f func() error) error {
	t := s.tree
	t.changeMu.Lock()
	t.discarded, t.revoked = false, nil
	err := f()
	changed, revoked := t.discarded && t.copied != nil, t.revoked
	if changed {
		t.Quota.Begin(t.copied.used())
	}
	t.changeMu.Unlock()
	if changed {
		t.kernel.forgetRules(revoked)
	}
	return err
}

// Alone calls f while no request is answered, so that f can change the entries that the tree
// shows. Only a function that Quiesce calls may call it. If f has called Discarded, the server
// revalidates its nodes.
func (s *Server) Alone(f func()) {
	t := s.tree
	t.levels.rulesMu.Lock()
	defer t.levels.rulesMu.Unlock()
	f()
	if t.discarded && t.copied != nil {
		t.renameMu.Lock()
		t.copied.revalidate()
		t.renameMu.Unlock()
		t.revoked = append(t.revoked, t.applyRulesToAll()...)
	}
}

// Discarded announces that the upper layer's entries at paths, and below, are about to be removed,
// or have another lower half by now. Only a function that Alone calls may call it. A program
// inside that has a file open there keeps the file without a name. For that Discarded must be
// called before the upper layer is changed.
func (s *Server) Discarded(paths []string) {
	t := s.tree
	t.discarded = true
	for _, p := range paths {
		if n := t.nodeAt(p); n != nil {
			t.holdBelow(n)
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

// revalidate makes the nodes agree with an upper layer that package cow has changed. A node whose
// object was removed there is dropped, so that the next lookup finds the host's object. Only
// directories that were merged in their place keep their nodes. The caller holds u.levels.rulesMu
// and u.renameMu for writing.
func (u *upperLayer) revalidate() {
	for _, n := range u.table.below(u.root.node)[1:] {
		parent, name := u.table.place(n)
		if parent == nil {
			continue // it went with a directory above
		}
		if !u.stillAt(n, parent, name) {
			for _, m := range slices.Backward(u.table.below(n)) {
				if up, name := u.table.place(m); up != nil && u.table.vanish(up, name, m) {
					u.pinOrphan(m)
					u.inval.add(invalidation{what: invalDelete, id: up.id, name: name}) // or it is kept until memory is short
				}
			}
		}
	}
}

// stillAt brings the layers of n, at the entry called name of parent, up to date, and reports
// whether n is still there.
func (u *upperLayer) stillAt(n, parent *node, name string) bool {
	d, errno := u.dirOf(parent, name)
	if errno != 0 {
		return false
	}
	defer d.release()
	o, a, errno := u.statEntry(d, name)
	own := d.upper && a.FD == d.fd
	switch {
	case errno != 0 || o.Type() != n.typ:
		return false
	case !n.isDir() && o.ID == n.ident() && n.borrows():
		path, errno := u.readBorrow(a, o)
		if errno == 0 {
			u.lower.set(n, parent, name, path != "", path)
		}
		return errno == 0
	case !n.isDir():
		return o.ID == n.ident()
	case own && o.ID == n.ident():
		return u.readHalf(n, parent, name, a)
	case !own && n.inUpper():
		return u.dropHalf(n, parent, name, o)
	}
	return o.ID == n.ident()
}

// readHalf reads where the lower half of n is, whose upper half is at a.
func (u *upperLayer) readHalf(n, parent *node, name string, a backing.At) bool {
	if !n.inUpper() {
		return false
	}
	fd, half, path, errno := u.OpenUpper(a)
	if errno != 0 {
		return false
	}
	lookupResult{fd: fd}.close()
	if half == cow.Merged && parent.merges() {
		half, path = cow.Moved, lowerPathOf(parent, name)
	}
	u.lower.set(n, parent, name, half == cow.Moved, path)
	return true
}

// dropHalf makes n, whose upper half was removed, the host's o, if o was merged with the upper
// half.
func (u *upperLayer) dropHalf(n, parent *node, name string, o *backing.Object) bool {
	if half, _ := n.half(parent, name); half != cow.Merged {
		return false
	}
	u.fds.close(n, usePath)
	u.fds.move(n, useLower, usePath)
	if h := u.fds.cached(n, usePath); h != nil {
		now, errno := u.Stat(backing.At{FD: h.fd})
		h.release()
		if errno != 0 || now.ID != o.ID {
			u.watch.remove(n, -1)
			u.fds.close(n, usePath)
		}
	}
	if !u.adopt(n, o.ID) {
		return false
	}
	n.layers.upper.Store(false)
	n.validatedAt.Store(neverValidated)
	return true
}
