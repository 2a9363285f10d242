// Package local is the runtime of this host, in the process of the caller.
//
// A [Runtime] has three parts, each in a file of its name: sandboxes makes, starts, ends and
// describes sandboxes, executor runs commands in them, and sessions keeps shells in them.
//
// A start has three steps: plan decides what to start, launch starts it, and await waits until
// it is ready. It starts two processes of the wolffia binary, which outlive the caller:
//
//	wolffia shim TAG   the sandbox's own process: package shim
//	wolffia tree TAG   serves the filtered tree: package fusefs/treeserver
//
// Both can be there before a sandbox has a user: see [Runtime.StartPooled]. Create then finds such
// a pooled sandbox, and Start is one request to its shim.
//
// With a container engine it starts a third one, wolffia-oci keep TAG: package
// keeper. They get their parameters through descriptors (package
// internal/host/boot), not from a directory that could be changed meanwhile.
package local
