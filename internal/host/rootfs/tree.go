package rootfs

import (
	"cmp"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/staticfs"
	"wolffia/perm"
	"wolffia/runtime"
)

// TreeDir returns where the codebase is mounted for the backend.
func TreeDir(b *boot.Params) string { return at(b, "tree") }

// GitDir returns the directory that becomes launch.GitDirsPath.
func GitDir(b *boot.Params) string { return at(b, "gitdirs") }

// BindTree mounts the codebase natively at TreeDir, for a filter without a tree server, and
// returns what a static one has masked; nil for none. git has the sandbox's own git directories,
// by rules that BindTree sets; or nil.
func BindTree(b *boot.Params, git *staticfs.Git) (*staticfs.Stats, error) {
	c := &b.Config
	fd, err := openSource("codebase", c.CodebasePath)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if c.Filter != runtime.FilterStatic {
		return nil, staticfs.Bind(fd, TreeDir(b))
	}
	// What is not a copy is the host's.
	policy, err := perm.Compile(perm.GitInPlace(c.Permissions))
	if err == nil && git != nil {
		git.Rules, err = perm.Compile(perm.GitPrivate(c.Permissions))
	}
	if err != nil {
		return nil, err
	}
	return staticfs.Mount(fd, TreeDir(b), at(b, "masks"), policy, git)
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
func at(b *boot.Params, name string) string { return filepath.Join(cmp.Or(b.KeeperDir, b.Mnt), name) }
