//go:build !crashtest

// Package step marks the moments at which a crash matters: between two changes that others
// can see. It is a failpoint package. In the product it does nothing. Built with the tag
// crashtest, a process reports each step to the abstract unix socket that its environment
// names, and waits there until it is released: so a test can kill any process at that
// moment.
package step

// Reached says that the step is done. name is a constant, or costs what it costs.
func Reached(name string) {}

// Env is what a process needs of our environment to be told of too.
func Env() []string { return nil }
