// Package gitsync synchronises a sandbox's private git directory with the host's repository.
//
// The sandbox may do anything in its copy. The host's repository gets objects that its own
// git receive-pack has checked, moves of references by compare-and-swap, HEAD, and an index
// that its own git computes from trees. A file that the sandbox wrote never becomes a file of
// a git directory of the host, and is never read by the host's git.
//
// What crosses is decided by a pure function over three tables of references (plan.go): what
// both sides had at the last sync, what git inside has, and what the host has.
package gitsync
