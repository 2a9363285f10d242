// Package prefetch lists trees, so that the kernel knows their names before a program looks them
// up.
package prefetch

import (
	"encoding/binary"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// workers is how many directories are listed at once. The requests compete with those of a first
// git status, which has 20 threads but asks for single names. On a tree of 12,800 names that takes
// 220 ms with 8 workers, 205 with 16, 190 with 24, and 197 with 48.
const workers = 24

// A Walker lists a tree, so that the kernel caches what the first git status asks for: names,
// attributes, and which directories have no .gitignore. It stops at its limit, or with the mount.
// It does not follow symbolic links, nor those that the sandbox makes meanwhile. Directories near
// the root come first: a large one far below must not use up the limit.
type Walker struct {
	dir     string      // where the tree is mounted
	limit   func() int  // how many entries it lists at most
	root    int         // dir, open while Run runs
	ignores atomic.Bool // the root has a .gitignore, so that no rule hides such names
	workers sync.WaitGroup

	mu      sync.Mutex
	stop    func() bool
	stopped bool      // stop has returned true; guarded by mu
	started int       // workers that were started; guarded by mu
	more    sync.Cond // dirs, busy, names or over has changed
	dirs    []string  // to be visited, as paths from the root; guarded by mu
	visit   func(dir string, buf []byte) (names int, below []string)
	links   []string // directories with files that have several names; guarded by mu
	busy    int      // workers that list; guarded by mu
	names   int      // that were listed; guarded by mu
}

// New returns the walker of the tree that is mounted at dir. It lists as many entries as limit
// returns, at most.
func New(dir string, limit func() int) *Walker {
	w := &Walker{dir: dir, limit: limit, dirs: []string{"."}}
	w.visit = w.list
	w.more.L = &w.mu
	return w
}

// Linked returns a Walker for the files that have several names, or nil if the tree has none. w is
// done.
func (w *Walker) Linked() *Walker {
	if len(w.links) == 0 {
		return nil
	}
	l := New(w.dir, w.limit)
	l.dirs, l.visit = w.links, l.watchLinks
	return l
}

// Done reports whether nothing more is to be listed. w.mu is held, or Run does not run.
func (w *Walker) Done() bool { return len(w.dirs) == 0 || w.names >= w.limit() }

// Run lists the tree, from where the run before has ended, until all is listed or stop returns
// true. It calls stop before each directory, from one goroutine at a time. A tree that cannot be
// opened counts as done.
func (w *Walker) Run(stop func() bool) {
	root, err := unix.Open(w.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		w.dirs = nil
		return
	}
	defer unix.Close(root)
	w.root = root
	w.mu.Lock()
	w.stop, w.stopped, w.started = stop, false, 0
	w.startWorkers()
	w.mu.Unlock()
	w.workers.Wait()
}

// startWorkers starts workers for the directories that wait to be listed. w.mu is held.
func (w *Walker) startWorkers() {
	for w.started < min(workers, w.busy+len(w.dirs)) {
		w.started++
		w.workers.Go(w.work)
	}
}

// work lists directories until all are, the limit is reached, or it is to stop.
func (w *Walker) work() {
	buf := make([]byte, 64<<10)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.dirs) == 0 && w.busy > 0 && w.names < w.limit() && !w.stopped {
			w.more.Wait()
		}
		if w.Done() || w.stopped {
			return
		}
		if w.stopped = w.stop(); w.stopped {
			w.more.Broadcast()
			return
		}
		dir := w.dirs[0]
		w.dirs = w.dirs[1:]
		w.busy++
		w.mu.Unlock()
		names, below := w.visit(dir, buf)
		w.mu.Lock()
		w.busy--
		w.names += names
		w.dirs = append(w.dirs, below...)
		w.startWorkers()
		w.more.Broadcast()
	}
}

// list lists the directory dir, and returns the number of its entries and the paths of the
// directories in it, sorted. Errors are ignored: a cache may be incomplete.
func (w *Walker) list(dir string, buf []byte) (names int, below []string) {
	fd, err := beneath.Open(w.root, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, nil
	}
	defer unix.Close(fd)
	const ignore = ".gitignore"
	ignores := false // dir has one
	file := ""       // one of its files
	entries(fd, buf, func(name string, typ byte) {
		names++
		ignores = ignores || name == ignore
		switch {
		case typ == unix.DT_REG:
			file = name
		case typ == unix.DT_DIR && name != "." && name != "..":
			below = append(below, path.Join(dir, name))
		}
	})
	var st unix.Stat_t
	// listing has changed the time of access: the kernel would ask for it again
	_ = unix.Fstat(fd, &st)
	switch {
	case dir == ".":
		w.ignores.Store(ignores)
	case path.Base(dir) == "objects" && path.Base(path.Dir(dir)) == ".git":
		return names, nil // there may be as many as files, and git status uses none
	case len(below) > 0 && !ignores && w.ignores.Load(): // git asks where it sees a name that is not in its index
		_ = unix.Fstatat(fd, ignore, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	// Package managers make directories of files that have other names in a cache.
	if file != "" && unix.Fstatat(fd, file, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Nlink > 1 {
		w.mu.Lock()
		w.links = append(w.links, dir)
		w.mu.Unlock()
	}
	slices.Sort(below)
	return names, below
}

// watchLinks has the tree server watch the files of the directory dir that have several names. A
// listing does not ask for their attributes, and the server begins to watch a file at the second
// request for them (fusefs). It returns the number of entries.
func (w *Walker) watchLinks(dir string, buf []byte) (names int, _ []string) {
	fd, err := beneath.Open(w.root, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, nil
	}
	defer unix.Close(fd)
	entries(fd, buf, func(name string, typ byte) {
		names++
		if typ != unix.DT_REG {
			return
		}
		var st unix.Statx_t
		for range 2 {
			err := unix.Statx(fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_FORCE_SYNC, unix.STATX_NLINK, &st)
			if err != nil || st.Nlink < 2 {
				return
			}
		}
	})
	return names, nil
}

// entries calls f with the name and type of each entry of the directory fd.
func entries(fd int, buf []byte, f func(name string, typ byte)) {
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		eachEntry(buf[:n], f)
	}
}

// eachEntry calls f with the name and type of each entry in b, as getdents64(2) fills it.
func eachEntry(b []byte, f func(name string, typ byte)) {
	const size, typ, name = 16, 18, 19 // offsets in struct linux_dirent64
	for len(b) > name {
		n := int(binary.NativeEndian.Uint16(b[size:]))
		if n <= name || n > len(b) {
			return
		}
		f(unix.ByteSliceToString(b[name:n]), b[typ])
		b = b[n:]
	}
}
