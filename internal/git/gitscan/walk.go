package gitscan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitconfig"
	"wolffia/internal/git/gitguard"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/dirents"
)

const (
	walkers = 4 // goroutines; with a warm cache two cores are enough to feed

	// maxPending bounds the bytes of the pending paths, which a hostile tree can make
	// long and many.
	maxPending = 64 << 20
	maxFound   = 10_000 // repositories, and directories skipped
)

// A place is a git directory, or something named .git, that the walk found.
type place struct {
	path string // relative to the root
	bare bool   // a bare repository; else a directory, file or link named .git
}

// A walker reads the directories of a tree. Its goroutines share the stack of pending
// directories.
type walker struct {
	root  int // descriptor of the root
	max   int
	names set // files to look for
	marks set // entries whose directories to look for
	link  func(path string) bool
	dir   func(path string) bool // Options.Folder
	first func()                 // called with the first repository; may be nil
	files atomic.Int64           // how many files may still be counted

	mu        sync.Mutex
	wake      sync.Cond     // signals more pending, or the end
	pending   []string      // guarded by mu
	size      int           // bytes in pending; guarded by mu
	busy      int           // goroutines reading a directory; guarded by mu
	dirs      int           // read or pending; guarded by mu
	stop      bool          // guarded by mu
	found     []place       // guarded by mu
	notGit    []string      // directories named as a bare repository; guarded by mu
	named     []string      // files that were looked for; guarded by mu
	marked    []string      // directories with a mark; guarded by mu
	folders   []string      // directories that were looked for; guarded by mu
	linked    []string      // links that were looked for; guarded by mu
	skipped   []string      // directories of another mount; guarded by mu
	unread    []string      // guarded by mu
	links     map[inode]int // of files with several links: those not found; guarded by mu
	truncated bool          // guarded by mu
	err       error         // guarded by mu
}

// walk reads the tree at root.
func walk(ctx context.Context, root string, opts *Options) (*walker, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	w := &walker{root: fd, max: opts.MaxDirs, names: set{}, marks: set{}, link: opts.Link, dir: opts.Folder, first: opts.Found, links: map[inode]int{}, pending: []string{"."}, size: 1, dirs: 1}
	w.wake.L = &w.mu
	w.files.Store(int64(opts.Files))
	for _, name := range opts.Names {
		w.names.add(name)
	}
	for _, name := range opts.Marks {
		w.marks.add(name)
	}
	var wg sync.WaitGroup
	for range walkers {
		// Ends when nothing is pending and no goroutine is busy, or with ctx.
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
	return w, w.err
}

// run reads pending directories until the walk is complete.
func (w *walker) run(ctx context.Context) {
	var buf []byte
	var below []string
	for {
		path, ok := w.next()
		if !ok {
			return
		}
		if buf == nil { // not for a goroutine that finds nothing to do
			buf = make([]byte, 32<<10)
		}
		var err error
		below, err = w.readDir(ctx, path, buf, below[:0])
		w.done(path, below, err)
	}
}

// next takes a directory off the stack. It waits while the stack is empty and other
// goroutines may still add to it.
func (w *walker) next() (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) == 0 && w.busy > 0 && !w.stop {
		w.wake.Wait()
	}
	if w.stop || len(w.pending) == 0 {
		return "", false
	}
	last := len(w.pending) - 1
	path := w.pending[last]
	w.pending = w.pending[:last]
	w.size -= len(path)
	w.busy++
	return path, true
}

// done records the result of readDir.
func (w *walker) done(path string, below []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), err != nil && path == ".":
		w.err, w.stop = err, true
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		// The directory was removed or replaced.
	case err != nil && len(w.skipped)+len(w.unread) >= maxFound:
		w.truncated = true
	case errors.Is(err, unix.EXDEV):
		w.skipped = append(w.skipped, path)
	case err != nil:
		w.unread = append(w.unread, path)
	}
	for _, p := range below {
		if w.dirs >= w.max || w.size+len(p) > maxPending {
			w.truncated, w.stop = true, true
			break
		}
		w.dirs++
		w.size += len(p)
		w.pending = append(w.pending, p)
	}
	if len(below) > 0 || w.busy == 0 || w.stop {
		w.wake.Broadcast()
	}
}

// add records a place.
func (w *walker) add(path string, bare bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.found) >= maxFound {
		w.truncated, w.stop = true, true
		return
	}
	if len(w.found) == 0 && w.first != nil {
		w.first()
	}
	w.found = append(w.found, place{path, bare})
}

// note appends path to one of the lists of w, up to a limit.
func (w *walker) note(list *[]string, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*list) < maxFound {
		*list = append(*list, path)
	}
}

// readDir reads the directory at path and returns the directories in it,
// appended to below. buf is space to read with.
func (w *walker) readDir(ctx context.Context, path string, buf []byte, below []string) ([]string, error) {
	// The path is opened from the root: holding a descriptor for each pending directory
	// would cost more than the kernel's walk of cached names.
	fd, err := beneath.Open(w.root, path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return below, err
	}
	defer unix.Close(fd)
	d := dir{walker: w, fd: fd, prefix: path + "/", below: below}
	if path == "." {
		d.prefix = ""
	}
	if err := d.read(ctx, buf); err != nil {
		return d.below, err
	}
	if d.marked {
		w.note(&w.marked, path)
	}
	if w.dir != nil && w.dir(path) {
		w.note(&w.folders, path)
	}
	if (path == ".git" || strings.HasSuffix(path, "/.git")) && slices.Contains(d.git, "HEAD") {
		return below[:0], nil
	}
	// The walk enters what looks like a bare repository: its names must not hide
	// repositories in it.
	switch {
	case gitguard.Complete(func(name string) bool { return slices.Contains(d.git, name) }):
		w.add(path, true)
	case strings.HasSuffix(path, ".git") && path != ".git" && !strings.HasSuffix(path, "/.git"):
		w.note(&w.notGit, path)
	}
	return d.below, nil
}

// A dir is a directory that is being read.
type dir struct {
	*walker
	fd     int
	prefix string   // of the paths of its entries
	below  []string // directories in it
	git    []string // entries that make it a git directory
	marked bool
}

// entry records an entry of type typ, a DT_ constant.
func (d *dir) entry(name []byte, typ uint8) {
	if gitguard.Essential(string(name)) {
		d.git = append(d.git, string(name))
	}
	d.marked = d.marked || d.marks[string(name)]
	path := func() string { return d.prefix + string(name) } // most files need none
	if string(name) == ".git" && (typ == unix.DT_DIR || typ == unix.DT_REG || typ == unix.DT_LNK) {
		// Whatever is in it, and whether or not it can be read: a sandbox could remove
		// HEAD or a permission, change the hooks the next time, and restore it.
		d.add(path(), false)
	}
	switch typ {
	case unix.DT_DIR:
		d.below = append(d.below, path())
	case unix.DT_REG:
		if d.files.Load() > 0 {
			d.countLinks(d.fd, string(name))
		}
		if d.names[gitconfig.Lower(string(name))] {
			d.note(&d.named, path())
		}
	case unix.DT_LNK:
		if d.link != nil && d.link(path()) {
			d.note(&d.linked, path())
		}
	}
}

// read calls d.entry with each entry. buf is space to read with.
func (d *dir) read(ctx context.Context, buf []byte) error {
	return dirents.Each(d.fd, buf, func(name []byte, typ uint8) error {
		d.entry(name, typ)
		return ctx.Err()
	})
}
