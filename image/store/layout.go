// Package store keeps unpacked images below the state directory, each once, by
// the digest of its configuration.
//
//	STATE/images/      0700, also root's: sandboxes see a tree only through their mounts
//	  lock             ranges of it are locked, see lock.go
//	  names.json       which image a name means
//	  HEX/             an image, with the id sha256:HEX
//	    image.json     the Image; never changes
//	    rootfs/        its tree, all layers in one
//	  HEX.new/         an image that is being unpacked
//	  HEX.old/         an image that is being deleted
//
// An image appears by rename, when all of it is on the disk. HEX.new and HEX.old of a
// process that was killed are deleted by the next pull of that image, or by Prune.
//
// All files of the tree belong to the user, whatever a layer says: a sandbox has one
// user. No file is a device or set-id, no extended attribute is kept, and every directory
// can be emptied by its owner.
//
// Everything that comes from an image (a Source and its layers) is hostile: bounded by
// Limits, and checked against the digests in the configuration, which is checked against
// the id.
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/statefile"
	"wolffia/runtime"
)

// The names below STATE/images.
const (
	lockFile  = "lock"
	namesFile = "names.json"
	imageFile = "image.json"
	rootfsDir = "rootfs"
	coming    = statefile.Coming
	going     = ".old"
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

// prepare makes and checks the store's directory.
func (s *Store) prepare() error {
	err := os.Mkdir(s.path, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return runtime.Errorf(runtime.ErrUnavailable, "image store: %w", err)
	}
	var st unix.Stat_t
	err = unix.Lstat(s.path, &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = errors.New("not a directory")
	case int(st.Uid) != os.Geteuid():
		err = fmt.Errorf("its owner is uid %d, not you", st.Uid)
	case st.Mode&0o077 != 0:
		err = fmt.Errorf("others may use it: chmod go= %s", s.path)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "image store %s: %w", s.path, err)
	}
	return nil
}
