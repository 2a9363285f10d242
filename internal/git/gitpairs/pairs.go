// Package gitpairs finds the git directories that a sandbox has of its own, with those of the host
// that they are copies of.
//
// It starts no program. The data that the sandbox has written decides only two things: with which
// of the host's git directories, all of them below the codebase or named by a file of the host's,
// a private one is compared, and in which directory programs run inside. Package gitpairs follows
// no link.
package gitpairs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// Bounds of what Find looks at: a sandbox can make any number of directories.
const (
	maxEntries = 200_000
	maxDepth   = 100
	maxFile    = 8192 // bytes of a file that names a git directory
)

// name is that of a git directory, or of a file that leads to one.
const name = ".git"

// A Pair is one git directory on both sides.
type Pair struct {
	// Private is the sandbox's, relative to the store.
	Private string
	// Host is the host's, an absolute path.
	Host string
	// Made is set if the host has no git directory at Host, since the sandbox has made it.
	Made bool
	// Place is the working tree, relative to the codebase: "." is the top. Of a bare repository it
	// is empty.
	Place string
	// Common is, for a linked working tree (git-worktree(1)), Private of the pair whose references
	// it shares; else it is empty.
	Common string
	// Pointer is set if a file .git at Place has to lead to Host, and the host has nothing there.
	Pointer bool
}

