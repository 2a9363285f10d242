// Package shim holds a sandbox: one host process for each, and the library
// that starts it and talks to it.
//
// [Runtime] runs in whoever wants a sandbox. For Start it starts two processes
// of the wolffia binary, which outlive it:
//
//	wolffia shim ID   in a user and mount namespace of its own; mounts the
//	                  tree, launches the backend, relays PID 1's stream to the
//	                  clients of its socket
//	wolffia tree ID   serves the tree; in the host's namespaces, as the user,
//	                  so that nothing of the sandbox can be in its way
//
// They get what they need through descriptors (see boot.go), not from a
// directory that somebody could have changed. Both hold the sandbox's lock;
// when it is free, both are gone, or have nothing left to do but to end.
//
// Hazards:
//   - The shim never touches the tree: no stat, no working directory and no
//     program in it. Its descriptor goes to the tree server before any child
//     of the shim is started.
//   - The backend dies with the thread that started it. So the shim's main
//     goroutine is locked to the main thread, starts the backend, and ends
//     with the process; no other goroutine locks its thread.
//   - What the guest says is checked (relay.go); it can hurt its own sandbox
//     only.
package shim
