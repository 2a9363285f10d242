package gitscan

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"wolffia/internal/beneath"
	"wolffia/internal/gitconfig"
)

const (
	walkers = 4 // goroutines; with a warm cache two cores are enough to feed

	// maxPending bounds the bytes of the paths that wait to be read, which a
	// hostile tree can make long and many.
	maxPending = 64 << 20
	maxFound   = 10_000 // repositories, and directories skipped
)

// A place is a git directory, or something named .git, that the walk found.
type place struct {
	path string // relative to the root
	kind kind
}

// A kind of place.
type kind uint8

const (
	gitDir  kind = iota // a directory named .git
	bareDir             // a bare repository
	gitFile             // a file named .git
	gitLink             // a symbolic link named .git
)

// A walker reads the directories of a tree. Its goroutines share the stack of
// those still to be read.
type walker struct {
	root  int // descriptor of the root
	max   int
	names map[string]bool // files to look for
	marks map[string]bool // entries whose directories to look for
	link  func(path string) bool
	files atomic.Int64 // how many may still be looked at

	mu        sync.Mutex
	wake      sync.Cond       // signals more pending, or the end
	pending   []string        // guarded by mu
	size      int             // bytes in pending; guarded by mu
	busy      int             // goroutines reading a directory; guarded by mu
	dirs      int             // read or pending; guarded by mu
	stop      bool            // guarded by mu
	found     []place         // guarded by mu
	named     []string        // files that were looked for; guarded by mu
	marked    []string        // directories with a mark; guarded by mu
	linked    []string        // links that were looked for; guarded by mu
	skipped   []string        // of another mount; guarded by mu
	unread    []string        // guarded by mu
	links     map[inode]tally // of files with several; guarded by mu
	truncated bool            // guarded by mu
	err       error           // guarded by mu
}

// walk reads the tree at root.
func walk(ctx context.Context, root string, opts *Options) (*walker, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	w := &walker{root: fd, max: opts.MaxDirs, names: map[string]bool{}, marks: map[string]bool{}, link: opts.Link, pending: []string{"."}, size: 1, dirs: 1}
	w.wake.L = &w.mu
	w.files.Store(int64(opts.Files))
	for _, name := range opts.Names {
		w.names[name] = true
	}
	for _, name := range opts.Marks {
		w.marks[name] = true
	}
	var wg sync.WaitGroup
	for range walkers {
		// Ends when nothing is pending and nobody is busy, or with ctx.
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
	return w, w.err
}

// run reads pending directories until there are none and will be none.
func (w *walker) run(ctx context.Context) {
	buf := make([]byte, 32<<10)
	var below []string
	for {
		path, ok := w.next()
		if !ok {
			return
		}
		var err error
		below, err = w.readDir(ctx, path, buf, below[:0])
		w.done(path, below, err)
	}
}

// next takes a directory off the stack, waiting for one if others may still
// find some.
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

// done records what reading a directory gave.
func (w *walker) done(path string, below []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), err != nil && path == ".":
		w.err, w.stop = err, true
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		// It is gone, or became something else.
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
func (w *walker) add(path string, k kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.found) >= maxFound {
		w.truncated, w.stop = true, true
		return
	}
	w.found = append(w.found, place{path, k})
}

// note records in list what was looked for. What is beyond the limit is left
// out.
func (w *walker) note(list *[]string, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*list) < maxFound {
		*list = append(*list, path)
	}
}

// The names that make a directory a repository.
const (
	hasHead = 1 << iota
	hasObjects
	hasRefs
	hasCommonDir
)

var repoNames = map[string]int{"HEAD": hasHead, "objects": hasObjects, "refs": hasRefs, "commondir": hasCommonDir}

// readDir reads the directory at path and returns the directories in it,
// appended to below. buf is space to read with.
func (w *walker) readDir(ctx context.Context, path string, buf []byte, below []string) ([]string, error) {
	// Neither a link nor a mount on the way, whatever happens meanwhile. The
	// path is opened from the root: holding a descriptor for each directory
	// that is pending would cost more than the kernel's walk of cached names.
	fd, err := beneath.Open(w.root, path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return below, err
	}
	defer unix.Close(fd)
	prefix := path + "/"
	if path == "." {
		prefix = ""
	}
	has, marked := 0, false
	for {
		if err := ctx.Err(); err != nil {
			return below, err
		}
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR { // FUSE and NFS
			continue
		}
		if err != nil {
			return below, err
		}
		if n <= 0 {
			break
		}
		for rest := buf[:n]; len(rest) > 0; {
			var name []byte
			var typ uint8
			name, typ, rest = entry(rest)
			if name == nil {
				return below, fmt.Errorf("directory entries: %w", unix.EIO)
			}
			if typ == unix.DT_UNKNOWN {
				typ = statType(fd, name)
			}
			has |= repoNames[string(name)]
			marked = marked || w.marks[string(name)]
			if typ == unix.DT_LNK && w.link != nil && w.link(prefix+string(name)) {
				w.note(&w.linked, prefix+string(name))
			}
			if typ == unix.DT_REG && w.files.Load() > 0 {
				w.look(fd, name)
			}
			isGit := string(name) == ".git"
			switch {
			case typ == unix.DT_DIR && string(name) != "." && string(name) != "..":
				below = append(below, prefix+string(name))
				if isGit {
					// Whatever is in it, and whether or not it can be read: a sandbox that
					// takes HEAD or a permission away must not find the hooks unguarded
					// the next time, and put it back.
					w.add(prefix+".git", gitDir)
				}
			case typ == unix.DT_REG && w.names[gitconfig.Lower(string(name))]:
				w.note(&w.named, prefix+string(name))
			case isGit && typ == unix.DT_REG:
				w.add(prefix+".git", gitFile)
			case isGit && typ == unix.DT_LNK:
				w.add(prefix+".git", gitLink)
			}
		}
	}
	if marked {
		w.note(&w.marked, path)
	}
	if (path == ".git" || strings.HasSuffix(path, "/.git")) && has&hasHead != 0 {
		return below[:0], nil
	}
	// Below what looks like a bare repository the walk goes on: names must not
	// hide the repositories next to them.
	if has&(hasHead|hasCommonDir) == hasHead|hasCommonDir || has&(hasObjects|hasRefs) == hasObjects|hasRefs {
		w.add(path, bareDir)
	}
	return below, nil
}

// entry splits the first entry off a buffer of getdents64(2); a nil name means
// that it is malformed.
func entry(b []byte) (name []byte, typ uint8, rest []byte) {
	const (
		reclen = int(unsafe.Offsetof(unix.Dirent{}.Reclen))
		kind   = int(unsafe.Offsetof(unix.Dirent{}.Type))
		start  = int(unsafe.Offsetof(unix.Dirent{}.Name))
	)
	if len(b) <= start {
		return nil, 0, nil
	}
	n := int(binary.NativeEndian.Uint16(b[reclen:]))
	if n <= start || n > len(b) {
		return nil, 0, nil
	}
	name = b[start:n]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	return name, b[kind], b[n:]
}

// statType is the type of a name for file systems whose directories do not
// tell it.
func statType(dir int, name []byte) uint8 {
	var st unix.Stat_t
	if unix.Fstatat(dir, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_UNKNOWN
	}
	return uint8(st.Mode & unix.S_IFMT >> 12) // DT_x is S_IFx >> 12, see readdir(3)
}
