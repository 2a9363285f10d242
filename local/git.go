package local

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"

	"wolffia/internal/git/gitsync"
	"wolffia/internal/host/statedir"
	"wolffia/local/reposync"
	"wolffia/runtime"
)

// SyncGit implements [runtime.Workspace].
func (e *executor) SyncGit(ctx context.Context, sandboxID string) (*runtime.GitReport, error) {
	rec, c, err := e.header(sandboxID)
	if err != nil {
		return nil, err
	}
	return e.gits.Sync(ctx, rec, c)
}

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
	rec, c, err := e.header(sandboxID)
	if err != nil {
		return nil, err
	}
	inside := filepath.Join(c.MountPointOrDefault(), dir)
	p := &gitsync.Pair{
		Worktree: filepath.Join(c.CodebasePath, dir), Dir: inside, State: statedir.Cow(rec.Run()),
		Name: cmp.Or(c.Name, rec.ID()), Inside: e.inside(rec.ID(), inside),
	}
	host := filepath.Join(p.Worktree, ".git")
	if info, err := os.Lstat(host); err == nil && info.IsDir() {
		p.Host = host
	}
	return p, nil
}

// A gitInside runs programs for a synchronisation in a sandbox, with its environment, in the
// working tree of a repository.
type gitInside struct {
	exec *executor
	sb   string // the sandbox's id
	dir  string
}

// inside returns what runs programs in a directory of a sandbox for a synchronisation.
func (e *executor) inside(sandboxID, dir string) gitsync.Inside { return &gitInside{e, sandboxID, dir} }

var _ gitsync.Inside = (*gitInside)(nil)

// Run implements [gitsync.Inside].
func (g *gitInside) Run(ctx context.Context, args []string, in io.Reader, out io.Writer) (status int, err error) {
	c, err := g.exec.command(g.sb, &runtime.Command{Command: args, Cwd: g.dir, Timeout: reposync.Limit}, false)
	if err != nil {
		return 0, err
	}
	c.unwatched, c.Stdin = true, in != nil
	p, err := g.exec.start(ctx, c)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	unread := p.feed(in)
	stop := context.AfterFunc(ctx, func() { _ = p.Close() }) // ends the output
	defer stop()
	said := make(chan struct{})
	go func() { // ends with the process
		defer close(said)
		_, _ = io.Copy(io.Discard, p.Stderr())
	}()
	_, failed := io.Copy(out, p.Stdout())
	if failed != nil {
		_ = p.Close()
	}
	exit, _, err := p.finish(ctx, unread)
	<-said
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, err
	case exit.TimedOut:
		return 0, context.DeadlineExceeded
	}
	return exit.ExitCode, nil
}
