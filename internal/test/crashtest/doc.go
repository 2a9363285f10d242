// Package crashtest kills each process of a sandbox at each step of each operation. It
// also kills the caller, and compares what is left with a model. It has tests only, and a
// program for them.
package crashtest
