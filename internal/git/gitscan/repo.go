package gitscan

import (
	"os"
	"path/filepath"
	"strings"
)

const (
	maxPaths = 10_000   // in each result
	maxRead  = 64 << 20 // bytes of configuration read in one scan
	maxDepth = 10       // of includes, as in git
)

// A reader collects what the repositories of one scan point to.
type reader struct {
	root string // resolved
	home string

	dirs, links, outside, later set

	tops        []string // of working trees, absolute
	trees       []Tree
	credentials []Credential

	bytes     int // read so far
	truncated bool
}

// enclosing reads the repository that root is a part of, if any.
func (r *reader) enclosing() {
	for dir := r.root; dir != "/"; {
		dir = filepath.Dir(dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			r.open(filepath.Join(dir, ".git"))
			return
		}
	}
}

// open reads the repository of the .git at path, a directory, file or link.
func (r *reader) open(path string) {
	top := filepath.Dir(path)
	info, err := os.Stat(path)
	switch {
	case err != nil || info.IsDir():
		r.repository(path, top)
	case info.Mode().IsRegular():
		if rel, ok := relative(r.root, path); ok {
			r.put(&r.links, rel)
		}
		r.reach(path)
		if target, ok := pathIn(path, "gitdir: "); ok {
			r.repository(absolute(top, target), top)
		}
	}
}

// pathIn returns the path after prefix in a file that points to a git directory;
// gitrepository-layout(5).
func pathIn(file, prefix string) (path string, ok bool) {
	text, err := readRegular(file)
	path, ok = strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), prefix)
	return path, err == nil && ok && path != "" && strings.IndexByte(path, 0) < 0
}

// common returns the directory with the configuration of a git directory: dir itself,
// or for a linked worktree the repository's.
func common(dir string) string {
	if target, ok := pathIn(filepath.Join(dir, "commondir"), ""); ok {
		return absolute(dir, target)
	}
	return dir
}

// absolute returns path, taken relative to dir. It is not cleaned, since x/.. leads
// elsewhere if x is a link.
func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

// repository reads the repository with the git directory dir and the working tree at
// top.
func (r *reader) repository(dir, top string) {
	dir, ok := r.reach(dir)
	if !ok {
		return
	}
	shared, ok := r.reach(common(dir))
	if !ok {
		return
	}
	for _, d := range []string{dir, shared} {
		if rel, ok := relative(r.root, d); ok {
			r.put(&r.dirs, rel)
		}
	}
	c := config{reader: r, dir: dir, tops: []string{top}, seen: set{}}
	for _, file := range []string{filepath.Join(shared, "config"), filepath.Join(dir, "config.worktree")} {
		r.target(file)
		c.read(file, 0)
	}
	r.tops = append(r.tops, c.tops...)
	if top != dir {
		r.tree(dir, shared, c.tops)
	}
	r.alternates(filepath.Join(shared, "objects"))
	r.target(filepath.Join(shared, "hooks"))
	r.hooks(filepath.Join(shared, "hooks"))
}

// tree records the working tree of a repository, at the first of tops. It does nothing
// if the others, which come from core.worktree, are elsewhere.
func (r *reader) tree(dir, shared string, tops []string) {
	top, _, ok := resolve(tops[0])
	for _, t := range tops[1:] {
		other, _, found := resolve(t)
		ok = ok && found && other == top
	}
	rel, below := relative(r.root, top)
	switch {
	case !ok || !below:
	case len(r.trees) >= maxPaths:
		r.truncated = true
	default:
		r.trees = append(r.trees, Tree{Top: rel, Dir: dir, Common: shared})
	}
}

// hooks records where the links in a directory of hooks lead.
func (r *reader) hooks(dir string) {
	dir, _ = r.reach(dir)
	f, err := os.Open(dir + "/.") // only a directory
	if err != nil {
		return
	}
	defer f.Close()
	entries, _ := f.ReadDir(1000) // as far as it can be read
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			r.target(filepath.Join(dir, e.Name()))
		}
	}
}

// alternates records the other directories that a directory of objects has;
// gitrepository-layout(5). git trusts the objects in them.
func (r *reader) alternates(objects string) {
	text, _ := readRegular(filepath.Join(objects, "info/alternates"))
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			r.runs(absolute(objects, line))
		}
	}
}

// target records the target of path if that is a link. Its directory is resolved.
func (r *reader) target(path string) {
	real, ok := r.reach(path)
	if ok && real != filepath.Clean(path) {
		r.runs(real)
	}
}

// runs records a path that git executes or includes, if it is at or below root.
func (r *reader) runs(path string) {
	real, ok := r.reach(path)
	if !ok {
		return
	}
	if rel, ok := relative(r.root, real); ok {
		r.put(&r.outside, rel)
	}
}

// reach resolves a path and records the links below root that it followed.
func (r *reader) reach(path string) (real string, ok bool) {
	real, links, ok := resolve(path)
	for _, link := range links {
		if rel, below := relative(r.root, link); below {
			r.put(&r.links, rel)
		}
	}
	return real, ok
}

// put adds path to a result, up to maxPaths.
func (r *reader) put(s *set, path string) {
	if len(*s) >= maxPaths {
		r.truncated = true
		return
	}
	s.add(path)
}
