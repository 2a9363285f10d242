package rootfs

import (
	"cmp"
	"path/filepath"

	"wolffia/internal/boot"
)

// TreeDir returns where the filtered codebase is mounted.
func TreeDir(b *boot.Params) string { return at(b, "tree") }

// EmptyDir returns an empty directory, to be mounted over others.
func EmptyDir(b *boot.Params) string { return at(b, "no-directory") }

// at returns the path of a sandbox's own file on the host, which an engine must be able
// to reach.
func at(b *boot.Params, name string) string { return filepath.Join(cmp.Or(b.Engine, b.Mnt), name) }
