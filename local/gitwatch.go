package local

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitpairs"
	"wolffia/internal/git/gitsync"
	"wolffia/internal/host/statedir"
)

// How long after a change a synchronisation begins while a command runs: when nothing has happened
// for gitQuiet; one that takes long is not repeated before it has rested for gitRest times as long,
// up to gitPatience. After one that has failed the next begins after gitRetry, then twice as long
// each time, up to gitPatience.
const (
	gitQuiet    = 100 * time.Millisecond
	gitRest     = 3
	gitRetry    = time.Second
	gitPatience = 30 * time.Second
)

// maxRefDirs bounds the directories below refs/ that are watched in a repository.
const maxRefDirs = 1000

// A gitWatch synchronises the repositories of a sandbox when one side changes, until it is closed.
type gitWatch struct {
	inotify *os.File
	stop    context.CancelFunc
}

// watchGit begins to watch the git directories of a sandbox; nil: this process may not watch any more.
func watchGit(b *gitBox) *gitWatch {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil // what commands change is taken over when they end
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &gitWatch{os.NewFile(uintptr(fd), "inotify"), stop}
	w.watch(statedir.Git(b.box.Run()), unix.IN_CREATE)
	w.watch(b.bases(), unix.IN_CREATE|unix.IN_MOVED_TO)
	changes := make(chan struct{}, 1)
	go w.read(changes)
	go w.run(ctx, b, changes)
	return w
}

// close ends the watch, and the synchronisation that it has begun. It does not wait.
func (w *gitWatch) close() {
	if w != nil {
		w.stop()
		_ = w.inotify.Close()
	}
}

// watch has changes of the names in a directory wake the watch. That it fails, as at the limits of
// the kernel, makes the synchronisation later: when the command ends.
func (w *gitWatch) watch(dir string, events uint32) {
	raw, err := w.inotify.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _ = unix.InotifyAddWatch(int(fd), dir, events|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
	})
}

// watchPairs watches the host's sides of pairs, and with static the sandbox's: else the mark tells.
// It is to be called again after a change: there may be new directories of references.
func (w *gitWatch) watchPairs(pairs []*gitsync.Pair, static bool) {
	if w == nil {
		return
	}
	for _, p := range pairs {
		w.watchRepository(p.Host, gitpairs.Common(p.Host))
		if static {
			w.watchRepository(p.Private, cmp.Or(p.Common, p.Private))
		}
	}
}

// watchRepository watches a git directory, and that of its repository. What the sandbox puts there
// in the place of a directory wakes the watch at most.
func (w *gitWatch) watchRepository(own, common string) {
	const names = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM
	w.watch(own, names)
	if common != own {
		w.watch(common, names)
	}
	left := maxRefDirs
	_ = filepath.WalkDir(filepath.Join(common, "refs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil
		}
		if left--; left < 0 {
			return fs.SkipAll
		}
		w.watch(path, names)
		return nil
	})
}

// read sends to changes when something has happened, until the watch is closed, and closes changes then.
func (w *gitWatch) read(changes chan<- struct{}) {
	defer close(changes)
	buf := make([]byte, 4096)
	for {
		if _, err := w.inotify.Read(buf); err != nil {
			return
		}
		select {
		case changes <- struct{}{}:
		default: // run has not seen the last one yet
		}
	}
}

// run synchronises after changes, until ctx ends.
func (w *gitWatch) run(ctx context.Context, b *gitBox, changes <-chan struct{}) {
	timer := time.NewTimer(gitQuiet) // what was changed before the watch began
	defer timer.Stop()
	var earliest time.Time // of the next one
	retry := gitRetry
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-changes:
			if !open {
				return
			}
			timer.Reset(max(gitQuiet, time.Until(earliest)))
		case <-timer.C:
			begin := time.Now()
			if b.live(ctx, w) {
				retry = gitRetry
				earliest = time.Now().Add(min(gitPatience, gitRest*time.Since(begin)))
				continue
			}
			earliest = time.Now().Add(retry)
			timer.Reset(retry)
			retry = min(gitPatience, 2*retry)
		}
	}
}

// live synchronises while a command runs, if one side has changed. It reports whether all was taken
// over, or is known to stay.
func (b *gitBox) live(ctx context.Context, w *gitWatch) (settled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() != nil {
		return true // the command has ended, and what it has changed was taken over
	}
	b.find()
	w.watchPairs(b.pairs, b.static()) // before the look, or a change of the host's after it would be missed
	settled = b.same() || b.sync(ctx)
	w.watchPairs(b.pairs, b.static()) // there may be new ones
	return settled
}
