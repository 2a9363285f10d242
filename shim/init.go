package shim

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/proc"
	"wolffia/runtime/launch"
)

// A hostInit is PID 1 as a process of the host.
type hostInit struct {
	pid  int // 0: it is none, or was not found
	fd   int // a descriptor of it (pidfd_open(2)), closed with the shim; -1 if pid is 0
	proc int // a descriptor of the /proc that it sees, closed with the shim; -1 if there is none
}

// findInit finds PID 1 below the backend's process. It takes 0.2 ms, so that the shim does it when nobody waits.
func findInit(backend int) hostInit {
	if pid := initOf(backend); pid > 0 {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			if initOf(backend) == pid { // else the number may be another process's by now
				return hostInit{pid, fd, openProc(pid)}
			}
			_ = unix.Close(fd)
		}
	}
	return hostInit{0, -1, -1}
}

// openProc opens the /proc that a process sees. It returns -1 if that is none.
func openProc(pid int) int {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root/proc", pid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Type != unix.PROC_SUPER_MAGIC {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

// alone reports whether PID 1 is the only process of its PID namespace. The kernel says so, in the list of processes that is
// /proc (proc(5)), which has those of nested namespaces, too. It can be asked once.
func (p hostInit) alone() bool {
	if p.proc < 0 {
		return false
	}
	others, self := false, false
	for buf := make([]byte, 8<<10); ; {
		n, err := unix.ReadDirent(p.proc, buf)
		if err != nil {
			return false
		}
		if n == 0 {
			return self && !others
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			switch {
			case name == "1":
				self = true
			case name[0] >= '0' && name[0] <= '9':
				others = true
			}
		}
	}
}

// initOf returns the host's PID of PID 1 if the backend's process is its parent; else 0.
func initOf(backend int) int {
	children, _ := proc.Children(backend)
	for _, pid := range children {
		program, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.HasPrefix(string(program), launch.GuestPath+"\x00") {
			return pid
		}
	}
	return 0
}
