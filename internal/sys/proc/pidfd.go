package proc

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Signal sends sig to the process with that number if it is still the one that is
// meant: still is called once a descriptor is open (pidfd_open(2)), which stays that
// of one process if the number is used again. It returns the descriptor, which the
// caller closes; -1 if the process has ended, is another one, or with an error.
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

// Kill is Signal with SIGKILL, and waits for the process's end. A process that lives
// at the time end is an error; one that has ended is not.
func Kill(pid int, end time.Time, still func() (bool, error)) error {
	fd, err := Signal(pid, unix.SIGKILL, still)
	if fd < 0 || err != nil {
		return err
	}
	defer unix.Close(fd)
	if dead, err := AwaitDeath(fd, end); err != nil || dead {
		return err
	}
	return fmt.Errorf("process %d was killed and does not end", pid)
}

// AwaitDeath waits for the death of a process, which need not be reaped yet, until
// end at most.
func AwaitDeath(pidfd int, end time.Time) (dead bool, err error) {
	for {
		left := time.Until(end)
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int((max(left, 0)+time.Millisecond-1)/time.Millisecond))
		switch {
		case n > 0:
			return true, nil
		case err != nil && err != unix.EINTR:
			return false, err
		case left <= 0:
			return false, nil
		}
	}
}

// Await waits until a process is dead or stop is closed, without a thread that
// waits. Where that is impossible it returns a moment later.
func Await(pid int, stop <-chan struct{}) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		Pause(stop)
		return
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	over := make(chan struct{})
	defer close(over)
	go func() { // ends with this call
		select {
		case <-stop:
			_ = file.SetReadDeadline(time.Unix(0, 0))
		case <-over:
		}
	}()
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	err = conn.Read(func(fd uintptr) bool {
		dead, err := AwaitDeath(int(fd), time.Time{})
		return dead || err != nil
	})
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		Pause(stop)
	}
}

// Pause waits a moment for what no descriptor shows, or until stop is closed.
func Pause(stop <-chan struct{}) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-stop:
	case <-t.C:
	}
}

// pause is the time between two looks at what no descriptor shows.
const pause = 2 * time.Millisecond
