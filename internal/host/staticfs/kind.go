// Package staticfs mounts a codebase natively, with masks over entries that rules hide or protect.
//
// A plan is made from rules and one listing of the codebase; making it is pure but for listing
// directories. Mounting it goes by descriptors, in a mount namespace that the sandbox does not
// have, before the sandbox starts. A backend then binds the whole, with the masks: they are locked
// in its namespace, and a masked entry cannot be renamed or removed from there. See docs/static.md
// for the guarantees.
package staticfs

import "wolffia/perm"

// An object is the type of a file.
type object uint8

const (
	file   object = iota
	folder        // a directory
	link          // a symbolic link
	fifo          // a named pipe, which a read-only mount does not protect
	socket
)

// A kind is how an entry of the codebase is shown.
type kind uint8

const (
	keep   kind = iota // as its directory is
	open               // itself, writable
	shut               // itself, read-only
	only               // an empty read-only directory with what the plan names of it, and no later name
	hidden             // an empty file or directory without permissions
	own                // the sandbox's own git directory, writable
)

// levelOf returns the level that everything in a directory shown as k has without further rules.
func levelOf(k kind) perm.Level {
	switch k {
	case open:
		return perm.Write
	case shut:
		return perm.Read
	}
	return perm.None
}

// dirKind returns how to show a directory that is not hidden, in which a new name has the
// level fresh.
func dirKind(fresh perm.Level) kind {
	switch fresh {
	case perm.Write:
		return open
	case perm.Read:
		return shut
	}
	return only
}

// fileKind returns how to show a file of that level.
func fileKind(level perm.Level, is object) kind {
	switch {
	case is == socket: // a program on the host may listen
		return hidden
	case level == perm.Write:
		return open
	case level < perm.Read || is == fifo:
		return hidden
	}
	return shut
}

// mounts reports whether an entry that is shown as k needs a mount, or a name, of its own
// in a directory that is shown as parent.
func mounts(parent, k kind) bool { return parent == only || parent != k }
