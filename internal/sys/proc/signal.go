package proc

import "golang.org/x/sys/unix"

// Send is kill(2): it sends a signal to a process, or to the process group that a negative number
// stands for. A signal that asks it to end continues it too if it is stopped, as timeout(1) has
// it: else it would not see the signal.
func Send(pid int, sig unix.Signal) error {
	err := unix.Kill(pid, sig)
	switch sig {
	case unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT:
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	return err
}
