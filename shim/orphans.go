package shim

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
)

// killOrphans kills and reaps all child processes. The shim's own must have been reaped.
// What a backend leaves behind becomes the shim's: a bubblewrap that is killed in its first
// moments is not bound to its parent yet, nor its children to it. These would wait for it
// for ever, or continue as PID 1.
func killOrphans() {
	self := os.Getpid()
	if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); errors.Is(err, unix.ECHILD) {
		return // as nearly always, in one system call
	}
	for orphans := proc.AllChildren(self); len(orphans) > 0; orphans = proc.AllChildren(self) {
		for _, pid := range orphans {
			_ = unix.Kill(pid, unix.SIGKILL)
			if _, err := unix.Wait4(pid, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}
}
