package reposync

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitcopy"
	"wolffia/internal/git/gitpairs"
	"wolffia/internal/git/gitsync"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// maxArrivals bounds the git directories that are made on the host after one command, and
// arrivalRounds how deep submodules in submodules are found.
const (
	maxArrivals   = 200
	arrivalRounds = 10
	arrivalWait   = 10 * time.Second // for another process that makes them
)

// arrive makes on the host the git directories that the sandbox has made, and removes those that
// wolffia has made for it and that it has removed. A command has ended before. r.mu is held.
func (r *repositories) arrive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	r.syncs++
	r.stuck = nil
	c, err := r.openCodebase(ctx)
	if err != nil {
		r.stick("git directories made inside", err)
		_ = r.rec.Git().SetPending(r.why(r.pairs))
		return
	}
	defer c.close()
	(&departures{c, &r.journal}).depart(ctx)
	in := arrivals{c, &r.journal}
	tried := map[string]bool{}
	for range arrivalRounds {
		r.look(r.baseStamp())
		var any bool
		for i := range r.apart {
			f := &r.apart[i]
			if tried[f.Private] || len(tried) >= maxArrivals {
				continue
			}
			tried[f.Private], any = true, true
			if err := in.bring(ctx, f); err != nil {
				r.stick(filepath.Join(f.Place, ".git")+" stays inside", err)
			}
			step.Reached("git: arrived")
		}
		if !any {
			break
		}
	}
	r.look(r.baseStamp())
	r.unarrived = false // what is stuck is tried again when something has changed
	if !r.syncPairs(ctx) {
		_ = r.rec.Git().SetChanged(r.config) // the next one tries again
	}
	_ = r.rec.Git().SetPending(r.why(r.pairs))
}

// isApart reports whether the host has to get a git directory, or the file that leads to it.
func (s *sides) isApart(f *gitpairs.Pair) bool {
	return f.Made || f.Pointer && (isModule(f) || s.hasMade(f.Private))
}

// isModule reports whether a git directory is that of a submodule, below the one of its
// repository.
func isModule(f *gitpairs.Pair) bool {
	return f.Common == "" && f.Private != filepath.Join(f.Place, ".git")
}

// arrivals make the host's halves of what the sandbox has made.
type arrivals struct {
	*codebase
	*journal
}

// bring makes the host's half of a git directory that the sandbox has made, or the file that leads
// to it.
func (a *arrivals) bring(ctx context.Context, f *gitpairs.Pair) error {
	p := a.newPair(f)
	place, err := openDirectory(a.root, f.Place)
	if err != nil {
		return err
	}
	defer place.Close()
	if f.Made && !p.IsRepository() {
		return nil // git inside has not completed it
	}
	if f.Made {
		m := made{Private: f.Private, Host: f.Host, Place: f.Place, Common: f.Common, Module: isModule(f)}
		if err := a.makeGit(ctx, p, &m); err != nil {
			return err
		}
	}
	switch {
	case !f.Pointer:
		return nil
	case isModule(f):
		to, err := filepath.Rel(p.Worktree, f.Host)
		if err != nil {
			return err
		}
		return errors.Join(writePointer(place, to), p.Activate(ctx))
	}
	return writePointer(place, f.Host)
}

// makeGit makes a git directory at a temporary name, which no sandbox can use, and gives it its
// own then.
func (a *arrivals) makeGit(ctx context.Context, p *gitsync.Pair, m *made) (err error) {
	if _, err := a.rec.Git().MakeBase(a.config, m.Private); err != nil {
		return err
	}
	to, err := a.openAbove(m.Host)
	if err != nil {
		return err
	}
	defer to.Close()
	name := a.tempName()
	if err := a.claimTemp(temp{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.dropTemp()) }() // nothing, unless it has failed
	step.Reached("git: name claimed")
	if err := makeDir(a.root, name, to); err != nil {
		return err
	}
	step.Reached("git: directory made")
	half := *p
	if m.Common == "" {
		half.Host = filepath.Join(a.root.Name(), name)
		worktree := ""
		if m.Module {
			if worktree, err = filepath.Rel(m.Host, p.Worktree); err != nil {
				return err
			}
		}
		report, err := half.Arrive(ctx, worktree)
		if err != nil {
			return err
		}
		for _, line := range report.Said {
			a.say(a.named(p, line))
		}
		if err := a.connect(ctx, p, m); err != nil {
			return err
		}
	} else if err := half.ArriveLinked(ctx, filepath.Join(a.root.Name(), name)); err != nil {
		return err
	}
	if m.Inode, err = inodeOf(a.root, name); err != nil {
		return err
	}
	if err := statefile.Write(filepath.Join(p.State, madeFile), m); err != nil {
		return err
	}
	step.Reached("git: complete")
	err = unix.Renameat2(int(a.root.Fd()), name, int(to.Fd()), filepath.Base(m.Host), unix.RENAME_NOREPLACE)
	if err != nil {
		return &os.PathError{Op: "make", Path: m.Host, Err: err}
	}
	return nil
}

// connectScript has git inside read objects of the host too. Programs with a git of their own find
// absolute paths only, but those become wrong when the sandbox moves the directory: $2 is 1 if it
// cannot.
const connectScript = `o=$(git rev-parse --git-path objects) && a=$(git rev-parse --absolute-git-dir) || exit
mkdir -p "$o/info" || exit
for d in "../$1" "$a/$1"; do
	grep -qsxF "$d" "$o/info/alternates" || printf '%s\n' "$d" >>"$o/info/alternates" || exit
	[ "$2" = 1 ] || break
done`

// connect shows a repository that the sandbox has made what the host has of it, so that it gets
// the host's commits.
func (a *arrivals) connect(ctx context.Context, p *gitsync.Pair, m *made) error {
	git, err := os.Open(statedir.Git(a.rec.Run()))
	if err != nil {
		return err
	}
	defer git.Close()
	n, err := gitcopy.Number(ctx, git, statedir.GitHosts, m.Host,
		func(path string) error { return a.rec.Git().Give(a.config, path) })
	if err != nil {
		return err
	}
	fixed := "0"
	if m.Place == "." || m.Module && strings.HasPrefix(m.Private, ".git/") {
		fixed = "1"
	}
	status, err := p.Inside.Run(ctx,
		[]string{"sh", "-c", connectScript, "sh", gitcopy.ShownAt(n) + "/objects", fixed}, nil, io.Discard)
	if err == nil && status != 0 {
		err = runtime.Errorf(runtime.ErrUnavailable, "git inside fails (status %d)", status)
	}
	return err
}
