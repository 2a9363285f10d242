package fusefs

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"wolffia/fusefs/backing"

	"golang.org/x/sys/unix"
)

// A table holds the nodes that the kernel knows. A node stays while the kernel's lookups
// exceed its forgets, or while a node below it stays. Its methods are safe for concurrent
// use.
type table struct {
	mu    sync.RWMutex
	nodes map[uint64]*node // guarded by mu
	last  uint64           // guarded by mu; ids are never used twice

	// generation counts the events that may have moved a directory with known entries. A
	// proof of an earlier generation does not hold.
	generation atomic.Uint64

	// aliases are the nodes whose inode has several links, by inode. Guarded by mu.
	aliases map[backing.Identity]map[*node]struct{}

	count atomic.Int64
}

func newTable(root *node) *table {
	root.id, root.lookups, root.trail = rootID, 1, new(trail)
	t := &table{
		nodes:   map[uint64]*node{rootID: root},
		last:    rootID,
		aliases: map[backing.Identity]map[*node]struct{}{},
	}
	t.count.Store(1)
	return t
}

// get returns the node called id, or nil.
func (t *table) get(id uint64) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.nodes[id]
}

// child returns the node at (dir, name), nil if the kernel knows none.
func (t *table) child(dir *node, name string) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return dir.children[name]
}

func (t *table) all() []*node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.nodes))
}

