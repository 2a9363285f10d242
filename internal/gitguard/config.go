package gitguard

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"wolffia/internal/gitconfig"
)

// A Change is a change of a git configuration by a sandbox.
type Change struct {
	File string // path of the configuration from the root of the tree
	Old  string // "" if it does not exist
	New  string

	// Fresh is set if the git directory was created in this sandbox's life: then what clone
	// and init write is allowed.
	Fresh bool

	// Root is the path of the root of the tree, inside and on the host; "": they differ, or are unknown, so that no
	// remote may have an absolute path.
	Root string

	// Linked is set if the repository may have other working trees than the directory that its git directory is in:
	// relative paths of remotes mean something else there.
	Linked bool
}

// Check returns the reason to refuse the change, nil to allow it. A change may add, change and
// remove settings that name no program, path, include, hook, filter or URL rewriting. All
// others keep their values and order. Existing addresses stay too.
func (c *Change) Check() error {
	if strings.ContainsFunc(c.New, func(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r == 0x7f }) {
		return errors.New("the new configuration has control characters")
	}
	was, err := gitconfig.Parse(c.Old)
	if err != nil {
		return fmt.Errorf("the present configuration: %w", err)
	}
	is, err := gitconfig.Parse(c.New)
	if err != nil {
		return fmt.Errorf("the new configuration: %w", err)
	}
	j := judge{change: c, old: map[string]bool{}, remotes: map[string]bool{}}
	for _, s := range was {
		j.old[s.Name] = true
	}
	for _, s := range is {
		if sub, ok := s.Sub(); ok && s.Name == "remote."+sub+".url" {
			j.remotes[sub] = true
		}
	}
	isFree := func(s gitconfig.Setting) bool { return j.free(&s) }
	kept, lost := slices.DeleteFunc(is, isFree), slices.DeleteFunc(was, isFree) // these must not be added, changed or removed
	if slices.Equal(kept, lost) {
		return nil
	}
	for i, s := range kept {
		if i >= len(lost) || s != lost[i] {
			if slices.Contains(lost, s) {
				break
			}
			if where, isPath := RemotePath(&s); isPath {
				if err := c.local(where); err != nil {
					return fmt.Errorf("%s: %w", s.Name, err)
				}
			}
			return fmt.Errorf("%s cannot be set to %q inside: git on the host would use that", s.Name, s.Value)
		}
	}
	for _, s := range lost {
		if !slices.Contains(kept, s) {
			return fmt.Errorf("%s cannot be changed or removed inside", s.Name)
		}
	}
	return errors.New("the order of settings cannot be changed inside")
}

// A judge decides about the settings of one change.
type judge struct {
	change  *Change
	old     map[string]bool // names of the old settings
	remotes map[string]bool // names of the new remotes
}

// free reports whether s may be added, changed and removed.
func (j *judge) free(s *gitconfig.Setting) bool {
	sub, hasSub := s.Sub()
	name := s.Name
	if hasSub {
		if sub == "" || hasControl(sub) {
			return false
		}
		name = s.Section() + ".*." + s.Key()
	}
	value := s.Value
	if name == "branch.*.description" { // git branch --edit-description ends it with a line end
		value = strings.ReplaceAll(value, "\n", "")
	}
	if hasControl(value) {
		return false
	}
	valid := free[name]
	if valid == nil && j.change.Fresh {
		valid = fresh[name]
	}
	if valid != nil {
		return valid(s)
	}
	if path.Base(j.change.File) == "config.worktree" && s.Section() != "core" {
		return false // git adds it to what config has: another address of a remote, to which it pushes too
	}
	switch name {
	case "branch.*.remote":
		return s.Value == "." || j.remotes[s.Value]
	case "remote.*.url", "remote.*.pushurl", "remote.*.fetch", "remote.*.tagopt", "remote.*.prune", "remote.*.gh-resolved":
		return plainName(sub) && j.remote(s, sub)
	case "submodule.*.url":
		return j.adds(s.Name) && j.address(s)
	case "core.worktree":
		_, err := moduleTree(j.change.File, s.Value)
		return j.change.Fresh && err == nil
	}
	return false
}

// adds reports whether the old configuration has no settings of these names, or is Fresh.
func (j *judge) adds(names ...string) bool {
	return j.change.Fresh || !slices.ContainsFunc(names, func(name string) bool { return j.old[name] })
}

// remote reports whether a setting of the remote name is harmless. An address is, if the remote
// had none.
func (j *judge) remote(s *gitconfig.Setting, name string) bool {
	switch s.Key() {
	case "url", "pushurl":
		return j.adds("remote."+name+".url", "remote."+name+".pushurl") && j.address(s)
	case "fetch":
		_, to, ok := strings.Cut(strings.TrimPrefix(s.Value, "+"), ":")
		return ok && j.adds(s.Name) && (strings.HasPrefix(to, "refs/remotes/"+name+"/") || strings.HasPrefix(to, "refs/tags/") || j.change.Fresh && strings.HasPrefix(to, "refs/"))
	case "tagopt":
		return s.Value == "--no-tags" || s.Value == "--tags"
	case "prune":
		return boolean(s)
	}
	return s.Value == "base" // gh-resolved
}

// address reports whether an address is harmless: it starts no helper, and a path is in the tree.
func (j *judge) address(s *gitconfig.Setting) bool {
	where, isPath := pathOf(s.Value)
	return address(s) && (!isPath || j.change.local(where) == nil)
}

// local returns the reason to refuse a path as that of a remote: git on the host would run the hooks of that repository
// at a push, and bring what it has into the codebase at a fetch.
func (c *Change) local(where string) error {
	if strings.ContainsRune(where, '%') {
		return fmt.Errorf("%q: git may decode the %% in it", where)
	}
	if _, err := localWay(topOf(c.File), c.Root, where); err != nil {
		return fmt.Errorf("%w: git on the host would run the hooks of a repository there, and show the sandbox what it has", err)
	}
	if c.Linked && !strings.HasPrefix(where, "/") && !anyTop(where) {
		return fmt.Errorf("%q means something else in another working tree of the repository: use an absolute path", where)
	}
	return nil
}

// plainName reports whether git takes the name of a remote for a name, not a path or address.
func plainName(name string) bool {
	return name != "" && name[0] != '-' && name[0] != '.' && name[0] != '/' && !strings.Contains(name, "..") &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`:?*[\~^@{`, r) })
}

// moduleTree is below for value, which is relative to the git directory of a submodule and
// must be a directory in the working tree of the repository that has the submodule; gitsubmodules(7). A linked working
// tree can be anywhere in the tree.
func moduleTree(file, value string) ([]string, error) {
	dir := path.Dir(file)
	top, in, _ := strings.Cut("/"+dir, "/.git/")
	if names := strings.SplitN(in, "/", 4); len(names) == 4 && names[0] == "worktrees" && names[2] == "modules" {
		top = ""
	} else if names[0] != "modules" {
		return nil, errors.New("it is not the git directory of a submodule")
	}
	if strings.HasPrefix(value, "/") {
		return nil, errors.New("it must be a relative path")
	}
	ways, err := below(dir, "", value)
	if err != nil {
		return nil, err
	}
	rest, ok := strings.CutPrefix("/"+last(ways), top+"/")
	if !ok || rest == "" || slices.ContainsFunc(strings.Split(rest, "/"), func(s string) bool { return strings.HasSuffix(s, ".git") }) {
		return nil, fmt.Errorf("%q is not a directory in the working tree that has the submodule", value)
	}
	return ways, nil
}
