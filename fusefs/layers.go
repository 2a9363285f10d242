package fusefs

import (
	"sync"
	"sync/atomic"

	"wolffia/fusefs/cow"
)

// A Copy makes a tree copied: changes through the tree go to an upper layer, and Root stays as it
// is. Package cow has the format.
type Copy struct {
	// Upper and Work are descriptors of two directories of one file system, which nothing else
	// writes to while the tree is served; O_PATH is enough. Work is for temporary names, and is
	// empty. Serve duplicates both.
	Upper, Work int

	// Log has what the host had where the upper layer hides it. The caller closes it.
	Log *cow.Log
}

// layers are where the object of a node is, in a copied tree; nil in a direct one.
type layers struct {
	upper atomic.Bool // in the upper layer

	// merges: the node shows the host's object, now or later, at lowerPath: a directory, or a file
	// that borrows its content. It is beside upper since each file has all this: 64 bytes.
	merges atomic.Bool

	ino atomic.Uint64 // the number that is presented, for as long as the node is known

	content sync.RWMutex // instead of contents.mu: copying to the upper layer takes long

	// lower is lowerPath: where a directory's lower half is, where a file's content is that it
	// borrows, and where the host's file without a name was, from the root of the codebase; nil if
	// that is empty. It changes with names.renameMu held for writing, a directory's also with
	// table.mu.
	lower *string

	lowerSeen atomic.Int64 // when that was last found at lowerPath, by names.clock

	*dirLayers // nil unless it is a directory
}

// lowerPath returns the path that lower has; empty: none.
func (l *layers) lowerPath() string {
	if l.lower == nil {
		return ""
	}
	return *l.lower
}

func (l *layers) setLowerPath(path string) {
	if path == "" {
		l.lower = nil
		return
	}
	l.lower = &path
}

// dirLayers are the part of layers that only directories have.
type dirLayers struct {
	mu        sync.Mutex   // held while an entry is looked for and made
	listing   *mergedList  // guarded by mu; nil: not listed yet
	lowerTime atomic.Int64 // when its lower half had changed last, as of the last listing
}

// apartBit is upperLayer.apart of two file systems.
const apartBit = 1 << 62

// inUpper reports whether n is in the upper layer of a copied tree.
func (n *node) inUpper() bool { return n.layers != nil && n.layers.upper.Load() }

// merges reports whether the directory n shows what the host has, so that the host changes it.
func (n *node) merges() bool {
	if n.layers == nil {
		return !n.private()
	}
	return n.layers.merges.Load()
}

// hostChanges reports whether the host changes the entries of the directory n: merges, or n is in
// a git directory of the host's.
func (n *node) hostChanges() bool { return n.merges() || n.getState().path == inHosts }

// half returns where the lower half of the directory n is, or the content that the file n borrows,
// at the entry called name of dir, and for cow.Moved its path.
func (n *node) half(dir *node, name string) (cow.Half, string) {
	switch {
	case !n.merges():
		return cow.Own, ""
	case !dir.merges() || n.layers.lowerPath() != lowerPathOf(dir, name):
		return cow.Moved, n.layers.lowerPath()
	}
	return cow.Merged, ""
}
