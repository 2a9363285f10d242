package prefetch

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a wait for the turn to warm.
const (
	maxWaiting = 4                // the backlog of listen(2), which lets one more wait
	waitLimit  = 10 * time.Second // of one sandbox
	tries      = 50               // to take the turn, or to wait for it
	pause      = 2 * time.Millisecond
)

// Lock takes the turn to warm a tree, which one sandbox of a user on this host has at a time; if a few wait for it already, there
// is none. To warm the tree of a large codebase takes all processors for a fifth of a second, and many sandboxes that are created at
// once would take them from each other, and from what they are created for. done gives the turn back.
//
// The turn is an abstract socket (unix(7)): it needs no file that all shims can reach, and the kernel closes it with its process. A
// sandbox that waits is connected to it, so that it sees the end by a hang-up. Another program that takes the name keeps trees from
// being warmed, and costs each shim [tries] at most.
func Lock(uid int) (done func(), ok bool) {
	name := &unix.SockaddrUnix{Name: fmt.Sprintf("@wolffia-warm-%d", uid)}
	end := time.Now().Add(waitLimit)
	for range tries {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, false
		}
		if unix.Bind(fd, name) == nil && unix.Listen(fd, maxWaiting) == nil {
			return func() { _ = unix.Close(fd) }, true
		}
		err = unix.Connect(fd, name)
		if err == nil {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, int(max(0, time.Until(end)).Milliseconds())) // for POLLHUP
		}
		_ = unix.Close(fd)
		switch {
		case err == unix.ECONNREFUSED: // the turn has just ended, or its holder does not listen yet
			time.Sleep(pause)
		case err != nil: // EAGAIN: enough others wait
			return nil, false
		}
		if time.Now().After(end) {
			return nil, false
		}
	}
	return nil, false
}
