// Package store keeps unpacked images below the state directory, each once, by
// the digest of its configuration.
//
// docs/state.md has the files. An image appears by rename, when all of it is on the disk. What
// killed processes have left is deleted by the next pull of that image by the same name, or by
// Prune.
//
// All files of an unpacked tree belong to the user, whatever a layer says. No file is a device
// or set-id, no extended attribute is kept, and every directory can be emptied by its owner.
// What the tree lacks of owners, modes and file capabilities is recorded beside it: Owned.
//
// An image may also be a layer over another image of the store, its parent, as overlayfs has
// it: Stage. Such a layer may have files of the user's subordinate ids, and set-id files.
//
// Everything that comes from an image (a Source and its layers) is hostile: bounded by
// Limits, and checked against the digests in the configuration, which is checked against
// the id.
package store

import (
	"path/filepath"

	"wolffia/internal/sys/statefile"
)

// The names below STATE/images.
const (
	lockFile  = "lock"
	namesFile = "names.json"
	imageFile = "image.json"
	// configFile is the image's configuration file; earlier versions have not kept it.
	configFile = "config.json"
	ownersFile = "owners"
	flatFile   = "flat.json"
	rootfsDir  = "rootfs"
	coming     = statefile.Coming
	going      = ".old"
)

// A Store is the images of a state directory. It is safe for concurrent use, also by
// several processes. It holds no resources, and needs no closing.
type Store struct {
	state string // the state directory
	path  string // STATE/images
}

// Open returns the store of an existing state directory. It does no I/O: the first Add
// makes the store's directory.
func Open(stateDir string) *Store {
	return &Store{state: stateDir, path: filepath.Join(stateDir, "images")}
}

// Rootfs returns the directory with the tree of an image that Get or Pin has found.
func (s *Store) Rootfs(id string) string {
	return filepath.Join(s.path, hexOf(id), rootfsDir)
}
