// Package echo repeats the host's changes in a mounted tree, for programs that watch it. The kernel
// reports to them (inotify(7)) what is done through the mount only.
// The tree server answers the operations of Repeat with success, and does none of them.
package echo

// A Kind is what has happened to a name.
type Kind uint8

const (
	Made    Kind = iota + 1 // it was made, moved there, or is another object than before
	Removed                 // it was removed or moved away
	Written                 // a file's content
	Touched                 // attributes
	Listed                  // names of the directory Dir have changed, too many to list
)

// A Change is one of the host's changes.
type Change struct {
	Dir      []byte `json:"dir"`              // the directory's path in the tree, "." for the root
	Name     []byte `json:"name,omitempty"`   // in Dir; empty for Listed
	Kind     Kind   `json:"kind"`             //
	Type     uint32 `json:"type,omitempty"`   // the S_IFMT bits, for Made and Removed
	Closed   bool   `json:"closed,omitempty"` // a regular file that no program executes was written and closed
	DirInode uint64 `json:"dirInode"`         // of Dir, as the tree presents it
	Inode    uint64 `json:"inode,omitempty"`  // of Name, before the change; 0: the kernel has not known it
}

// A Batch are some of the host's changes, in order.
type Batch struct {
	Changes []Change `json:"changes,omitempty"`
	More    bool     `json:"more,omitempty"` // others follow
	// Probe is a name in the root that only a thread finds whose operations change nothing.
	Probe string `json:"probe,omitempty"`
}
