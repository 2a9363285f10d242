package rootfs

import (
	"cmp"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/internal/staticfs"
	"wolffia/perm"
	"wolffia/runtime"
)

// TreeDir returns where the codebase is mounted for the backend.
func TreeDir(b *boot.Params) string { return at(b, "tree") }

// BindTree mounts the codebase natively at TreeDir, for a filter without a tree server, and
// returns what a static one has masked; nil for none.
func BindTree(b *boot.Params) (*staticfs.Stats, error) {
	c := &b.Config
	fd, err := openSource("codebase", c.CodebasePath)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if c.Filter != runtime.FilterStatic {
		return nil, staticfs.Bind(fd, TreeDir(b))
	}
	policy, err := perm.Compile(perm.GitInPlace(c.Permissions)) // there are no copies
	if err != nil {
		return nil, err
	}
	return staticfs.Mount(fd, TreeDir(b), at(b, "masks"), policy)
}

// EmptyDir returns an empty directory, to be mounted over others.
func EmptyDir(b *boot.Params) string { return at(b, "no-directory") }

// HandDir returns the directory that becomes launch.HandPath.
func HandDir(b *boot.Params) string { return at(b, "hand") }

// Reached reports whether the shim has a use for sockets in a sandbox's network namespace.
func Reached(c *runtime.SandboxConfig) bool {
	return c.Network == runtime.NetworkFiltered || c.Network == runtime.NetworkNone && len(c.Publish)+len(c.Expose)+len(c.Sockets) > 0
}

// at returns the path of a sandbox's own file on the host, which an engine must be able
// to reach.
func at(b *boot.Params, name string) string { return filepath.Join(cmp.Or(b.Engine, b.Mnt), name) }
