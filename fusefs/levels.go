package fusefs

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"wolffia/fusefs/cow"
	"wolffia/internal/git/gitguard"
	"wolffia/perm"
)

// levels say, by the rules, what may be done with a name.
type levels struct {
	// rulesMu is held for reading while a request is answered, for writing while the
	// rules change.
	rulesMu sync.RWMutex
	rules   Rules  // guarded by rulesMu
	dirSize uint64 // the size that is presented for a directory with entries that may be hidden: see set; guarded by rulesMu
	private bool   // .git is the sandbox's own where the rules let it be written: Options.Git
}

// owns reports whether the entry called name of a directory with the states s is the sandbox's own
// .git.
func (lv *levels) owns(s states, name string) bool {
	return name == gitName && lv.private && s.path >= 0 && s.lower != inHostGit &&
		lv.rules.Child(s.path, gitName, true) == perm.Write && lv.rules.Child(s.path, gitName, false) == perm.Write
}

// apart reports whether an entry called name of a directory with the states s is an inode of the
// private git directories, or of the host's git directories that they show, and not one of the
// tree's directory.
func (lv *levels) apart(s states, name string) bool {
	return s.path == inPrivate || s.path == inHosts || lv.owns(s, name)
}

// childLevel returns the level of the entry called name of a directory with the states s.
func (lv *levels) child(s states, name string, isDir bool) perm.Level {
	switch {
	case s.path == inPrivate && name == HostsName, s.path == inHosts && name != alternates:
		return perm.Read
	case s.path == inHosts, s.path == inNothing:
		return perm.None
	case s.path == inPrivate, lv.owns(s, name):
		return perm.Write
	case lv.private && gitguard.Spelled(name):
		return perm.None // in a directory that ignores case it is the host's .git
	}
	l := lv.rules.Child(s.path, name, isDir)
	switch {
	case s.lower == inHostGit, lv.private && name == gitName:
		l = min(l, perm.Read)
	case s.renamed():
		l = min(l, lv.rules.Child(s.lower, name, isDir))
	}
	return l
}

// inside returns the states inside the entry called name of a directory with the states s; zero if
// the entry is not a directory. Its lower half, if it has one, has the same name.
func (lv *levels) inside(s states, name string, isDir bool) states {
	if !isDir {
		return states{}
	}
	switch {
	case s.path == inHosts, s.path == inPrivate && name == HostsName:
		return both(inHosts)
	case s.path == inNothing:
		return s
	case s.path == inPrivate, lv.owns(s, name):
		return both(inPrivate)
	}
	in := both(lv.rules.Enter(s.path, name))
	switch {
	case s.lower == inHostGit, lv.private && name == gitName:
		in.lower = inHostGit
	case s.renamed():
		in.lower = lv.rules.Enter(s.lower, name)
	}
	return in
}

// constant is Rules.Constant for both states: ok if all inside has the level l.
func (lv *levels) constant(s states) (l perm.Level, ok bool) {
	switch s.path {
	case inPrivate:
		return perm.Write, true
	case inHosts:
		return perm.Read, true
	case inNothing:
		return perm.None, true
	}
	l, ok = lv.rules.Constant(s.path)
	switch {
	case s.lower == inHostGit:
		return min(l, perm.Read), ok
	case !s.renamed():
		return l, ok
	}
	m, also := lv.rules.Constant(s.lower)
	switch {
	case ok && also:
		return min(l, m), true
	case ok && l == perm.None, also && m == perm.None:
		return perm.None, true
	}
	return 0, false
}

// level returns the level of e as a directory, or as anything else.
func (lv *levels) of(e *entry, isDir bool) perm.Level {
	l := &e.levels[0]
	if isDir {
		l = &e.levels[1]
	}
	if *l == unknownLevel {
		*l = lv.child(e.dir.getState(), e.name, isDir)
	}
	return *l
}

// hidden reports whether e is hidden, both as a file and as a directory.
func (lv *levels) hidden(e *entry) bool {
	return lv.of(e, false) == perm.None && lv.of(e, true) == perm.None
}

// judge returns the level of n at the entry called name of dir, which has the states s, and what
// holds inside n.
func (lv *levels) judge(n, dir *node, s states, name string) (perm.Level, states) {
	l, in := lv.child(s, name, n.isDir()), lv.inside(s, name, n.isDir())
	if n.layers != nil && n.borrows() {
		_, lower := lv.judgePath(n.layers.lowerPath(), false)
		l = min(l, lower)
	}
	if n.layers == nil || !n.isDir() {
		return l, in
	}
	switch half, path := n.half(dir, name); half {
	case cow.Own:
		in.lower = in.path
	case cow.Moved:
		var lower perm.Level
		in.lower, lower = lv.judgePath(path, true)
		l = min(l, lower)
	}
	return l, in
}

// judgePath returns the level of the object at a path from the root, perm.None if a directory on
// the way is hidden, and the state inside it.
func (lv *levels) judgePath(path string, isDir bool) (perm.State, perm.Level) {
	s, hidden := lv.rules.Root(), false
	for {
		name, rest, more := strings.Cut(path, "/")
		l := lv.rules.Child(s, name, isDir || more)
		s = lv.rules.Enter(s, name)
		if hidden = hidden || l == perm.None; hidden {
			l = perm.None
		}
		if !more {
			return s, l
		}
		path = rest
	}
}

// judgeMoved lowers the level of e as a directory to that of the path where the host has it.
func (lv *levels) judgeMoved(e *entry, lowerPath string) {
	_, l := lv.judgePath(lowerPath, true)
	e.levels[1] = min(lv.of(e, true), l)
}

// setRules sets the rules, and so the size that is presented for a directory: by other rules a
// directory can have other names, and its times do not show that. git trusts its list of names as
// long as times and size stay the same.
func (lv *levels) set(rules Rules) {
	const least, most = 4097, 1 << 16 // none that a file system has for a small directory
	lv.rules = rules
	for was := lv.dirSize; lv.dirSize == was; {
		lv.dirSize = least + rand.Uint64N(most-least)
	}
}

// stateOf returns the state inside the directory of a trail. known is a cache that has the
// root's.
func (lv *levels) stateOf(at *trail, known map[*trail]perm.State) perm.State {
	var way []*trail
	s, ok := known[at]
	for ; !ok; s, ok = known[at] {
		way = append(way, at)
		at = at.up
	}
	for _, at := range slices.Backward(way) {
		s = lv.inside(both(s), at.name, true).path
		known[at] = s
	}
	return s
}
