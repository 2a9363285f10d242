package fusefs

import (
	"slices"
	"strings"
)

// hostChanged follows a change by the host of the entry called name in the lower half of dir, and
// reports whether the kernel need not know of it. The mask is that of fanotify(7).
func (t *tree) hostChanged(dir *node, name string, mask uint64) bool {
	child := t.table.child(dir, name)
	if mask&nameMask != 0 {
		t.table.mu.RLock()
		path := lowerPathOf(dir, name)
		t.table.mu.RUnlock()
		t.lowerMoved(path, child)
	}
	return child != nil && child.inUpper() // it hides what the host has
}

// lowerMoved is called when the host has made, moved or removed what it has at path: the lower halves of
// the directories there and below are looked for again. child is the node that shows the path unless
// it, or a directory above, was renamed; it may be nil.
func (t *tree) lowerMoved(path string, child *node) {
	var dirs []*node
	t.table.mu.RLock()
	if child != nil && child.isDir() && child.inUpper() && child.merges() && child.layers.lowerPath == path {
		dirs = append(dirs, child)
	}
	for n := range t.copied.moved {
		if below(n.layers.lowerPath, path) && !slices.Contains(dirs, n) {
			dirs = append(dirs, n)
		}
	}
	t.table.mu.RUnlock()
	for _, n := range dirs {
		t.lowerChanged(n, path)
	}
}

// below reports whether path is top, or below it.
func below(path, top string) bool {
	return path == top || strings.HasPrefix(path, top) && path[len(top)] == '/'
}

// lowerChanged has the lower half of n, and of the directories below n whose lower half is at path or
// below, looked for again, and the kernel forget what it showed.
func (t *tree) lowerChanged(n *node, path string) {
	var all []*node
	var stale []invalidation
	t.table.mu.RLock()
	var walk func(n *node)
	walk = func(n *node) {
		all = append(all, n)
		for name, c := range n.children {
			switch {
			case !c.inUpper():
				c.validatedAt.Store(neverValidated)
				t.table.unprove(c)
				stale = append(stale, invalidation{what: invalEntry, id: n.id, name: name})
			case c.isDir() && c.merges() && below(c.layers.lowerPath, path):
				walk(c)
			}
		}
	}
	walk(n)
	t.table.mu.RUnlock()
	for _, n := range all {
		n.layers.lowerSeen.Store(neverValidated)
		t.dropLower(n)
		t.inval.add(invalidation{what: invalContent, id: n.id})
		if parent, name := t.table.place(n); parent != nil { // with all names that it was asked for in vain
			t.inval.add(invalidation{what: invalDelete, id: parent.id, name: name})
		}
	}
	for _, x := range stale {
		t.inval.add(x)
	}
}
