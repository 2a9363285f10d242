package shim

import (
	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitstore"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/host/staticfs"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// bindTree mounts the codebase natively, with what a static filter masks. Git directories that the
// host has are copied meanwhile, if the sandbox has its own.
func (s *shim) bindTree() (err error) {
	c := &s.boot.Config
	var git *staticfs.Git
	if c.PrivateGit && c.Filter == runtime.FilterStatic {
		store, err := gitstore.Open(gitstore.Options{
			Run: s.boot.Run, Codebase: c.CodebasePath, MountPoint: c.MountPointOrDefault(),
			Shown: launch.GitDirsPath, Credentials: c.GitCredentials,
		})
		if err != nil {
			return runtime.WithClass(runtime.ErrUnavailable, err)
		}
		defer store.Close()
		root, err := unix.Open(c.CodebasePath, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "codebase %s: %w", c.CodebasePath, err)
		}
		defer unix.Close(root)
		git = &staticfs.Git{
			Copy: func(path string) (bool, error) { return store.Copy(root, path) },
			Open: store.Open, Host: store.Objects, Count: store.Count,
			Dir: rootfs.GitDir(s.boot), Shown: launch.GitDirsPath,
		}
	}
	s.static, err = rootfs.BindTree(s.boot, git)
	return err
}

// hasUnsynced reports whether the sandbox's own git directories may have what the host does not
// have. Nothing has marked changes in those of a static filter: List compares them.
func hasUnsynced(b *boot.Params) bool {
	run, c := b.Run, &b.Config
	return statedir.GitUnsynced(run) || c.Native() && c.PrivateGit && statedir.GitUsed(run)
}
