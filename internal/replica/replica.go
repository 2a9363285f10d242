// Package replica keeps a copy of a tree of files where none can be mounted. It has both ends of a
// connection, one of them beside the copy: [Serve] makes, lists, sends and removes files of the copy,
// and [Peer] asks it to.
//
// The end with the copy is a program in a sandbox, and what it sends is hostile: [Peer] bounds it,
// and accepts only paths of names below the copy, each once, after the directory that it is in.
package replica

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// Arg is the first argument with which the guest's program serves a copy; the second is its
// directory. It is launch.ReplicaArg, whose package would make that program slow to start.
const Arg = "replica"

// Bounds of a copy.
const (
	// MaxNames is how many files, directories and links a copy has.
	MaxNames = 1 << 20
	// MaxDepth is the number of directories above a file.
	MaxDepth = 500
	// maxText bounds the paths of a copy together, in bytes.
	maxText = 256 << 20
	// maxMessage bounds a message, in bytes: a path and a target in JSON.
	maxMessage = 32 << 10
)

// A Stat is what is known of one object of the copy. Two that are equal are of the same object, which
// was not changed in between. The zero Stat is of nothing.
type Stat struct {
	Type  uint32 `json:"t,omitempty"` // S_IFREG, S_IFDIR or S_IFLNK (stat(2)); another one is not copied
	Mode  uint32 `json:"m,omitempty"` // permissions, 0777
	Ino   uint64 `json:"i,omitempty"`
	Size  int64  `json:"s,omitempty"` // of a regular file
	Mtime int64  `json:"w,omitempty"` // nanoseconds since 1970, as Ctime
	Ctime int64  `json:"c,omitempty"`
}

// Same reports whether s and o are of the same object without a change. Of a directory only the mode
// counts: what is in it has Stats of its own.
func (s Stat) Same(o Stat) bool {
	if s.Type == unix.S_IFDIR && o.Type == unix.S_IFDIR {
		return s.Mode == o.Mode
	}
	return s == o
}

// The operations of a request.
const (
	opPut    = "put"    // make or replace an object; a content follows for a regular file, unless Blank
	opRemove = "remove" // remove it, but not a directory with names
	opList   = "list"   // answer with all of the copy, then an End
	opGet    = "get"    // answer with a content, of a regular file
)

// A request is a message to the end with the copy. Each has one reply, but that of opList has many.
type request struct {
	Op     string `json:"op"`
	Path   []byte `json:"path,omitempty"`
	Target []byte `json:"target,omitempty"` // of a symbolic link
	Stat   Stat   `json:"stat,omitzero"`    // what opPut makes
	// Old is what opPut and opRemove may replace; if another one is there, they do nothing.
	Old Stat `json:"old,omitzero"`
	// Blank says that no content follows: the file has Stat.Size bytes, and nobody reads them.
	Blank bool `json:"blank,omitempty"`
}

// A reply is a message from the end with the copy.
type reply struct {
	Path   []byte `json:"path,omitempty"` // of opList
	Target []byte `json:"target,omitempty"`
	// Stat is of the object now: with opGet before its content was read.
	Stat Stat `json:"stat,omitzero"`
	// Errno is why it was not done. ESTALE: another object than request.Old is there.
	Errno unix.Errno `json:"errno,omitempty"`
	End   bool       `json:"end,omitempty"`
}

// errPath is the error for a path that does not name an object of a copy.
var errPath = errors.New("it is not the path of an object in the copy")

// checkPath returns errPath for a path that is not one of names below a directory.
func checkPath(path string) error {
	if path == "" || len(path) >= unix.PathMax || strings.Count(path, "/") >= MaxDepth {
		return errPath
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || len(name) > unix.NAME_MAX || strings.IndexByte(name, 0) >= 0 {
			return errPath
		}
	}
	return nil
}

// parentOf returns the directory of a path, "" for the copy's own, and the name in it.
func parentOf(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}
