// Package local is the runtime of this host, in the process of the caller.
//
// For Start it starts two processes of the wolffia binary, which outlive the
// caller:
//
//	wolffia shim ID   the sandbox's own process: package shim
//	wolffia tree ID   serves the filtered tree: package fusefs/treeserver
//
// With a container engine it starts a third one, wolffia-docker keep ID: package
// runtime/docker/keeper. They get what they need through descriptors (package
// internal/boot), not from a directory that could be changed meanwhile.
package local
