// Package shim is a sandbox's process on the host: the relay from its clients to PID 1.
// It mounts the tree, launches the backend, and passes PID 1's stream on to the clients
// of its socket.
//
// Package local starts it as "wolffia shim ID", in a user and mount namespace of
// its own. It holds a part of the sandbox's lock, and so does the tree server;
// when the lock is free, both have ended, or are about to.
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
