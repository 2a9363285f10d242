package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// checkPoller returns an error if the kernel lets this user's processes watch no more descriptors.
// Go's runtime then ends every program with "epollctl failed with 28" as soon as it has a timer or
// opens a file, so that it comes before all of these. It takes some microseconds.
func checkPoller() error {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil // Go's runtime says so
	}
	defer unix.Close(epoll)
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil // as above
	}
	defer unix.Close(event)
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{}); !errors.Is(err, unix.ENOSPC) {
		return nil
	}
	return fmt.Errorf("processes of uid %d, which may be in a sandbox, watch as many descriptors as the kernel allows a user (fs.epoll.max_user_watches): "+
		"end the sandbox with kill -9 of its shim (ps -u %d -o pid,time,args | grep 'wolffia shim'), or have root raise the number with sysctl",
		os.Geteuid(), os.Geteuid())
}
