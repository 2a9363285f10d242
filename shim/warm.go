package shim

import (
	"io/fs"
	"os"
	"time"
)

// warmLimit is the number of entries of a codebase that are loaded into the kernel's
// dentry cache in advance. Each takes 1 to 2 kB of memory in the tree server.
const warmLimit = 25_000

// warmAfter is when warm begins, so that it takes no processor from the command that most callers start at once.
const warmAfter = 20 * time.Millisecond

// warm lists the tree that is mounted at dir, so that the kernel caches names and
// attributes: the first git status takes no longer than the second. It ends at warmLimit,
// or with the mount. It follows no symbolic links, also none that the sandbox makes
// meanwhile.
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
			return fs.SkipDir // a cache may be incomplete
		}
		return nil
	})
}
