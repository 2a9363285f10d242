package local

import (
	"context"
	"io"

	"wolffia/internal/git/gitsync"
	"wolffia/runtime"
)

// A gitInside runs programs for a synchronisation in a sandbox, with its environment, in the
// working tree of a repository.
type gitInside struct {
	exec *executor
	box  string // the sandbox's id
	dir  string
}

var _ gitsync.Inside = (*gitInside)(nil)

// Run implements [gitsync.Inside].
func (g *gitInside) Run(ctx context.Context, args []string, in io.Reader, out io.Writer) (status int, err error) {
	c, err := g.exec.command(g.box, &runtime.Command{Command: args, Cwd: g.dir, Timeout: gitLimit}, false)
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
