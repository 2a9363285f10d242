package statedir

import (
	"errors"
	"io/fs"
	"path/filepath"

	"wolffia/internal/statefile"
	"wolffia/runtime"
)

const pointersFile = "pointers.json"

// maxPointerBytes bounds the paths that SetPointers writes: Pointers must be able to read them.
const maxPointerBytes = 4 << 20

// Pointers returns the files that SetPointers has recorded in the directory run, which is [Box.Run]; none if it has not.
func Pointers(run string) (files []string, err error) {
	var all [][]byte // paths are bytes
	err = statefile.Read(filepath.Join(run, pointersFile), &all)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "which files of the codebase lead git elsewhere: %w", err)
	}
	for _, file := range all {
		files = append(files, string(file))
	}
	return files, nil
}

// SetPointers records the files in the codebase by which a sandbox has git on the host find directories, relative to the
// codebase: see fusefs.Options. What was recorded in the last seconds before a crash of the machine may be lost.
func SetPointers(run string, files []string) error {
	all, size := make([][]byte, 0, len(files)), 0
	for _, file := range files {
		all = append(all, []byte(file))
		size += len(file)
	}
	if size > maxPointerBytes {
		return runtime.Errorf(runtime.ErrUnavailable, "the paths of the files of the codebase that lead git elsewhere have more than %d bytes", maxPointerBytes)
	}
	return statefile.Write(filepath.Join(run, pointersFile), all)
}
