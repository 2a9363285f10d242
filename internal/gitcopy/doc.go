// Package gitcopy makes a sandbox's private git directories, as copies of the host's.
//
// A copy has no objects, which git inside reads in the host's own directory, and no credentials.
//
// It reads the host's files, which are the user's. What it makes lies in the sandbox's store, in which a program of
// the sandbox can change everything as soon as it is there.
package gitcopy
