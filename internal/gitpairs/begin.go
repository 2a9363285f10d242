package gitpairs

import (
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/gitsync"
)

// Begin records, in the directory base, what a copy of a git directory has when it is made, and the submodules and linked working
// trees in it: see [gitsync.Begin]. name returns the name of the record of the one at a path in the store; at is that of the copy. What cannot be
// synchronised has no record: it stays apart.
func Begin(copy, at, base string, name func(at string) string) error {
	fd, err := unix.Open(copy, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: copy, Err: err}
	}
	defer unix.Close(fd)
	f := &finder{store: fd, known: func(string) (string, bool) { return ".", true }, host: -1}
	f.pairs = []Pair{{Private: "."}}
	if err := f.addBelow(".", "", 0); err != nil {
		return err
	}
	for _, p := range f.pairs {
		if err := gitsync.Begin(filepath.Join(copy, p.Private), filepath.Join(base, name(path.Join(at, p.Private)))); err != nil && p.Private == "." {
			return err
		}
	}
	return nil
}
