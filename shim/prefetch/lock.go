package prefetch

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a wait for the lock.
const (
	maxWaiting = 4                // the backlog of listen(2), which lets one more wait
	waitLimit  = 10 * time.Second // of one sandbox
	tries      = 50               // to take the lock, or to wait for it
	pause      = 2 * time.Millisecond
)

// Lock takes the lock for prefetching, which one sandbox of a user on this host has at a time. ok
// is false if some sandboxes wait for it already, or the wait takes too long. Prefetching a large
// codebase takes all processors for a fifth of a second: many sandboxes that start at once would
// take them from each other, and from their commands. unlock releases the lock.
//
// The lock is an abstract socket (unix(7)): it needs no file that all shims can reach, and the
// kernel closes it with its process. A sandbox that waits is connected to the socket, so that it
// sees the end by a hang-up. Another program that binds the name prevents prefetching, and costs
// each shim at most [tries].
func Lock(uid int) (unlock func(), ok bool) {
	name := &unix.SockaddrUnix{Name: fmt.Sprintf("@wolffia@wolffia-prefetch-%d", uid)}
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
			// for POLLHUP
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, int(max(0, time.Until(end)).Milliseconds()))
		}
		_ = unix.Close(fd)
		switch {
		case err == unix.ECONNREFUSED: // the lock was just released, or its owner does not listen yet
			time.Sleep(pause)
		case err != nil: // EAGAIN: too many wait
			return nil, false
		}
		if time.Now().After(end) {
			return nil, false
		}
	}
	return nil, false
}
