package local

import (
	"context"
	"os"
	"path/filepath"

	"wolffia/internal/git/gitsync"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// ExportGit makes branches of the host of what the repository in a directory of a copied codebase
// has, whose path is relative to that's top: see gitsync.Pair.Export. The sandbox must run. The
// error is of class runtime.ErrInvalid if the host has no repository there.
func (e *executor) ExportGit(ctx context.Context, sandboxID, dir, branch string, dry bool) ([]gitsync.Branch, error) {
	p, err := e.copiedPair(sandboxID, dir)
	if err != nil {
		return nil, err
	}
	if p.Host == "" {
		return nil, runtime.Errorf(runtime.ErrInvalid,
			"%s is not the top of a git repository with a directory .git of its own: name its top with --codebase DIR",
			p.Worktree)
	}
	return p.Export(ctx, branch, dry)
}

// AheadGit returns how many commits the repository in a directory of a copied codebase has that
// the host does not have, and whether the host has a repository there: see gitsync.Pair.Ahead. The
// sandbox must run.
func (e *executor) AheadGit(ctx context.Context, sandboxID, dir string) (commits int, hosted bool, err error) {
	p, err := e.copiedPair(sandboxID, dir)
	if err != nil {
		return 0, false, err
	}
	commits, err = p.Ahead(ctx)
	return commits, p.Host != "", err
}

// copiedPair returns a repository of a copied codebase, which is not synchronised.
func (e *executor) copiedPair(sandboxID, dir string) (*gitsync.Pair, error) {
	box, c, err := e.brief(sandboxID)
	if err != nil {
		return nil, err
	}
	b, inside := gitBox{box: box, config: c}, filepath.Join(c.MountPointOrDefault(), dir)
	p := &gitsync.Pair{
		Worktree: filepath.Join(c.CodebasePath, dir), Dir: inside, State: statedir.Cow(box.Run()), Name: b.name(),
		Inside: &gitInside{exec: e, box: box.ID(), dir: inside},
	}
	host := filepath.Join(p.Worktree, ".git")
	if info, err := os.Lstat(host); err == nil && info.IsDir() {
		p.Host = host
	}
	return p, nil
}
