package rootfs

import (
	"path/filepath"

	"wolffia/internal/boot"
)

// TreeDir is where the filtered codebase is mounted.
func TreeDir(b *boot.Params) string {
	if b.Engine != "" {
		return EngineTree(b.Engine)
	}
	return filepath.Join(b.Mnt, "tree")
}

// EmptyDir is the empty directory of coverProc.
func EmptyDir(dir string) string { return filepath.Join(dir, "no-directory") }

// EngineTree is where the tree is mounted in the host's namespace.
func EngineTree(dir string) string { return filepath.Join(dir, "tree") }
