package shim

import (
	"io/fs"
	"os"
)

// warmLimit is how many names of a codebase the kernel is made to know before
// they are asked for. Each costs memory in the tree server, 1 to 2 kB.
const warmLimit = 25_000

// warm lists the tree that is mounted at dir, so that the kernel knows names
// and attributes: the first git status then takes no longer than the second.
// It ends at the limit, or with the tree. Links are not followed, also not
// those that the sandbox puts in the way.
func warm(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	names := 0
	_ = fs.WalkDir(root.FS(), ".", func(_ string, _ fs.DirEntry, err error) error {
		if names++; names > warmLimit {
			return fs.SkipAll
		}
		if err != nil {
			return fs.SkipDir // nothing that is warmed is missed
		}
		return nil
	})
}
