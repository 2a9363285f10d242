package gvisor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// rootDir returns the host directory that becomes the root directory: an image's, or
// the one that makeRoot makes.
func rootDir(spec *launch.Spec) string {
	return cmp.Or(spec.RootDir, filepath.Join(spec.Dir, "root"))
}

// makeRoot makes the root directory dir with the symbolic links among mounts. Runsc
// makes the places to mount on.
func makeRoot(dir string, mounts []launch.Mount) error {
	err := os.Mkdir(dir, 0o755)
	for _, m := range mounts {
		if m.Kind == launch.Symlink && err == nil {
			place := filepath.Join(dir, m.Target)
			err = errors.Join(os.MkdirAll(filepath.Dir(place), 0o755), os.Symlink(m.Source, place))
		}
	}
	if err != nil {
		return fmt.Errorf("make the root directory: %w", err)
	}
	return nil
}

// checkPlaces returns an error for a mount below a directory that is mounted read-only
// and lacks the place for it. Runsc would try to make the place, and fail with a less
// clear error. Symbolic links are left to shield.
func checkPlaces(mounts []launch.Mount) error {
	for i, m := range mounts {
		for _, in := range mounts[:i] {
			rest, below := strings.CutPrefix(m.Target, in.Target+"/")
			if !below || in.Writable || m.Kind != launch.Bind || in.Kind != launch.Bind {
				continue
			}
			if _, err := os.Lstat(filepath.Join(in.Source, rest)); errors.Is(err, fs.ErrNotExist) {
				return runtime.Errorf(runtime.ErrInvalid, "there is no %s to mount on: %s is read-only, and has no %s", m.Target, in.Target, rest)
			} else if err != nil {
				return runtime.Errorf(runtime.ErrInvalid, "mount on %s: %w", m.Target, err)
			}
		}
	}
	return nil
}
