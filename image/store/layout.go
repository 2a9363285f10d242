// Package store keeps unpacked images below the state directory, each once, by
// the digest of its configuration.
//
//	STATE/images/      0700, root's too: sandboxes see a tree through their mounts only
//	  lock             parts of it are locked, see lock.go
//	  names.json       which image a name means
//	  HEX/             an image: its id is sha256:HEX
//	    image.json     what is known of it; never changes
//	    rootfs/        its tree, all layers in one
//	  HEX.new/         one that is being unpacked
//	  HEX.old/         one that is being deleted
//
// An image appears by rename, when all of it is on the disk. What a process that
// was killed has left is in HEX.new and HEX.old, and goes with the next pull of
// that image, or with Prune.
//
// The tree belongs to the user as a whole, whatever a layer says: a sandbox has
// one user. No file is a device, none is set-id, no extended attribute is kept,
// and every directory can be emptied by its owner.
//
// Everything that comes from an image (Source, and what Layer.Open reads) is
// hostile: bounded by Limits, and checked against the digests in the
// configuration, which is checked against the id.
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

// A Store is the images of a state directory. It is safe for concurrent use,
// also by several processes. It holds nothing open.
type Store struct {
	state string // the state directory
	path  string // STATE/images
}

// Open returns the store in a state directory that is there. Nothing is made
// before the first image is.
func Open(stateDir string) *Store {
	return &Store{state: stateDir, path: filepath.Join(stateDir, "images")}
}

// Rootfs is the directory with the tree of an image, which Get or Pin has found.
func (s *Store) Rootfs(id string) string {
	return filepath.Join(s.path, hexOf(id), rootfsDir)
}

// prepare makes what all images share.
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
		err = errors.New("it is not a directory")
	case int(st.Uid) != os.Geteuid():
		err = fmt.Errorf("it belongs to uid %d, not to you", st.Uid)
	case st.Mode&0o077 != 0:
		err = fmt.Errorf("others may use it: chmod go= %s", s.path)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "image store %s: %w", s.path, err)
	}
	return nil
}
