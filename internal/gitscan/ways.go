package gitscan

import (
	"path/filepath"
	"strings"
)

// leads records the way on which git follows target, which is in file and relative to dir: no link may come there. A relative
// target that does not begin with a git directory leads elsewhere if file moves.
func (r *reader) leads(file, dir, target string) {
	if strings.IndexByte(target, 0) >= 0 {
		return
	}
	path := absolute(dir, target)
	for i := range path {
		if way := path[:i]; way != dir && strings.HasPrefix(path[i:], "/../") && !strings.HasSuffix(way, "/..") {
			r.way(way)
		}
	}
	r.way(path)
	if filepath.IsAbs(target) {
		return
	}
	for name := range strings.SplitSeq(target, "/") {
		if name == "" || name == "." || name == ".." {
			continue
		}
		if !strings.HasSuffix(name, gitSuffix) {
			r.anchor(file)
		}
		return
	}
}

const gitSuffix = ".git" // of names that a sandbox can give no link

// anchor records the first git directory, or file named .git, on the way to file: a rule for it keeps the directories above
// where they are.
func (r *reader) anchor(file string) {
	rel, ok := relative(r.root, file)
	names := strings.Split(rel, "/")
	for i, name := range names {
		if ok && i > 0 && strings.HasSuffix(name, gitSuffix) { // the root does not move
			r.put(&r.ways, strings.Join(names[:i+1], "/"))
			return
		}
	}
}

// way records where a path leads, as far as it leads over names that could be links: those that end in .git, and what is below
// them, cannot be links that a sandbox has made.
func (r *reader) way(path string) {
	real, ok := r.reach(path)
	rel, below := relative(r.root, real)
	if !ok || !below || rel == "." {
		return
	}
	names := strings.Split(rel, "/")
	for i, name := range names {
		if strings.HasSuffix(name, gitSuffix) {
			names = names[:i]
			break
		}
	}
	if len(names) > 0 {
		r.put(&r.ways, strings.Join(names, "/"))
	}
}

// alternates records the ways to the other directories that a directory of objects has; gitrepository-layout(5).
func (r *reader) alternates(objects string) {
	file := filepath.Join(objects, "info/alternates")
	text, err := readRegular(file)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			r.leads(file, objects, line)
		}
	}
}
