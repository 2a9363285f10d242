package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitcopy"
	"wolffia/internal/git/gitpairs"
	"wolffia/internal/git/gitsync"
	"wolffia/internal/git/hostgit"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// maxArrivals bounds the git directories that are made on the host after one command, and arrivalRounds how deep
// submodules in submodules are found.
const (
	maxArrivals   = 200
	arrivalRounds = 10
	arrivalWait   = 10 * time.Second // for another process that makes them
)

// madeFile, in the directory of a git directory's base, says that wolffia has made it on the host.
const madeFile = "made.json"

// A madeGit is a git directory of the host that wolffia has made for the sandbox.
type madeGit struct {
	Private string `json:"private"` // in the store
	Host    string `json:"host"`    // absolute
	Place   string `json:"place"`   // the working tree, in the codebase
	Common  string `json:"common,omitempty"`
	Module  bool   `json:"module,omitempty"`
	Inode   uint64 `json:"inode"` // of the git directory
}

// arrive makes on the host the git directories that the sandbox has made, and removes those that
// wolffia has made for it and that it has removed. A command has ended before. b.mu is held.
func (b *gitBox) arrive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	b.syncs++
	b.stuck = nil
	release, root, err := b.openArrivals(ctx)
	if err != nil {
		b.stick("git directories made inside", err)
		_ = b.box.Git().SetPending(b.why())
		return
	}
	defer release()
	b.depart(ctx, root)
	tried := map[string]bool{}
	for range arrivalRounds {
		b.look(b.baseStamp())
		var any bool
		for i := range b.apart {
			f := &b.apart[i]
			if tried[f.Private] || len(tried) >= maxArrivals {
				continue
			}
			tried[f.Private], any = true, true
			if err := b.bring(ctx, f, root); err != nil {
				b.stick(filepath.Join(f.Place, ".git")+" stays inside", err)
			}
			step.Reached("git: arrived")
		}
		if !any {
			break
		}
	}
	b.look(b.baseStamp())
	b.unarrived = false // what is stuck is tried again when something has changed
	if !b.syncPairs(ctx) {
		_ = b.box.Git().SetChanged(b.config) // the next one tries again
	}
	_ = b.box.Git().SetPending(b.why())
}

// isApart reports whether the host has to get a git directory, or the file that leads to it.
func (b *gitBox) isApart(f *gitpairs.Pair) bool {
	return f.Made || f.Pointer && (isModule(f) || b.hasMade(f.Private))
}

// isModule reports whether a git directory is that of a submodule, below the one of its repository.
func isModule(f *gitpairs.Pair) bool {
	return f.Common == "" && f.Private != filepath.Join(f.Place, ".git")
}

// stick keeps a line about what does not arrive.
func (b *gitBox) stick(what string, err error) {
	b.stuck = append(b.stuck, hostgit.Printable(fmt.Sprintf("%s: %v", what, err)))
}

// bases returns the path of the directory that has one for each pair, or of what that has at a path.
func (b *gitBox) bases(path ...string) string {
	return filepath.Join(statedir.Git(b.box.Run()), statedir.GitBase, filepath.Join(path...))
}

// baseStamp tells whether pairs were added.
func (b *gitBox) baseStamp() statefile.Stamp { return statefile.StampOf(b.bases()) }

