package policy

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitscan"
	"wolffia/internal/sys/dirents"
	"wolffia/perm"
)

// Bounds of the walk of a home for links into the codebase. The names nearest to the top come
// first, so that what is beyond them is deep in the directories of some program.
const (
	maxHome   = 10_000          // names that are read
	homeTime  = 3 * time.Second // the walk reads far less than it could by then, but from a slow disk
	homeDepth = 3               // names in the path of a link, as in .emacs.d/lisp/x.el
	deepDepth = 5               // of one in .config and .local, as in .config/systemd/user/x.wants/y
)

// userHome returns the user's home directory, without links; "" if there is none.
func userHome() string {
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err != nil {
		return ""
	}
	return home
}

// homeIn returns the path of the user's home relative to the codebase at root, "" if it is not in
// it.
func homeIn(root string) string {
	home := userHome()
	if home == root {
		return "."
	}
	rel, _ := strings.CutPrefix(home, strings.TrimSuffix(root, "/")+"/")
	if rel == home {
		return ""
	}
	return rel
}

// homeNames returns rules for what the host executes in a home that is in the codebase at root,
// beside perm.ExecutedRules.
func homeNames(root string) (rules []perm.Rule) {
	home := homeIn(root)
	if home == "" {
		return nil
	}
	for _, name := range perm.HomeNames() {
		rules = append(rules, atMostRead(gitscan.Reach(root, filepath.Join(root, home, name)), executedAs+name)...)
	}
	return rules
}

const executedAs = "what the host executes as ~/"

// homeLinks returns rules for what links below the user's home lead to in the codebase at root:
// programs of the host execute or obey files in a home, whatever their names. It walks the home
// once, within bounds, and without the sandboxes of the state directory.
func homeLinks(root, state string) (rules []perm.Rule) {
	home := userHome()
	if home == "" {
		return nil
	}
	w := homeWalk{home: home, left: maxHome, end: time.Now().Add(homeTime)}
	w.skip, _ = filepath.EvalSymlinks(filepath.Join(state, "sandboxes")) // "" if there are none
	w.walk()
	var paths []string
	for _, link := range w.links {
		led := gitscan.Reach(root, filepath.Join(home, link))
		if len(led) > 0 {
			paths = append(paths, led...)
			rules = append(rules, atMostRead(led, executedAs+link)...)
		}
	}
	if len(paths) > maxLed {
		return someAtMostRead(paths, "what the host executes by way of links in your home")
	}
	return rules
}

// A homeWalk looks for symbolic links below a home.
type homeWalk struct {
	home  string
	left  int // names
	end   time.Time
	links []string // relative to home
	skip  string   // a directory that is not read
}

// walk reads the home, and directories in it by their depth. It follows links to directories, as
// programs do.
func (w *homeWalk) walk() {
	next := []string{""}
	for depth := 1; len(next) > 0; depth++ {
		level := next
		next = nil
		for _, dir := range level {
			if w.left <= 0 || time.Now().After(w.end) {
				return
			}
			next = append(next, w.read(dir, depth)...)
		}
	}
}

// read notes the links in a directory of the home, whose names are at depth, and returns what is to
// be read next.
func (w *homeWalk) read(dir string, depth int) (next []string) {
	eachName(path.Join(w.home, dir), 0, min(w.left, maxNames), func(base []byte, typ uint8) {
		w.left--
		if typ != unix.DT_DIR && typ != unix.DT_LNK {
			return
		}
		name := path.Join(dir, string(base))
		if typ == unix.DT_LNK && (depth > 1 || w.obeyed(name)) {
			w.links = append(w.links, name)
		}
		if deeper(name, depth) && path.Join(w.home, name) != w.skip {
			next = append(next, name)
		}
	})
	return next
}

// obeyed reports whether a link in the home itself counts: not a directory without a dot in front,
// to which people make links to get there, but bin, which is in PATH.
func (w *homeWalk) obeyed(name string) bool {
	if name[0] == '.' || name == "bin" {
		return true
	}
	info, err := os.Stat(filepath.Join(w.home, name))
	return err != nil || !info.IsDir()
}

// deeper reports whether the directory at a path in the home, of that many names, is read.
func deeper(name string, depth int) bool {
	top, _, _ := strings.Cut(name, "/")
	switch top {
	case ".cache":
		return false
	case ".config", ".local":
		return depth < deepDepth
	}
	return (top[0] == '.' || top == "bin") && depth < homeDepth
}

// eachName calls f with the first names in a directory, at most that many, and their types: DT_
// constants. It calls f with none if it cannot be read. flags are more flags of open(2).
func eachName(dir string, flags, most int, f func(name []byte, typ uint8)) {
	fd, err := dirents.Open(dir, flags)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = dirents.Each(fd, make([]byte, 8<<10), func(name []byte, typ uint8) error { // as far as it can be read
		if most--; most < 0 {
			return fs.SkipAll
		}
		f(name, typ)
		return nil
	})
}
