// Package gitcopy makes the private git directories of a sandbox: copies of what the host's have, but for the objects, which
// git inside reads in the host's own, and for credentials.
//
// It reads the host's files, which are the user's. What it makes lies in the sandbox's store, in which a program of
// the sandbox can change everything as soon as it is there.
package gitcopy
