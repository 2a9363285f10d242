//go:build !crashtest

// Package step names the moments at which a crash matters: between two changes
// that others can see. In the product it is nothing. Built with the tag crashtest,
// a process tells each step to who listens at the abstract unix socket that its
// environment names, and waits there until it is let go on: so a test can kill
// whomever it likes just then.
package step

// Reached says that the step is done. name is a constant, or costs what it costs.
func Reached(name string) {}

// Env is what a process needs of our environment to be told of too.
func Env() []string { return nil }
