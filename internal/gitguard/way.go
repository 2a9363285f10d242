package gitguard

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"wolffia/internal/gitconfig"
)

// Ways returns the paths, from the root of the tree, at which git on the host looks because of text, the content of file: of
// a git directory, the working tree of a submodule, other objects, or a remote. Paths that Content and Check refuse are
// left out. The last path in a file named .git is the git directory. Names on a way that are links would lead elsewhere than what these have checked; names that end in .git, and
// what is below them, cannot be links that a sandbox has made. root is that of Content.
func Ways(file, root, text string) (ways []string) {
	add := func(more []string, err error) {
		if err == nil {
			ways = append(ways, more...)
		}
	}
	switch PartOf(file) {
	case Link:
		if target, ok := strings.CutPrefix(strings.TrimRight(text, "\n"), "gitdir: "); ok {
			add(below(path.Dir(file), root, target))
		}
	case Alternates:
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
				add(below(path.Dir(path.Dir(file)), root, line))
			}
		}
	case Config, OwnConfig:
		settings, _ := gitconfig.Parse(text)
		for i := range settings {
			s := &settings[i]
			if s.Name == "core.worktree" {
				add(moduleTree(file, s.Value))
			} else if where, isPath := RemotePath(s); isPath {
				add(localWay(topOf(file), root, where))
			}
		}
	}
	return ways
}

// Tracks returns the directories above a git directory, and itself, in which a working tree could have that directory, or a link on the way
// to it, in a commit: file, which leads to it, would stay when git on the host checks that out. Nothing that is below a name .git
// can be in a commit; and what takes the place of a directory takes along the files in it, so that there is none if the first .git is
// in a directory that file is in too.
func Tracks(file, dir string) (tops []string) {
	names := strings.Split(dir, "/")
	end := slices.Index(names, ".git") // its directory is not above a name that a commit can have
	if end < 0 {
		end = len(names) + 1
	} else if top := strings.Join(names[:end], "/"); end == 0 || strings.HasPrefix(file, top+"/") {
		return nil
	}
	for i := range end {
		tops = append(tops, strings.Join(names[:i], "/"))
	}
	return tops
}

// Worktree returns the working trees that text, the configuration file of a git directory, names by core.worktree, as paths from the root
// of the tree. The error says that one is not in it.
func Worktree(file, text string) (tops []string, err error) {
	settings, _ := gitconfig.Parse(text)
	for _, s := range settings {
		if s.Name != "core.worktree" {
			continue
		}
		if strings.HasPrefix(s.Value, "/") {
			return nil, fmt.Errorf("core.worktree is %q: it must be a relative path", s.Value)
		}
		ways, err := below(path.Dir(file), "", s.Value)
		if err != nil {
			return nil, fmt.Errorf("core.worktree: %w", err)
		}
		tops = append(tops, last(ways))
	}
	return tops, nil
}

// RemoteWays returns the paths, from the root of the tree, of the remotes in text, the configuration file of a repository, that
// have relative paths, for another working tree of it: git takes them relative to that, which is top. The error names a
// remote that would lead out of the tree there, and does not otherwise.
func RemoteWays(file, top, text string) (ways []string, err error) {
	settings, _ := gitconfig.Parse(text)
	for i := range settings {
		where, isPath := RemotePath(&settings[i])
		if !isPath || where == "" || where[0] == '/' || where[0] == '~' {
			continue
		}
		more, err := localWay(top, "", where)
		if err == nil {
			ways = append(ways, more...)
		} else if _, outside := localWay(topOf(file), "", where); outside == nil {
			return nil, fmt.Errorf("%s of the repository: %w", settings[i].Name, err)
		}
	}
	return ways, nil
}

// Remotes returns where the remotes in text, the configuration file of a repository, are, as paths from the root of the tree.
// Those on the network, and paths that Check refuses, are left out.
func Remotes(file, root, text string) (dirs []string) {
	settings, _ := gitconfig.Parse(text)
	for i := range settings {
		where, isPath := RemotePath(&settings[i])
		if !isPath || settings[i].Section() != "remote" {
			continue
		}
		if ways, err := localWay(topOf(file), root, where); err == nil {
			dirs = append(dirs, last(ways))
		}
	}
	return dirs
}

// RemotePath returns the path in the address of a remote or a submodule; isPath is false if s is none, or its address is
// no path.
func RemotePath(s *gitconfig.Setting) (where string, isPath bool) {
	if section := s.Section(); section != "remote" && section != "submodule" || s.Key() != "url" && s.Key() != "pushurl" {
		return "", false
	}
	return pathOf(s.Value)
}

// pathOf returns the path in an address that git takes for one: connect.c, url_is_local_not_ssh.
func pathOf(address string) (where string, isPath bool) {
	if where, isFile := strings.CutPrefix(address, "file://"); isFile {
		if !strings.HasPrefix(where, "/") {
			where = "" // git takes file://x/y for /y
		}
		return where, true
	}
	colon, slash := strings.IndexByte(address, ':'), strings.IndexByte(address, '/')
	return address, colon < 0 || slash >= 0 && slash < colon
}

// topOf returns the working tree of the repository with the configuration file, relative to the root of the tree; "" if
// file does not tell.
func topOf(file string) string {
	if dir := path.Dir(file); path.Base(dir) == ".git" {
		return path.Dir(dir)
	}
	return ""
}

// localWay is below for a repository on this host, as a remote's address names it. top is the working tree that it is relative
// to; "": it must be absolute.
func localWay(top, root, where string) ([]string, error) {
	switch {
	case where == "":
		return nil, errors.New("the address has no path")
	case where[0] == '/':
		top = "."
	case top == "":
		return nil, errors.New("a path of a remote must be absolute here")
	case where[0] == '~':
		return nil, fmt.Errorf("%q is outside of the codebase", where)
	}
	return below(top, root, where)
}

// anyTop reports whether a relative path leads to the codebase, over no link, from each working tree below its root: to a
// name that ends in .git beside the working tree or in it.
func anyTop(where string) bool {
	names := strings.Split(strings.TrimPrefix(strings.TrimPrefix(where, "./"), "../"), "/")
	return strings.HasSuffix(names[0], ".git") && !slices.Contains(names, "..")
}

// below returns where target leads, found in a file of the directory dir: paths from the root of the tree, the last of them the
// target itself, those before it directories on the way that a .. leaves again. None may be a link.
func below(dir, root, target string) (ways []string, err error) {
	rest := target
	if strings.HasPrefix(target, "/") {
		var ok bool
		if rest, ok = strings.CutPrefix(target+"/", strings.TrimSuffix(root, "/")+"/"); !ok || root == "" {
			return nil, fmt.Errorf("%q is outside of the codebase", target)
		}
		dir = "."
	}
	if hasControl(rest) {
		return nil, fmt.Errorf("%q has control characters", target)
	}
	names, down := []string{}, false
	if dir != "." {
		names = strings.Split(dir, "/")
	}
	for name := range strings.SplitSeq(rest, "/") {
		switch name {
		case "", ".":
		case "..":
			if len(names) == 0 {
				return nil, fmt.Errorf("%q leads out of the codebase", target)
			}
			if down {
				ways, down = append(ways, strings.Join(names, "/")), false
			}
			names = names[:len(names)-1]
		default:
			names, down = append(names, name), true
		}
	}
	return append(ways, strings.Join(names, "/")), nil
}

// last returns the target of what below returns; "" if that is an error.
func last(ways []string) string {
	if len(ways) == 0 {
		return ""
	}
	return ways[len(ways)-1]
}
