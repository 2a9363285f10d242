package gituser

import (
	"path/filepath"
	"strings"
)

// conditions returns conditions of includes that git inside evaluates: one of them holds inside if
// the condition of an include in a file holds on the host. The condition itself comes first, with
// the paths of the host in it.
func (r *reader) conditions(condition, file string) []string {
	keyword, pattern, _ := strings.Cut(condition, ":")
	if keyword != "gitdir" && keyword != "gitdir/i" || pattern == "" {
		return []string{condition}
	}
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		pattern = literal(real(r.home)) + "/" + rest
	} else if rest, ok := strings.CutPrefix(pattern, "./"); ok {
		pattern = literal(filepath.Dir(real(file))) + "/" + rest
	}
	all := []string{keyword + ":" + pattern}
	for _, name := range r.place.Names {
		switch inside := r.place.Inside; {
		case holds(keyword, pattern, name+"/x/.git") && !holds(keyword, pattern, inside+"/x/.git"):
			return append(all, "gitdir:"+literal(inside)+"/")
		case holds(keyword, pattern, name+"/.git") && !holds(keyword, pattern, inside+"/.git"):
			return append(all, "gitdir:"+literal(inside)+"/.git", "gitdir:"+literal(inside)+"/.git/**")
		}
	}
	return all
}

// real returns a path without symbolic links, if it exists.
func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

// literal returns a pattern that a path alone matches.
func literal(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// holds reports whether a condition with an absolute path, or the end of one, holds for a git
// directory.
func holds(keyword, pattern, gitdir string) bool {
	if keyword == "gitdir/i" {
		gitdir, pattern = strings.ToLower(gitdir), strings.ToLower(pattern)
	}
	if pattern[0] != '/' {
		pattern = "**/" + pattern
	}
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	return match(strings.Split(pattern, "/"), strings.Split(gitdir, "/"))
}

// match reports whether the parts of a path match those of a pattern, in which ** stands for
// any number of parts.
func match(pattern, path []string) bool {
	if len(pattern) == 0 {
		return len(path) == 0
	}
	if pattern[0] == "**" {
		for i := range len(path) + 1 {
			if match(pattern[1:], path[i:]) {
				return true
			}
		}
		return false
	}
	if len(path) == 0 {
		return false
	}
	ok, err := filepath.Match(strings.ReplaceAll(pattern[0], "[!", "[^"), path[0])
	return ok && err == nil && match(pattern[1:], path[1:])
}
