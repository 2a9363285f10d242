package store

import (
	"os"
	"path/filepath"

	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
)

// tempLink is a link in a stage to its directory elsewhere.
const tempLink = "temp"

// Temp makes a directory, of mode 0700, that a sandbox can be shown, as nothing in the state
// directory can, and returns its path without links. It goes with the stage. Call it once.
func (st *Stage) Temp() (string, error) {
	parent, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return "", runtime.WithClass(runtime.ErrUnavailable, err)
	}
	dir := filepath.Join(parent, "wolffia-build-"+Short(st.name))
	if err := os.Symlink(dir, filepath.Join(st.Dir(), tempLink)); err != nil {
		return "", storeError(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return dir, nil
}

// remove removes the directory of a stage or of a deleted image, and what the stage has elsewhere.
func (s *Store) remove(name string) error {
	if dir, err := os.Readlink(filepath.Join(s.path, name, tempLink)); err == nil {
		if err := rmtree.RemovePath(filepath.Dir(dir), filepath.Base(dir)); err != nil {
			return storeError(err)
		}
	}
	return storeError(rmtree.RemovePath(s.path, name))
}
