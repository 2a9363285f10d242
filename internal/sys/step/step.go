//go:build !crashtest

// Package step marks the moments at which a crash matters: between two changes that others
// can see. It is a failpoint package. In the product it does nothing. Built with the tag
// crashtest, a process reports each step to the abstract unix socket that its environment
// names, and waits there until it is released: so a test can kill any process at that
// moment.
package step

// Reached marks a failpoint. name should be a constant: it is evaluated in the product.
func Reached(name string) {}

// Env returns the variables that a child process needs for its own failpoints.
func Env() []string { return nil }
