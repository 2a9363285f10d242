package session

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// Bounds of an answer to SessionLeft: the names that it looks at, and the paths that it tells.
const (
	maxLeftNames = 5000
	maxLeftPaths = 20
)

// A leftWalk looks for files in a directory that ends with the sandbox.
type leftWalk struct {
	device uint64
	names  int // how many more it may look at
	found  []wire.LeftPath
}

// left returns what is in home and not kept: files and, for a directory that was made, how many
// files it has. It leaves out names at the top that begin with a dot, and Go's directory, where
// tools keep what they make again; and all if home is not a tmpfs, so is from an image or kept.
// What it cannot read is left out.
func left(home string) []wire.LeftPath {
	var is unix.Statfs_t
	var st, above unix.Stat_t
	if unix.Statfs(home, &is) != nil || is.Type != unix.TMPFS_MAGIC || unix.Lstat(home, &st) != nil {
		return nil
	}
	if unix.Lstat(filepath.Dir(home), &above) != nil || above.Dev == st.Dev {
		return nil // a directory of a tmpfs that has more
	}
	w := &leftWalk{device: st.Dev, names: maxLeftNames}
	w.list(home, func(name string) bool { return strings.HasPrefix(name, ".") || name == "go" })
	slices.SortFunc(w.found, func(a, b wire.LeftPath) int { return cmp.Compare(a.Path, b.Path) })
	return w.found[:min(len(w.found), maxLeftPaths)]
}

// list tells what is in a directory that is a parent of mounts, or home itself.
func (w *leftWalk) list(dir string, skip func(name string) bool) {
	for _, e := range w.read(dir) {
		path := filepath.Join(dir, e.Name())
		switch {
		case skip(e.Name()):
		case !e.IsDir():
			w.found = append(w.found, wire.LeftPath{Path: wire.Path(path), Files: 1})
		default:
			files, mounts := w.count(path)
			switch {
			case mounts:
				w.list(path, func(string) bool { return false })
			case files > 0:
				w.found = append(w.found, wire.LeftPath{Path: wire.Path(path), Files: files, Dir: true, Worktree: isWorktree(path)})
			}
		}
	}
}

// isWorktree reports whether a directory is a linked working tree.
func isWorktree(dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(dir, ".git"), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// count counts the files below a directory, and reports whether something is mounted there.
func (w *leftWalk) count(dir string) (files int, mounts bool) {
	var st unix.Stat_t
	if unix.Lstat(dir, &st) != nil || st.Dev != w.device {
		return 0, true
	}
	for _, e := range w.read(dir) {
		if !e.IsDir() {
			files++
			continue
		}
		n, m := w.count(filepath.Join(dir, e.Name()))
		files, mounts = files+n, mounts || m
	}
	return files, mounts
}

// read returns the entries of a directory; none if that is mounted, cannot be read, or too many
// were looked at.
func (w *leftWalk) read(dir string) []fs.DirEntry {
	var st unix.Stat_t
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Dev != w.device || w.names == 0 {
		return nil
	}
	all, err := f.ReadDir(w.names)
	if err != nil { // also io.EOF: it is empty
		return nil
	}
	w.names -= len(all)
	return all
}