// Find returns the pairs of the git directories below store, those of linked working trees first,
// else sorted by Private. codebase is the absolute path of the host's directory without links, and
// mountPoint the path at which the sandbox sees it. The store may be missing. Find may miss
// concurrent changes. ErrInvalid: the store has too many entries.
func Find(store, codebase, mountPoint string) ([]Pair, error) {
	f := &finder{codebase: codebase, mountPoint: mountPoint, places: map[string]string{}}
	for _, open := range []struct {
		path string
		fd   *int
	}{{store, &f.store}, {codebase, &f.host}} {
		fd, err := unix.Open(open.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "%s: %w", open.path, err)
		}
		defer unix.Close(fd)
		*open.fd = fd
	}
	if err := f.walk(".", 0); err != nil {
		return nil, err
	}
	for _, dir := range f.dirs {
		if err := f.add(dir); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(f.pairs, func(a, b Pair) int {
		if (a.Common == "") != (b.Common == "") {
			if a.Common != "" {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Private, b.Private)
	})
	return f.pairs, nil
}

// A finder is one Find.
type finder struct {
	store, host          int // descriptors
	codebase, mountPoint string
	entries              int
	dirs                 []string          // directories that have a git directory in the store
	places               map[string]string // the working tree of a git directory to which a file in the store leads
	pairs                []Pair
}

// walk finds git directories, and files that lead to one, in a directory of the store and below it.
func (f *finder) walk(dir string, depth int) error {
	entries, err := f.list(dir, depth)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Name() != name:
			if e.IsDir() {
				err = f.walk(path.Join(dir, e.Name()), depth+1)
			}
		case e.IsDir():
			f.dirs = append(f.dirs, dir)
		case e.Type().IsRegular():
			if at, ok := f.inside(dir, leadsTo(f.store, path.Join(dir, name))); ok {
				f.places[at] = dir
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list returns the entries of a directory of the store, nil if it was removed.
func (f *finder) list(dir string, depth int) ([]os.DirEntry, error) {
	fd, err := beneath.Open(f.store, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, nil // it was replaced
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close()
	entries, err := d.ReadDir(maxEntries + 1)
	if f.entries += len(entries); f.entries > maxEntries || depth > maxDepth {
		return nil, runtime.Errorf(runtime.ErrInvalid,
			"the sandbox's git directories: more than %d names, or %d levels, are among them", maxEntries, maxDepth)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the sandbox's git directories: %s: %w", dir, err)
	}
	return entries, nil
}

// add adds the pair of the git directory in a directory of the codebase, and those of the
// submodules and linked working trees that it has.
func (f *finder) add(dir string) error {
	private := path.Join(dir, name)
	host, made, known := f.hostOf(dir)
	if !known || made && (!f.isRepository(private) || !f.hasPlace(dir)) {
		return nil
	}
	f.pairs = append(f.pairs, Pair{Private: private, Host: host, Place: dir, Made: made})
	if made {
		return nil // entries below it come after it
	}
	return f.addBelow(private, host, 0)
}

// addBelow adds the entries of modules/ and worktrees/ of a git directory.
func (f *finder) addBelow(private, host string, depth int) error {
	if err := f.addWorktrees(private, host, depth); err != nil {
		return err
	}
	return f.addModules(path.Join(private, "modules"), filepath.Join(host, "modules"), depth)
}

// addModules adds the repositories in a directory of modules/, whose names may have slashes.
func (f *finder) addModules(private, host string, depth int) error {
	entries, err := f.list(private, depth)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		private, host := path.Join(private, e.Name()), filepath.Join(host, e.Name())
		if !f.isRepository(private) {
			err = f.addModules(private, host, depth+1)
		} else if place, known := f.places[private]; known && (f.isHost(host) || f.hasPlace(place)) {
			p := Pair{Private: private, Host: host, Place: place, Made: !f.isHost(host), Pointer: f.lacks(place)}
			if f.pairs = append(f.pairs, p); !p.Made {
				err = f.addBelow(private, host, depth+1)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addWorktrees adds the linked working trees of a git directory that the host has too.
func (f *finder) addWorktrees(private, host string, depth int) error {
	common := private
	private, host = path.Join(private, "worktrees"), filepath.Join(f.repository(host), "worktrees")
	entries, err := f.list(private, depth)
	if err != nil {
		return err
	}
	for _, e := range entries {
		private, host := path.Join(private, e.Name()), filepath.Join(host, e.Name())
		if place, known := f.places[private]; known && e.IsDir() && (f.isHost(host) || f.hasPlace(place)) {
			p := Pair{Private: private, Host: host, Place: place, Common: common, Made: !f.isHost(host), Pointer: f.lacks(place)}
			if f.pairs = append(f.pairs, p); p.Made {
				continue
			}
			if err := f.addModules(path.Join(private, "modules"), filepath.Join(host, "modules"), depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// repository returns the git directory of the repository whose linked working tree has the one at
// an absolute path, else that one.
func (f *finder) repository(host string) string {
	if _, below := f.below(host); below {
		return host // a sandbox that sees a linked working tree as one sees its repository too
	}
	return Common(host)
}

// Common returns the git directory of the repository whose linked working tree has the git
// directory dir, an absolute path of the host; else dir.
func Common(dir string) string {
	b, err := statefile.ReadBytes(filepath.Join(dir, "commondir"), unix.PathMax)
	to := strings.TrimRight(string(b), "\r\n")
	switch {
	case err != nil || to == "":
		return dir
	case filepath.IsAbs(to):
		return filepath.Clean(to)
	}
	return filepath.Join(dir, to)
}

// isRepository reports whether a directory of the store looks like a git directory.
func (f *finder) isRepository(private string) bool {
	return f.is(private, "HEAD", unix.S_IFREG) && f.is(private, "objects", unix.S_IFDIR)
}

// is reports whether a name in a directory of the store has a type.
func (f *finder) is(dir, name string, format uint32) bool {
	fd, err := beneath.Open(f.store, path.Join(dir, name), unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == format
}

// hasPlace reports whether the host has a directory of the codebase, at a path without links.
func (f *finder) hasPlace(dir string) bool {
	fd, err := beneath.Open(f.host, dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// lacks reports whether the host has a directory of the codebase, and nothing called .git there.
func (f *finder) lacks(dir string) bool {
	if !f.hasPlace(dir) {
		return false
	}
	fd, err := beneath.Open(f.host, path.Join(dir, name), unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, fs.ErrNotExist)
}

// isHost reports whether the host has a git directory at an absolute path. Below the codebase,
// where the sandbox can move directories, no link leads there.
func (f *finder) isHost(dir string) bool {
	rel, below := f.below(dir)
	if !below {
		info, err := os.Stat(filepath.Join(dir, "HEAD"))
		return err == nil && info.Mode().IsRegular()
	}
	fd, err := beneath.Open(f.host, path.Join(rel, "HEAD"), unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// hostOf returns the host's git directory for a directory of the codebase; made: the path for a
// new one, since the host has none. known is false if the host's object there is not one that a
// private git directory can be a copy of.
func (f *finder) hostOf(dir string) (host string, made, known bool) {
	at := path.Join(dir, name)
	fd, err := beneath.Open(f.host, at, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Join(f.codebase, at), true, true
	}
	if err != nil {
		return "", false, false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return "", false, false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		host = filepath.Join(f.codebase, at)
		return host, !f.isHost(host), true // it may not be a repository yet
	case unix.S_IFREG:
		to := leadsTo(f.host, at)
		if to == "" {
			return "", false, false
		}
		if !path.IsAbs(to) {
			to = filepath.Join(f.codebase, dir, to)
		}
		if _, below := f.below(to); below {
			return "", false, false // the sandbox has such files too, in place of a directory
		}
		real, err := filepath.EvalSymlinks(to)
		if err != nil {
			return "", false, false
		}
		if _, below := f.below(real); below {
			return "", false, false
		}
		return real, false, f.isHost(real)
	}
	return "", false, false
}

// below returns an absolute path of the host relative to the codebase, if it is in there.
func (f *finder) below(dir string) (rel string, ok bool) {
	rel, err := filepath.Rel(f.codebase, dir)
	return rel, err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// inside returns the place in the store of the git directory to which a file in dir leads.
func (f *finder) inside(dir, to string) (at string, ok bool) {
	if to == "" {
		return "", false
	}
	if path.IsAbs(to) {
		rel, err := filepath.Rel(f.mountPoint, to)
		return rel, err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
	}
	at = path.Join(dir, to)
	return at, at != ".." && !strings.HasPrefix(at, "../")
}

// leadsTo returns where a file called .git leads; empty: nowhere.
func leadsTo(dir int, at string) string {
	text, err := beneath.ReadFile(dir, at, maxFile)
	to, ok := strings.CutPrefix(string(text), "gitdir: ")
	to = strings.TrimRight(to, "\r\n")
	if err != nil || !ok || strings.ContainsRune(to, 0) {
		return ""
	}
	return to
}

// String returns a pair for a message or a test.
func (p Pair) String() string {
	made := ""
	if p.Made {
		made = ", made inside"
	}
	if p.Pointer {
		made += ", without a file"
	}
	return fmt.Sprintf("%s of %s at %s%s", p.Private, p.Host, p.Place, made)
}
