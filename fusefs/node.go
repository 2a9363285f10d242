package fusefs

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/perm"
)

// neverValidated is a node.validatedAt that is always too old.
const neverValidated = -1 << 62

// rootID is the node id that the kernel gives to the root.
const rootID = 1

// A node is a (directory, name) pair that the kernel looked up. Two names of one inode are
// two nodes, because rules are about names.
type node struct {
	id    uint64
	inode atomic.Pointer[backing.Identity] // see ident
	typ   uint32                           // the S_IFMT bits, which never change

	level atomic.Uint32 // a perm.Level
	state atomic.Uint64 // states, packed: what holds inside, if it is a directory

	validatedAt atomic.Int64 // when it was last found at its name, by names.clock

	asked   atomic.Bool // the kernel has asked for the attributes of a file that has names elsewhere
	watched atomic.Bool // the host's changes of the directory's entries, or of the file by any name, are noticed

	proof atomic.Pointer[proof] // of a directory; nil: none yet

	layers *layers     // nil: the tree is not copied
	apart  atomic.Bool // the inode is in private git directories, or in the host's that they show: see levels.apart

	// Guarded by table.mu.
	parent   *node // nil for the root and for an orphan
	trail    *trail
	children map[string]*node
	lookups  uint64
	listings uint32 // number of listings begun
	end      uint64 // offset where the listing begun last ended; 0 if it has not

	// Guarded by fdCache.mu.
	handles [uses]*handle
	dropped bool // no longer in the table: nothing more is cached for it

	// The first of each, in the node itself: a tree has many nodes, and each allocation costs.
	first struct {
		inode  backing.Identity
		trail  trail  // of a node that is not a directory
		handle handle // guarded by fdCache.mu; unused while its node is nil
	}
}

// newNode returns a node of o without a name.
func newNode(o *backing.Object) *node {
	n := &node{typ: o.Type()}
	n.first.inode = o.ID
	n.inode.Store(&n.first.inode)
	return n
}

// ident returns the backing.Identity of n's inode. It changes when the server puts a file of its
// own in the place of the sandbox's, with names.renameMu held for writing.
func (n *node) ident() backing.Identity { return *n.inode.Load() }

// A trail is the path where a node was last seen. It outlives the nodes above: the trails
// of orphans lead through directories that the kernel has backing.Forgotten, and share common
// parts. The root's has no up and no name. Guarded by table.mu.
type trail struct {
	up   *trail
	name string
}

// A proof records that a directory and all above it were found at their names.
type proof struct {
	generation uint64 // table.generation before the first of them was looked at
	oldest     int64  // the earliest validatedAt among them
	depth      int    // number of directories, without the root
}

// file returns the backing.Identity of n if that is a regular file, else nil; n may be nil.
func (n *node) file() *backing.Identity {
	if n == nil || !n.isRegular() {
		return nil
	}
	return n.inode.Load()
}

func (n *node) isDir() bool     { return n.typ == unix.S_IFDIR }
func (n *node) isRegular() bool { return n.typ == unix.S_IFREG }

func (n *node) getLevel() perm.Level { return perm.Level(n.level.Load()) }
func (n *node) getState() states     { return unpack(n.state.Load()) }

func (n *node) setLevel(l perm.Level, s states) {
	n.level.Store(uint32(l))
	n.state.Store(s.pack())
}
