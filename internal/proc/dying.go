package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Dying is processes that are being killed. The zero Dying has none. It is not
// safe for concurrent use.
type Dying struct{ fds []unix.PollFd }

// Add is for a process that is alive, or not reaped. One that pidfd_open(2) has no
// descriptor for is not waited for.
func (d *Dying) Add(pid int) {
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		d.fds = append(d.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
}

// Wait waits until all are dead, though somebody may have to reap them yet, for
// limit at most: it is over at once, unless the kernel has a reason, or no processor
// for them. There are none then.
func (d *Dying) Wait(limit time.Duration) {
	late := time.Now().Add(limit)
	for i := range d.fds {
		for {
			left := time.Until(late).Milliseconds()
			n, err := unix.Poll(d.fds[i:i+1], int(max(left, 0)))
			if n > 0 || err != unix.EINTR && err != nil || left <= 0 {
				break
			}
		}
		_ = unix.Close(int(d.fds[i].Fd))
	}
	d.fds = nil
}
