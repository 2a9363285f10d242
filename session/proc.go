package session

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An inode names a file.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{st.Dev, st.Ino} }

// holders returns a function that reports whether a process has one of the
// files open.
func holders(files []inode) func(pid int) bool {
	if len(files) == 0 {
		return nil
	}
	return func(pid int) bool {
		name := "/proc/" + strconv.Itoa(pid) + "/fd"
		dir, err := os.Open(name)
		if err != nil {
			return false
		}
		defer dir.Close()
		fds, _ := dir.Readdirnames(-1)
		for _, fd := range fds {
			var st unix.Stat_t
			if unix.Fstatat(int(dir.Fd()), fd, &st, 0) != nil {
				continue
			}
			for _, f := range files {
				if inodeOf(&st) == f {
					return true
				}
			}
		}
		return false
	}
}

// children lists the child processes of a process's main thread; ok is false
// where the kernel does not tell (CONFIG_PROC_CHILDREN).
func children(pid int) (pids []int, ok bool) {
	p := strconv.Itoa(pid)
	b, err := os.ReadFile("/proc/" + p + "/task/" + p + "/children")
	if err != nil {
		return nil, false
	}
	for _, f := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(f); err == nil {
			pids = append(pids, n)
		}
	}
	return pids, true
}

// ignores reports whether a process ignores a signal.
func ignores(pid int, sig unix.Signal) bool { return inSet(pid, "SigIgn:", sig) }

// catches reports whether a process has a handler for a signal.
func catches(pid int, sig unix.Signal) bool { return inSet(pid, "SigCgt:", sig) }

// inSet reports whether a signal is in one of a process's sets
// (proc_pid_status(5)).
func inSet(pid int, set string, sig unix.Signal) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, set); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			return err == nil && mask>>(uint(sig)-1)&1 == 1
		}
	}
	return false
}

// sameCommandLine reports whether two processes were executed with the same
// arguments, as is a process that was forked and has not executed yet.
func sameCommandLine(a, b int) bool {
	one, err := os.ReadFile("/proc/" + strconv.Itoa(a) + "/cmdline")
	two, err2 := os.ReadFile("/proc/" + strconv.Itoa(b) + "/cmdline")
	return err == nil && err2 == nil && len(one) > 0 && bytes.Equal(one, two)
}
