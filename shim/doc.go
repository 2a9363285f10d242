// Package shim is the host process of one sandbox. It mounts the codebase, launches
// the backend, and connects PID 1's stream with the clients of its socket.
//
// Package local starts it as "wolffia shim TAG", in a user and mount namespace of its
// own. It holds a part of the sandbox's lock, as the tree server does. A free lock
// means that both have ended, or are about to.
//
// Hazards:
//   - The shim never touches the codebase's mount: no stat, working directory or program
//     in it, but for prefetching and the echoer, which nothing waits for. It sends the mount's
//     descriptor to the tree server before it starts a child.
//   - The backend dies with the thread that started it. So the main goroutine is locked
//     to the main thread, starts the backend, and ends with the process. Of the
//     other goroutines only those of package inside and of the echoer lock their threads, which
//     start nothing.
//   - The guest is hostile. The relay checks its frames; the worst that it can do is to
//     end its own sandbox.
package shim
