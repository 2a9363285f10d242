// Package crashtest kills any part of a sandbox, or whoever works on it, at each
// step of each operation, and compares what is left with a model. It has tests
// only, and a program for them.
package crashtest