// openArrivals opens the codebase, and keeps other processes from making git directories for this
// sandbox until release is called. It puts right what a killed one has left.
func (b *gitBox) openArrivals(ctx context.Context) (release func(), root *os.File, err error) {
	dir := b.bases()
	ctx, cancel := context.WithTimeoutCause(ctx, arrivalWait,
		fmt.Errorf("another process of wolffia is at work on %s", dir))
	defer cancel()
	unlock, err := filelock.Flock(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	root, err = os.OpenFile(b.config.CodebasePath, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	release = func() { _ = root.Close(); unlock() }
	if err := b.settleTemp(root); err != nil {
		release()
		return nil, nil, err
	}
	return release, root, nil
}

// bring makes the host's half of a git directory that the sandbox has made, or the file that leads to it.
func (b *gitBox) bring(ctx context.Context, f *gitpairs.Pair, root *os.File) error {
	p := b.newPair(f)
	place, err := openDirectory(root, f.Place)
	if err != nil {
		return err
	}
	defer place.Close()
	if f.Made && !p.IsRepository() {
		return nil // git inside has not completed it
	}
	if f.Made {
		m := madeGit{Private: f.Private, Host: f.Host, Place: f.Place, Common: f.Common, Module: isModule(f)}
		if err := b.makeGit(ctx, p, &m, root, place); err != nil {
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

// makeGit makes a git directory at a temporary name, which no sandbox can use, and gives it its own then.
func (b *gitBox) makeGit(ctx context.Context, p *gitsync.Pair, m *madeGit, root, place *os.File) (err error) {
	if _, err := b.box.Git().MakeBase(b.config, m.Private); err != nil {
		return err
	}
	to, err := b.openAbove(m.Host, root)
	if err != nil {
		return err
	}
	defer to.Close()
	name := b.tempName()
	if err := b.claimTemp(root, gitTemp{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.dropTemp(root)) }() // nothing, unless it has failed
	step.Reached("git: name claimed")
	if err := makeDir(root, name, to); err != nil {
		return err
	}
	step.Reached("git: directory made")
	half := *p
	if m.Common == "" {
		half.Host = filepath.Join(root.Name(), name)
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
			b.say(b.named(p, line))
		}
		if err := b.connect(ctx, p, m); err != nil {
			return err
		}
	} else if err := half.ArriveLinked(ctx, filepath.Join(root.Name(), name)); err != nil {
		return err
	}
	if m.Inode, err = inodeOf(root, name); err != nil {
		return err
	}
	if err := statefile.Write(filepath.Join(p.State, madeFile), m); err != nil {
		return err
	}
	step.Reached("git: complete")
	if err := unix.Renameat2(int(root.Fd()), name, int(to.Fd()), filepath.Base(m.Host), unix.RENAME_NOREPLACE); err != nil {
		return &os.PathError{Op: "make", Path: m.Host, Err: err}
	}
	return nil
}

// inodeOf returns the number of a file in dir.
func inodeOf(dir *os.File, name string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, &os.PathError{Op: "stat", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return st.Ino, nil
}

// openAbove opens the directory that is to have the git directory at an absolute path. modules and worktrees are made.
func (b *gitBox) openAbove(path string, root *os.File) (*os.File, error) {
	above := filepath.Dir(path)
	rel, err := filepath.Rel(root.Name(), above)
	if err != nil {
		return nil, err
	}
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return openOuter(above)
	}
	return openMade(root, rel)
}

// openOuter is openMade for an absolute path out of the codebase, where no sandbox puts links, and
// where other file systems can be mounted.
func openOuter(path string) (*os.File, error) {
	for at := path; ; at = filepath.Dir(at) {
		dir, err := beneath.OpenPlain(at, unix.O_RDONLY|unix.O_DIRECTORY)
		if errors.Is(err, fs.ErrNotExist) && at != "/" {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		rest, err := filepath.Rel(at, path)
		if err != nil {
			return nil, err
		}
		return openMade(dir, rest)
	}
}

// openMade opens the directory at a path below dir, over no link, and makes it below a git directory.
func openMade(dir *os.File, path string) (*os.File, error) {
	at, err := openDirectory(dir, ".")
	if err != nil {
		return nil, err
	}
	git := isGitDir(at)
	for name := range strings.SplitSeq(filepath.Clean(path), "/") {
		next, err := openDirectory(at, name)
		if git && errors.Is(err, fs.ErrNotExist) {
			if err = makeDir(at, name, at); err == nil {
				next, err = openDirectory(at, name)
			}
		}
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at = next
		git = git || isGitDir(at)
	}
	return at, nil
}

// isGitDir reports whether a directory has a HEAD.
func isGitDir(dir *os.File) bool {
	fd, err := beneath.Open(int(dir.Fd()), "HEAD", unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// makeDir makes a directory in dir. Its owner is like's.
func makeDir(dir *os.File, name string, like *os.File) error {
	err := unix.Mkdirat(int(dir.Fd()), name, 0o777)
	if err == nil {
		err = chownLike(dir, name, like)
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return nil
}

// chownLike gives a file in dir the owner of like, if this is root.
func chownLike(dir *os.File, name string, like *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(like.Fd()), &st); err != nil {
		return err
	}
	return unix.Fchownat(int(dir.Fd()), name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
}

// openDirectory opens the directory at a path below dir, over no link.
func openDirectory(dir *os.File, path string) (*os.File, error) {
	fd, err := beneath.Open(int(dir.Fd()), path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(dir.Name(), path), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), path)), nil
}

// pointerText returns the content of a file .git that leads to a git directory.
func pointerText(to string) string { return "gitdir: " + to + "\n" }

// writePointer makes the file .git of a working tree.
func writePointer(place *os.File, to string) error {
	fd, err := beneath.Open(int(place.Fd()), ".git", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return &os.PathError{Op: "make", Path: filepath.Join(place.Name(), ".git"), Err: err}
	}
	f := os.NewFile(uintptr(fd), filepath.Join(place.Name(), ".git"))
	_, err = f.WriteString(pointerText(to))
	return errors.Join(err, chownLike(place, ".git", place), f.Close())
}

// connectScript has git inside read objects of the host too. Programs with a git of their own find
// absolute paths only, but those become wrong when the sandbox moves the directory: $2 is 1 if it
// cannot.
const connectScript = `o=$(git rev-parse --git-path objects) && a=$(git rev-parse --absolute-git-dir) && mkdir -p "$o/info" || exit
for d in "../$1" "$a/$1"; do
	grep -qsxF "$d" "$o/info/alternates" || printf '%s\n' "$d" >>"$o/info/alternates" || exit
	[ "$2" = 1 ] || break
done`

// connect shows a repository that the sandbox has made what the host has of it, so that it gets the host's commits.
func (b *gitBox) connect(ctx context.Context, p *gitsync.Pair, m *madeGit) error {
	git, err := os.Open(statedir.Git(b.box.Run()))
	if err != nil {
		return err
	}
	defer git.Close()
	n, err := gitcopy.Number(ctx, git, statedir.GitHosts, m.Host,
		func(path string) error { return b.box.Git().Give(b.config, path) })
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

// hasMade reports whether wolffia has made the host's half of a git directory.
func (b *gitBox) hasMade(private string) bool {
	var m madeGit
	return statefile.Read(b.bases(statedir.GitBaseName(private), madeFile), &m) == nil
}
