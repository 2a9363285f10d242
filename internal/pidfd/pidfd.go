// Package pidfd signals processes, and waits for their end, by descriptors that
// mean one process only (pidfd_open(2)).
package pidfd

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Signal sends sig to the process with that number if it is still the one that is
// meant: still is asked once a descriptor is open, which stays that of one process
// whatever becomes of the number. It returns the descriptor, which the caller
// closes; -1 if the process is gone, is another one, or with an error.
func Signal(pid int, sig unix.Signal, still func() (bool, error)) (fd int, err error) {
	fd, err = unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("process %d: %w", pid, err)
	}
	if is, err := still(); err != nil || !is {
		return -1, errors.Join(err, unix.Close(fd))
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return -1, errors.Join(fmt.Errorf("signal process %d: %w", pid, err), unix.Close(fd))
	}
	return fd, nil
}

// Kill is Signal with SIGKILL, and waits for the process's end, until end at the
// latest: then it is an error that it lives. A process that is gone is none.
func Kill(pid int, end time.Time, still func() (bool, error)) error {
	fd, err := Signal(pid, unix.SIGKILL, still)
	if fd < 0 || err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		left := time.Until(end)
		if left <= 0 {
			return fmt.Errorf("process %d was killed and does not end", pid)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
