package fusefs

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
	"wolffia/fusefs/fanotify"
)

// hostChanged follows a change by the host of the entry called name in the lower half of dir, and
// reports whether the kernel need not know of it. The mask is that of fanotify(7).
func (lo *lowerLayer) hostChanged(dir *node, name string, mask uint64) bool {
	child := lo.table.child(dir, name)
	lo.table.mu.RLock()
	path, moved := lowerPathOf(dir, name), len(lo.moved) > 0
	lo.table.mu.RUnlock()
	switch {
	case mask&fanotify.NameMask != 0:
		lo.follow(path, child)
	case moved:
		lo.lentChanged(path)
	}
	if child == nil || !child.inUpper() {
		return false
	}
	lo.table.mu.RLock()
	defer lo.table.mu.RUnlock()
	half, _ := child.half(dir, name)
	return !child.borrows() || half != cow.Merged // it hides what the host has
}

// lowerMoved is called when the host has made, moved or removed the object at path: the lower
// halves of the directories there and below are looked up again. child is the node that shows the
// path unless it, or a directory above, was renamed; it may be nil.
func (lo *lowerLayer) follow(path string, child *node) {
	var dirs []*node
	lo.table.mu.RLock()
	if child != nil && child.isDir() && child.inUpper() && child.merges() && child.layers.lowerPath() == path {
		dirs = append(dirs, child)
	}
	if child != nil && child.borrows() && child.layers.lowerPath() == path {
		dirs = append(dirs, child)
	}
	for n := range lo.moved {
		if below(n.layers.lowerPath(), path) && !slices.Contains(dirs, n) {
			dirs = append(dirs, n)
		}
	}
	lo.table.mu.RUnlock()
	for _, n := range dirs {
		if !lo.stays(n) {
			lo.changed(n, path)
		}
	}
}

// lowerStays reports whether the lower half of n is the one that is open: an event may come late.
func (lo *lowerLayer) stays(n *node) bool {
	h := lo.fds.cached(n, useLower)
	if h == nil {
		return false
	}
	defer h.release()
	lo.table.mu.RLock()
	path := n.layers.lowerPath()
	lo.table.mu.RUnlock()
	fd, errno := backing.OpenBeneath(lo.top.fd, path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return false
	}
	defer unix.Close(fd)
	return backing.SameInode(h.fd, fd)
}

// lentChanged makes the kernel read files again that borrow the content at path.
func (lo *lowerLayer) lentChanged(path string) {
	lo.table.mu.RLock()
	defer lo.table.mu.RUnlock()
	for n := range lo.moved {
		if n.borrows() && n.layers.lowerPath() == path {
			lo.inval.add(invalidation{what: invalContent, id: n.id})
		}
	}
}

// below reports whether path is top, or below it.
func below(path, top string) bool {
	return path == top || strings.HasPrefix(path, top) && path[len(top)] == '/'
}

// lowerChanged makes the tree look up again the lower half of n, and of the directories below n
// whose lower half is at path or below. It also makes the kernel forget the names that it showed.
func (lo *lowerLayer) changed(n *node, path string) {
	var all []*node
	var stale []invalidation
	lo.table.mu.RLock()
	var walk func(n *node)
	walk = func(n *node) {
		all = append(all, n)
		for name, c := range n.children {
			switch {
			case !c.inUpper():
				c.validatedAt.Store(neverValidated)
				lo.table.unprove(c)
				stale = append(stale, invalidation{what: invalEntry, id: n.id, name: name})
			case (c.isDir() || c.borrows()) && c.merges() && below(c.layers.lowerPath(), path):
				walk(c)
			}
		}
	}
	walk(n)
	lo.table.mu.RUnlock()
	for _, n := range all {
		n.layers.lowerSeen.Store(neverValidated)
		lo.drop(n)
		lo.inval.add(invalidation{what: invalContent, id: n.id})
		if parent, name := lo.table.place(n); parent != nil && n.isDir() { // with all names that it was asked for in vain
			lo.inval.add(invalidation{what: invalDelete, id: parent.id, name: name})
		}
	}
	for _, x := range stale {
		lo.inval.add(x)
	}
}
