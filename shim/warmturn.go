package shim

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// How many sandboxes of a user wait for their turn to warm, about, and for how long each.
const (
	warmWaiters = 4
	warmWait    = 10 * time.Second
)

// warmTurn takes the turn to warm a tree, which one sandbox of a user on this host has at a time; if a few wait for it already, there
// is none. To warm the tree of a large codebase takes all processors for a fifth of a second, and many sandboxes that are created at
// once would take them from each other, and from what they are created for. done gives the turn back.
//
// The turn is an abstract socket (unix(7)): it needs no file that all shims can reach, and goes with its process. Who waits is
// connected, which ends with it. Whoever else takes the name only keeps trees from being warmed.
func warmTurn(uid int) (done func(), ok bool) {
	name := &unix.SockaddrUnix{Name: fmt.Sprintf("@wolffia-warm-%d", uid)}
	for end := time.Now().Add(warmWait); time.Now().Before(end); {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, false
		}
		if unix.Bind(fd, name) == nil && unix.Listen(fd, warmWaiters) == nil {
			return func() { _ = unix.Close(fd) }, true
		}
		// ECONNREFUSED: the turn has just ended, or just begun. EAGAIN: enough others wait.
		if err = unix.Connect(fd, name); err == nil {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, int(time.Until(end).Milliseconds())) // for POLLHUP
		}
		_ = unix.Close(fd)
		if err != nil && err != unix.ECONNREFUSED {
			return nil, false
		}
	}
	return nil, false
}
