package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/runtime/launch"
)

// An instance is the backend's process, and PID 1 below it.
type instance struct {
	*launch.Instance
	pid1    func() hostInit // findInit, once
	killed  atomic.Bool     // PID 1 was, by kill
	ended   chan struct{}   // closed when the backend's process has ended
	gone    chan struct{}   // closed when also PID 1 and what the backend has left have ended
	stderr  *tail           // of the backend and PID 1
	drained chan struct{}   // closed at the end of their error output
}

// watch reads the error output and waits for the end, in the background.
func (i *instance) watch() {
	i.ended, i.gone, i.drained = make(chan struct{}), make(chan struct{}), make(chan struct{})
	i.stderr = newTail(os.Stderr)
	go func() { // ends with the backend
		// few have any
		_, _ = io.CopyBuffer(i.stderr, struct{ io.Reader }{i.Stderr}, make([]byte, 4<<10))
		close(i.drained)
	}()
	go func() { // ends with the backend
		_ = i.Wait()
		close(i.ended)
		i.reap()
		killOrphans()
		close(i.gone)
	}()
}

// kill kills PID 1 and the backend, which so end at the same time, and reports whether it did: PID
// 1 is not known of every backend. Of PID 1's mount namespace the shim keeps a descriptor: else
// PID 1 could not end before the kernel has taken that down, which takes milliseconds.
func (i *instance) kill() bool {
	pid1 := i.pid1()
	if pid1.pid == 0 {
		return false
	}
	// closed with the process
	_, _ = unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid1.pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err := unix.PidfdSendSignal(pid1.fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false
	}
	i.killed.Store(true)
	_ = i.Kill()
	return true
}

// reap waits for the end of a PID 1 that kill has killed. The backend has ended.
func (i *instance) reap() {
	if i.killed.Load() {
		for errors.Is(unix.Waitid(unix.P_PIDFD, i.pid1().fd, nil, unix.WEXITED, nil), unix.EINTR) {
		}
	}
}

// A hostInit is PID 1 as a process of the host.
type hostInit struct {
	pid  int      // 0: not found
	fd   int      // a descriptor of it (pidfd_open(2)), closed with the shim; -1 if pid is 0
	proc *os.File // the /proc that PID 1 sees, closed with the shim; nil if it has none
}

// findInit finds PID 1 below the backend's process. It takes 0.2 ms, so that the shim does it when
// no client waits.
func findInit(backend int) hostInit {
	if pid := initOf(backend); pid > 0 {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			if initOf(backend) == pid { // else the number may be another process's by now
				return hostInit{pid, fd, openProc(pid)}
			}
			_ = unix.Close(fd)
		}
	}
	return hostInit{0, -1, nil}
}

// openProc opens the /proc that a process sees. It returns nil if the process sees none.
func openProc(pid int) *os.File {
	dir, err := os.OpenFile(fmt.Sprintf("/proc/%d/root/proc", pid), unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil || st.Type != unix.PROC_SUPER_MAGIC {
		_ = dir.Close()
		return nil
	}
	return dir
}

// alone reports whether PID 1 is the only process of its PID namespace. The kernel says so. It can
// be asked once.
func (p hostInit) alone() bool {
	pids, err := proc.PIDs(p.proc) // an error without a /proc
	return err == nil && slices.Equal(pids, []int{1})
}

// unblock kills children that were stopped before they have executed their program. Any process
// inside can do that, and PID 1 waits for each in the kernel (CLONE_VFORK in clone(2)): it starts
// nothing, and reports no end. What was stopped later is a program's own business.
func (p hostInit) unblock() {
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	if err != nil {
		return // PID 1 has ended
	}
	for _, pid := range proc.AllChildren(p.pid) {
		// an error: it may work at the next beat
		fd, _ := proc.Signal(pid, unix.SIGKILL, func() (bool, error) {
			child, err := proc.Read(pid)
			if err != nil || child.Parent != p.pid || child.State != 'T' {
				return false, nil // it has ended
			}
			program, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return bytes.Equal(program, own), nil // it shares PID 1's memory
		})
		if fd >= 0 {
			_ = unix.Close(fd)
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
