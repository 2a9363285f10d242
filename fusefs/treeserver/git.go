package treeserver

import (
	"wolffia/fusefs"
	"wolffia/internal/git/gitstore"
	"wolffia/internal/host/boot"
)

// openPrivate opens what the sandbox at run has; nil if its git directories are not its own.
func openPrivate(run, codebase, mountPoint string, g boot.TreeGit, copied bool) (*gitstore.Store, error) {
	if !g.Private {
		return nil, nil
	}
	return gitstore.Open(gitstore.Options{
		Run: run, Codebase: codebase, MountPoint: mountPoint, Credentials: g.Credentials, Copied: copied,
		Monitor: g.Monitor, Ignore: g.Ignore,
	})
}

// gitOptions returns what fusefs.Serve needs; nil if the git directories are not the sandbox's
// own. minimal is fusefs.Git.Minimal.
func gitOptions(s *gitstore.Store, minimal bool) *fusefs.Git {
	if s == nil {
		return nil
	}
	store := -1
	if s.Store != nil {
		store = int(s.Store.Fd())
	}
	return &fusefs.Git{Store: store, Work: int(s.Work.Fd()), Host: s.Copier, Monitor: s.Monitor, Minimal: minimal}
}
