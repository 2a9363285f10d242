package reposync

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
// for quiet; one that takes long is not repeated before it has rested for rest times as long,
// up to patience. After one that has failed the next begins after retry, then twice as long
// each time, up to patience.
const (
	quiet    = 100 * time.Millisecond
	rest     = 3
	retry    = time.Second
	patience = 30 * time.Second
)

// maxRefDirs bounds the directories below refs/ that are watched in a repository.
const maxRefDirs = 1000

// A watcher synchronises the repositories of a sandbox when one side changes, until it is closed.
type watcher struct {
	stop    context.CancelFunc
	inotify *os.File // of run
}

// newWatcher begins to watch the git directories of a sandbox.
func newWatcher(r *repositories) *watcher {
	ctx, stop := context.WithCancel(context.Background())
	w := &watcher{stop: stop}
	go w.run(ctx, r) // ends with the watch
	return w
}

// close ends the watch, and the synchronisation that it has begun. It does not wait.
func (w *watcher) close() {
	if w != nil {
		w.stop()
	}
}

// open has the kernel tell what changes from now on, and sends to changes when something has. It
// reports whether this process may watch more; else what commands change is taken over when they end.
func (w *watcher) open(r *repositories, changes chan<- struct{}) bool {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return false
	}
	w.inotify = os.NewFile(uintptr(fd), "inotify")
	w.watch(statedir.Git(r.rec.Run()), unix.IN_CREATE)
	w.watch(r.bases(), unix.IN_CREATE|unix.IN_MOVED_TO)
	go w.read(changes)
	return true
}

// watch has changes of the names in a directory wake the watch. That it fails, as at the limits of
// the kernel, makes the synchronisation later: when the command ends.
func (w *watcher) watch(dir string, events uint32) {
	raw, err := w.inotify.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _ = unix.InotifyAddWatch(int(fd), dir, events|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
	})
}

// watchPairs watches the host's sides of pairs, and with static the sandbox's: else the mark
// tells. It is to be called again after a change: there may be new directories of references.
func (w *watcher) watchPairs(pairs []*gitsync.Pair, static bool) {
	for _, p := range pairs {
		w.watchRepository(p.Host, gitpairs.Common(p.Host))
		if static {
			w.watchRepository(p.Private, cmp.Or(p.Common, p.Private))
		}
	}
}

// watchRepository watches a git directory, and that of its repository. What the sandbox puts there
// in the place of a directory wakes the watch at most.
func (w *watcher) watchRepository(own, common string) {
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

// read sends to changes when something has happened, until the watch is closed, and closes changes
// then.
func (w *watcher) read(changes chan<- struct{}) {
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

// run synchronises after changes, until ctx ends. The kernel tells of them only when the command
// has run for a while: it takes milliseconds to end that.
func (w *watcher) run(ctx context.Context, r *repositories) {
	timer := time.NewTimer(quiet) // what is changed before the watch begins
	defer timer.Stop()
	changes := make(chan struct{}, 1)
	var earliest time.Time // of the next one
	pause := retry
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-changes:
			if !open {
				return
			}
			timer.Reset(max(quiet, time.Until(earliest)))
		case <-timer.C:
			if w.inotify == nil {
				if !w.open(r, changes) {
					return
				}
				defer w.inotify.Close()
			}
			begin := time.Now()
			if r.live(ctx, w) {
				pause = retry
				earliest = time.Now().Add(min(patience, rest*time.Since(begin)))
				continue
			}
			earliest = time.Now().Add(pause)
			timer.Reset(pause)
			pause = min(patience, 2*pause)
		}
	}
}
