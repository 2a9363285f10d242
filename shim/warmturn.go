package shim

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// warmTurn takes the turn to warm a tree, which one sandbox of a user on this host has at a time; false: another one has it. To warm
// the tree of a large codebase takes all processors for a fifth of a second, and many sandboxes that are created at once would
// take them from each other, and from what they are created for. done gives the turn back.
//
// The turn is an abstract socket (unix(7)): it needs no file that all shims can reach, and goes with its process. Whoever else
// takes the name only keeps trees from being warmed.
func warmTurn(uid int) (done func(), ok bool) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	if unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@wolffia-warm-%d", uid)}) != nil {
		_ = unix.Close(fd)
		return nil, false
	}
	return func() { _ = unix.Close(fd) }, true
}