// leaves returns the ids of up to n nodes without children.
func (t *table) leaves(n int) (ids []uint64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for id, x := range t.nodes {
		if len(ids) >= n {
			break
		}
		if id != rootID && len(x.children) == 0 && x.parent != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// place returns the directory and name of n; parent is nil for the root and an orphan.
func (t *table) place(n *node) (parent *node, name string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n.parent == nil {
		return nil, ""
	}
	return n.parent, n.trail.name
}

// enter returns the node for o, found at (dir, name), and counts one lookup. backing.Open sets the
// level of a new node. If the node at (dir, name) was another object's, it becomes an
// orphan and is returned as well.
func (t *table) enter(dir *node, name string, o *backing.Object, init func(*node)) (n, orphan *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = dir.children[name]
	if n != nil && (n.ident() != o.ID || n.typ != o.Type()) {
		t.detach(n)
		n, orphan = nil, n
	}
	if n == nil {
		t.last++
		n = newNode(o)
		n.id = t.last
		init(n)
		t.nodes[n.id] = n
		t.count.Add(1)
		t.attach(n, dir, name)
	}
	n.lookups++
	return n, orphan
}

// again counts one more lookup of the node called id, and returns it; nil: it is not in the table.
func (t *table) again(id uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	if n != nil {
		n.lookups++
	}
	return n
}

// listing records that dir is being listed from offset. It returns the number of the
// listing begun last, and the offset where that ended, 0 if it has not.
func (t *table) listing(dir *node, offset uint64) (number uint32, end uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if offset == 0 {
		dir.listings++
		dir.end = 0
	}
	return dir.listings, dir.end
}

// listed records that the listing number ended at offset, unless another was begun since:
// that one may see entries made meanwhile.
func (t *table) listed(dir *node, number uint32, offset uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir.listings == number {
		dir.end = offset
	}
}

// vanish makes n an orphan if it still is the node at (dir, name), and reports whether it
// was. n may be nil.
func (t *table) vanish(dir *node, name string, n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n == nil || dir.children[name] != n {
		return false
	}
	t.detach(n)
	return true
}

// move follows a rename: it moves the node at (from, a) to (to, b). The node at (to, b)
// takes its place if swap is set, and becomes an orphan otherwise.
func (t *table) move(from *node, a string, to *node, b string, swap bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, m := from.children[a], to.children[b]
	if n == m && n != nil {
		return
	}
	for _, x := range []*node{n, m} {
		if x != nil {
			delete(x.parent.children, x.trail.name)
			t.unprove(x)
		}
	}
	if n != nil {
		t.attach(n, to, b)
	}
	switch {
	case m == nil:
	case swap:
		t.attach(m, from, a)
	default:
		m.parent = nil
	}
}

// forget subtracts nlookup lookups from the node called id, and returns the nodes that it
// removed from the table.
func (t *table) forget(id, nlookup uint64) (removed []*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	if n == nil || id == rootID {
		return nil
	}
	n.lookups -= min(nlookup, n.lookups)
	// Its ancestors may have stayed for its sake only.
	for n != nil && n.id != rootID && n.lookups == 0 && len(n.children) == 0 {
		up := n.parent
		if up != nil {
			delete(up.children, n.trail.name)
		}
		delete(t.nodes, n.id)
		t.unalias(n)
		t.count.Add(-1)
		n.parent = nil
		removed = append(removed, n)
		n = up
	}
	return removed
}

// attach puts n at (dir, name), and with it the trails of all nodes and orphans below n.
// The caller holds t.mu.
func (t *table) attach(n, dir *node, name string) {
	if dir.children == nil {
		dir.children = map[string]*node{}
	}
	dir.children[name] = n
	switch {
	case n.trail != nil:
	case n.isDir():
		n.trail = new(trail) // those of nodes below keep it, but not the node
	default:
		n.trail = &n.first.trail
	}
	n.parent, *n.trail = dir, trail{dir.trail, name}
}

// detach makes n an orphan, which keeps its trail. The caller holds t.mu.
func (t *table) detach(n *node) {
	delete(n.parent.children, n.trail.name)
	t.unprove(n)
	n.parent = nil
}

// invalidate records that the host may have moved n from its name.
func (t *table) invalidate(n *node) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n.validatedAt.Store(neverValidated)
	t.unprove(n)
}

// unprove drops the proofs of n and of all below it. The caller holds t.mu, for reading at
// least.
func (t *table) unprove(n *node) {
	n.proof.Store(nil)
	if n.isDir() && len(n.children) > 0 {
		t.generation.Add(1)
	}
}

// alias records that n's inode has several links. It reports whether n was not recorded
// yet, and returns how many of the links are nodes.
func (t *table) alias(n *node) (added bool, known int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes[n.id] != n {
		return false, 0
	}
	set := t.aliases[n.ident()]
	if set == nil {
		set = map[*node]struct{}{}
		t.aliases[n.ident()] = set
	}
	_, old := set[n]
	set[n] = struct{}{}
	return !old, len(set)
}

// unalias undoes alias. The caller holds t.mu.
func (t *table) unalias(n *node) {
	set := t.aliases[n.ident()]
	delete(set, n)
	if len(set) == 0 {
		delete(t.aliases, n.ident())
	}
}

// aliased reports whether a node of n's inode was recorded with alias.
func (t *table) aliased(n *node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.aliases) > 0 && len(t.aliases[n.ident()]) > 0
}

// links returns the nodes recorded with alias for n's inode, which may include n.
func (t *table) links(n *node) []*node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.aliases[n.ident()]))
}

// adopt gives n another inode, and reports false if n is no longer in the table. The caller
// holds names.renameMu for writing, and n's lock of contents.mu if what is being written
// to n must end up in the new inode.
func (t *table) adopt(n *node, ident backing.Identity) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes[n.id] != n {
		return false
	}
	t.unalias(n)
	n.inode.Store(&ident)
	return true
}

// path returns the path of n, or of the entry called name in n, relative to the root; of a
// path longer than PATH_MAX only the end. It is for reports. No
// object of the tree is ever opened by it.
func (t *table) path(n *node, name string) string {
	at, _ := t.wholePath(n, name)
	return at
}

// wholePath is path, and reports whether the result is the whole path.
func (t *table) wholePath(n *node, name string) (at string, whole bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var parts []string
	whole = true
	if name != "" {
		parts = append(parts, name)
	}
	size := len(name)
	for at := n.trail; at.up != nil; at = at.up {
		if size += 1 + len(at.name); size > unix.PathMax {
			parts, whole = append(parts, "..."), false
			break
		}
		parts = append(parts, at.name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/"), whole
}
