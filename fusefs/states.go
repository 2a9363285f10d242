package fusefs

import (
	"sync"

	"wolffia/internal/git/gitguard"
	"wolffia/perm"
)

// levels say, by the rules, what may be done with a name.
type levels struct {
	// rulesMu is held for reading while a request is answered, for writing while the
	// rules change.
	rulesMu sync.RWMutex
	rules   Rules  // guarded by rulesMu
	dirSize uint64 // what is presented for a directory in which something may be hidden: see set; guarded by rulesMu
	private bool   // .git is the sandbox's own where the rules let it be written: Options.Git
}

// states are what holds inside a directory: the state by its path and, in a copied tree, the one by
// the path of its lower half, which is another if the directory was renamed. The stricter decides. In a direct tree lower is path,
// or inHostGit.
type states struct{ path, lower perm.State }

// both returns the states of a directory whose two paths are the same.
func both(s perm.State) states { return states{s, s} }

// pack and unpack are for node.state.
func (s states) pack() uint64  { return uint64(uint32(s.path)) | uint64(uint32(s.lower))<<32 }
func unpack(v uint64) states   { return states{perm.State(int32(v)), perm.State(int32(v >> 32))} }
func (s states) renamed() bool { return s.path != s.lower }

// The states of directories that the rules do not know.
const (
	inPrivate perm.State = -1 // a private git directory: all may be changed
	inHosts   perm.State = -2 // what HostsName shows: all may be read, but alternates
	inNothing perm.State = -3 // what is on the other side now, by new rules: see names.applyRulesToAll
	// inHostGit is the lower state in a git directory of the host's that the rules do not let be private: nothing may be changed,
	// whatever they say about what is in it.
	inHostGit perm.State = -4
)

// alternates is the name of a file whose paths git inside would not find.
const alternates = "alternates"

// apart reports whether an entry called name of a directory with the states s is an inode of the private git directories, or of
// what they show, and not one of the tree's directory.
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
