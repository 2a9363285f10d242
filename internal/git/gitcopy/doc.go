// Package gitcopy makes the private git directories of a sandbox: copies of what the host has.
//
// Objects are not copied: git inside reads them in the host's own. Credentials are left out.
// Package gitcopy reads the host's files, which are the user's. What it makes lies in the sandbox's
// store, in which a program of the sandbox can change everything as soon as it is there.
package gitcopy
