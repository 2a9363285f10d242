package fusefs

import "wolffia/perm"

// states are what holds inside a directory: the state by its path and, in a copied tree, the one
// by the path of its lower half, which is another if the directory was renamed. The stricter
// decides. In a direct tree lower is path, or inHostGit.
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
	inNothing perm.State = -3 // by new rules the object is on the other side now: see names.applyRulesToAll
	// inHostGit is the lower state in a git directory of the host's that the rules do not let be
	// private: nothing may be changed, whatever the rules allow in it.
	inHostGit perm.State = -4
)

// alternates is the name of a file whose paths git inside would not find.
const alternates = "alternates"
