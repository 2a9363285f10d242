package fusefs

import "wolffia/perm"

// states are what holds inside a directory: the state by its path and, in a copied tree, the one by
// the path of its lower half, which is another if the directory was renamed. The stricter decides.
type states struct{ path, lower perm.State }

// both returns the states of a directory whose two paths are the same.
func both(s perm.State) states { return states{s, s} }

// pack and unpack are for node.state.
func (s states) pack() uint64  { return uint64(uint32(s.path)) | uint64(uint32(s.lower))<<32 }
func unpack(v uint64) states   { return states{perm.State(int32(v)), perm.State(int32(v >> 32))} }
func (s states) renamed() bool { return s.path != s.lower }

// childLevel returns the level of the entry called name of a directory with the states s.
func (t *tree) childLevel(s states, name string, isDir bool) perm.Level {
	switch {
	case s.path == inPrivate && name == HostsName, s.path == inHosts && name != alternates:
		return perm.Read
	case s.path == inHosts:
		return perm.None
	case s.path == inPrivate, t.owns(s, name):
		return perm.Write
	}
	l := t.rules.Child(s.path, name, isDir)
	if s.renamed() {
		l = min(l, t.rules.Child(s.lower, name, isDir))
	}
	return l
}

// inside returns the states inside the entry called name of a directory with the states s; zero if
// the entry is not a directory. Its lower half, if it has one, has the same name.
func (t *tree) inside(s states, name string, isDir bool) states {
	if !isDir {
		return states{}
	}
	switch {
	case s.path == inHosts, s.path == inPrivate && name == HostsName:
		return both(inHosts)
	case s.path == inPrivate, t.owns(s, name):
		return both(inPrivate)
	}
	in := both(t.rules.Enter(s.path, name))
	if s.renamed() {
		in.lower = t.rules.Enter(s.lower, name)
	}
	return in
}

// constant is Rules.Constant for both states: ok if all inside has the level l.
func (t *tree) constant(s states) (l perm.Level, ok bool) {
	switch s.path {
	case inPrivate:
		return perm.Write, true
	case inHosts:
		return 0, false // alternates is hidden, and all can seemingly be removed: see removeShown
	}
	l, ok = t.rules.Constant(s.path)
	if !s.renamed() {
		return l, ok
	}
	m, also := t.rules.Constant(s.lower)
	switch {
	case ok && also:
		return min(l, m), true
	case ok && l == perm.None, also && m == perm.None:
		return perm.None, true
	}
	return 0, false
}
