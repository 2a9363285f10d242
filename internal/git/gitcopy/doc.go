// Package gitcopy makes the private git directories of a sandbox, as copies of the host's.
//
// It does not copy objects: git inside reads the host's. It omits credentials. Package gitcopy
// reads the host's files, which are the user's. The copies lie in the sandbox's store, in which a
// program of the sandbox can change everything as soon as it exists.
package gitcopy
